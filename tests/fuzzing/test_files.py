"""Mutated files, and small ones that unpack to much, give a clear error in time."""

import importlib
import os
import random

import pytest

from ..data.files import write_folder, write_tar
from . import bombs
from .mutations import limited, mutated, ran_out

# The module, and the target in it.
READERS = [
    *(("documents", one) for one in ("json", "journal", "scores_journal", "attack")),
    *(("documents", one) for one in ("roma_journal", "roma_json")),
    *(("pictures", one) for one in ("tar", "image", "dicom", "nifti")),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("module", "reader"), READERS)
def test_any_bytes_are_refused_or_valid(tmp_path, cases, module, reader):
    made = importlib.import_module(f".{module}", __package__)
    target = getattr(made, f"{reader}_target")(tmp_path)
    rng, refused, originals = random.Random(f"0 {reader}"), 0, []
    # It keeps what the test failed on.
    path = tmp_path / "file"
    for seed in target.seeds:
        path.write_bytes(seed.wrap(seed.content))
        originals.append(target.read(path))
        target.check(originals[-1])
    for _ in range(cases):
        seed, original = rng.choice(list(zip(target.seeds, originals)))
        path.write_bytes(seed.wrap(mutated(seed.content, rng)))
        try:
            with limited():
                found = target.read(path)
        except (ValueError, OSError) as error:
            assert not ran_out(error)
            assert not target.names_file or str(path) in str(error)
            refused += 1
        else:
            target.check(found)
            assert not seed.is_protected or target.same(found, original)
    assert refused > cases / 5


def assert_refused(kind, path, message):
    files = path.glob("class/*") if path.is_dir() else [path]
    assert sum(one.stat().st_size for one in files) < 5 << 20
    with pytest.raises(ValueError, match=message) as caught, limited():
        bombs.read(kind, path)
    assert not ran_out(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("name", bombs.PICTURES)
def test_pictures_of_a_huge_size_are_refused(tmp_path, monkeypatch, name):
    suffix, make, message = bombs.PICTURES[name]
    data = make()
    files = data if isinstance(data, list) else [data]
    named = {f"class/{number}{suffix}": one for number, one in enumerate(files)}
    write_folder(tmp_path / name, named)
    # As in many programs.
    monkeypatch.setattr("PIL.Image.MAX_IMAGE_PIXELS", None)
    assert name in assert_refused("image_folder", tmp_path / name, message)


@pytest.mark.parametrize("name", bombs.FILES)
def test_files_that_unpack_to_much_are_refused(tmp_path, name):
    kind, make, message = bombs.FILES[name]
    (tmp_path / name).write_bytes(make())
    found = assert_refused(kind, tmp_path / name, message)
    assert kind == "from_json" or name in found


@pytest.mark.parametrize(
    ("what", "kind"),
    [
        ("named pipe", "read_idx"),
        ("named pipe", "npz"),
        ("named pipe", "weights"),
        ("named pipe", "image_folder"),
        ("device", "image_folder"),
    ],
)
def test_what_is_no_file_does_not_hang(tmp_path, what, kind):
    path = tmp_path / "class" / "file.png"
    path.parent.mkdir()
    if what == "named pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    where = tmp_path if kind == "image_folder" else path
    error = bombs.error_within_20_seconds(lambda: bombs.read(kind, where))
    assert f"file.png: not a regular file but a {what}" in error


def test_a_tar_of_too_many_members(tmp_path, monkeypatch):
    from jaxrob.data import _tar, image_folder

    data = bombs.png(20)
    write_tar(tmp_path / "tar", {f"class/{number}.png": data for number in range(10)})
    monkeypatch.setattr(_tar, "MAX_MEMBERS", 10)
    assert len(image_folder(tmp_path / "tar")) == 10
    monkeypatch.setattr(_tar, "MAX_MEMBERS", 9)
    with pytest.raises(ValueError, match="tar: .*more than 9 members"):
        image_folder(tmp_path / "tar")
