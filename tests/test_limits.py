"""Small files that unpack to large data are rejected before they fill the memory."""

import json
import os
import re
import subprocess
import sys
import threading

import numpy as np
import pytest

from . import bombs


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """The error of each reading in a process of little memory, by name."""
    folder = tmp_path_factory.mktemp("bombs")
    for name, (_, write, _) in bombs.BOMBS.items():
        write(folder / name)
        files = folder.glob(f"{name}/class/*") if (folder / name).is_dir() else ()
        size = sum(path.stat().st_size for path in files or [folder / name])
        assert size < 5 << 20
    process = subprocess.run(
        [sys.executable, bombs.__file__, folder],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert process.returncode == 0, process.stderr
    lines = map(json.loads, process.stdout.splitlines())
    return {name: rest for name, *rest in lines}


@pytest.mark.slow
@pytest.mark.parametrize("name", bombs.BOMBS)
def test_bombs_are_refused(found, name):
    if module := {"nifti": "nibabel", "dicom": "pydicom"}.get(name.split()[0]):
        pytest.importorskip(module, reason="needs jaxrob[medical]")
    kind, message, ran_out, seconds = found[name]
    assert kind in ("ValueError", "Unreadable") and not ran_out, message
    assert re.search(bombs.BOMBS[name][2], message), message
    if bombs.BOMBS[name][0] != "from_json":
        assert name in message
    assert seconds < 20


@pytest.mark.parametrize("what", ["named pipe", "device"])
@pytest.mark.parametrize("kind", ["read_idx", "load", "class", "weights"])
def test_what_is_no_file_does_not_hang(tmp_path, what, kind):
    path = tmp_path / "class" / "file.png"
    path.parent.mkdir()
    if what == "named pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    errors = []

    def run():
        import jaxrob

        try:
            if kind == "class":
                jaxrob.data.image_folder(tmp_path)
            elif kind == "weights":
                jaxrob.networks.load_idc_weights(path)
            else:
                bombs.read(kind, path)
        except BaseException as error:
            errors.append(error)

    # A thread, because a hang in opening a pipe cannot be interrupted.
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(20)
    assert not thread.is_alive(), "it hangs"
    assert isinstance(errors[0], ValueError)
    assert f"file.png: not a regular file but a {what}" in str(errors[0])


def test_images_beyond_the_limit_are_decoded_when_they_are_needed(tmp_path):
    from jaxrob.data import image_folder

    bombs.folder_of(10, bombs.png(20))(tmp_path / "folder")
    bombs.tar_of(10, bombs.png(20))(tmp_path / "tar")
    for path in (tmp_path / "folder", tmp_path / "tar"):
        held = image_folder(path, max_bytes=10 * 20 * 20 * 3).images
        read = image_folder(path, max_bytes=10 * 20 * 20 * 3 - 1).images
        assert isinstance(held, np.ndarray) and not isinstance(read, np.ndarray)
        np.testing.assert_array_equal(read[:], held)
    for wrong in (0, "1", 1.5, None):
        with pytest.raises((TypeError, ValueError), match="max_bytes must be"):
            image_folder(tmp_path / "tar", max_bytes=wrong)


def test_a_tar_of_too_many_members(tmp_path, monkeypatch):
    from jaxrob.data import _tar, image_folder

    bombs.tar_of(10, bombs.png(20))(tmp_path / "tar")
    monkeypatch.setattr(_tar, "MAX_MEMBERS", 10)
    assert len(image_folder(tmp_path / "tar")) == 10
    monkeypatch.setattr(_tar, "MAX_MEMBERS", 9)
    with pytest.raises(ValueError, match="tar: .*more than 9 members"):
        image_folder(tmp_path / "tar")
