"""Files that are written together: whatever happens in between, all or none are new."""

import contextlib
import errno
import itertools
import os
import resource
import threading

import pytest

from jaxrob._files import swap
from jaxrob._files.swap import is_there, read_together, write_together
from jaxrob._files.writing import write_file

# "b" goes with the new ones, and "a" and "last" are in both.
OLD = {"a": b"old" * 3000, "b": b"old", "last": b"old"}
NEW = {"c": b"new" * 9000, "a": b"new", "last": b"new" * 2000}
MORE = {f"more {number}": b"new" for number in range(6)}
TOTAL = sum(map(len, NEW.values()))
OPERATIONS = (
    *("open", "write", "fsync", "mkdir", "rename", "replace", "unlink", "rmdir"),
    "listdir",
)


@pytest.fixture(autouse=True)
def disk(monkeypatch):
    """A disk that takes no time, of which no power is cut."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


class Killed(BaseException):
    """Nothing is done on the disk any more."""


@contextlib.contextmanager
def killed_at(moment):
    """No operation on files is done from one on; of a write, half is."""
    with pytest.MonkeyPatch.context() as patch:
        number = itertools.count()

        def dying(name, do):
            def done(*arguments, **named):
                now = next(number)
                if now == moment and name == "write":
                    do(arguments[0], arguments[1][: len(arguments[1]) // 2])
                if now >= moment:
                    raise Killed
                return do(*arguments, **named)

            return done

        for name in OPERATIONS:
            patch.setattr(os, name, dying(name, getattr(os, name)))
        yield


@contextlib.contextmanager
def room_for(left):
    """A disk with room for so many bytes."""
    with pytest.MonkeyPatch.context() as patch:
        write = os.write

        def written(file, content):
            nonlocal left
            if not left:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            done = write(file, content[:left])
            left -= done
            return done

        patch.setattr(os, "write", written)
        yield


def old_in(folder):
    folder.mkdir(exist_ok=True)
    write_together(folder, OLD, ["c"])
    assert files(folder) == OLD
    return folder


def write_new(folder):
    write_together(folder, NEW, ["b"])


def files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def read(folder):
    def all_of(place):
        found = {name: place(name) for name in ("a", "b", "c", "last")}
        return {name: at.read_bytes() for name, at in found.items() if at.exists()}

    return read_together(folder, "last", all_of)


@pytest.mark.slow
@pytest.mark.parametrize("before", [OLD, {}])
def test_killed_at_any_moment_all_or_none_are_new(tmp_path, before):
    new = MORE | NEW
    seen = []
    for moment in itertools.count():
        folder = tmp_path / str(moment)
        folder.mkdir()
        if before:
            old_in(folder)
        try:
            with killed_at(moment):
                write_together(folder, new, ["b"])
            break
        except Killed:
            pass
        assert is_there(folder, "last") == bool(read(folder))
        # What counts was put in its place.
        there = [path for path in folder.iterdir() if path.is_file()]
        seen.append({path.name: path.read_bytes() for path in there})
        assert seen[-1] in (before, new)
        # Nothing is left of it by the next one.
        write_together(folder, OLD, ["c", *MORE])
        assert files(folder) == OLD
    assert files(folder) == new
    assert len(seen) >= 50 and before in seen and new in seen
    assert seen == sorted(seen, key=lambda one: one == new)


def test_a_reader_or_writer_that_is_killed_as_it_goes_on_changes_nothing(tmp_path):
    moments = []
    for first in itertools.count():
        folder = old_in(tmp_path / f"at {first}")
        try:
            with killed_at(first):
                write_new(folder)
            break
        except Killed:
            pass
        expected = None
        for then in range(0, 40, 3):
            with contextlib.suppress(Killed), killed_at(then):
                read(folder)
            found = {}
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(swap, "_finish_interrupted", lambda folder, wait: None)
                found = read(folder)
            assert found == (expected or found) and found in (OLD, NEW)
            expected = found
        moments.append(expected)
    assert OLD in moments and NEW in moments


def test_a_full_disk_changes_nothing_and_names_the_file(tmp_path):
    folder = old_in(tmp_path / "folder")
    for room in range(0, TOTAL, 500):
        with room_for(room), pytest.raises(OSError, match="No space left") as error:
            write_new(folder)
        place = next(
            name
            for name, size in zip(NEW, itertools.accumulate(map(len, NEW.values())))
            if room < size
        )
        assert error.value.filename == str(folder / place)
        assert error.value.errno == errno.ENOSPC and "stays" in str(error.value)
        assert files(folder) == OLD
    with room_for(TOTAL + 1000):
        write_new(folder)
    assert files(folder) == NEW


def test_files_larger_than_the_system_allows(tmp_path):
    folder = old_in(tmp_path / "folder")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    for largest in range(0, 27_000, 3000):
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest, before[1]))
        try:
            with pytest.raises(OSError, match="File too large"):
                write_new(folder)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert files(folder) == OLD


def test_who_may_not_write_is_told_the_folder(tmp_path, monkeypatch):
    folder = old_in(tmp_path / "folder")

    def refuse(*_, **__):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(os, "mkdir", refuse)
    with pytest.raises(OSError, match="Read-only") as error:
        write_new(folder)
    assert error.value.filename == str(folder)
    assert read(folder) == files(folder) == OLD


@pytest.mark.parametrize("denied", ["replace", "unlink"])
def test_where_nothing_can_be_moved_it_is_read_from_where_it_is(
    tmp_path, monkeypatch, denied
):
    folder = old_in(tmp_path / "folder")
    with monkeypatch.context() as patch:

        def refuse(*_, **__):
            raise PermissionError(errno.EACCES, "denied")

        patch.setattr(os, denied, refuse)
        with pytest.raises(PermissionError):
            write_new(folder)
        assert read(folder) == NEW and (folder / "unfinished.swap").is_dir()
    assert read(folder) == files(folder) == NEW


def test_what_is_in_the_way_is_found_before(tmp_path):
    folder = old_in(tmp_path / "folder")
    (folder / "c").mkdir()
    with pytest.raises(IsADirectoryError) as error:
        write_new(folder)
    assert error.value.filename == str(folder / "c")
    (folder / "c").rmdir()
    assert read(folder) == files(folder) == OLD
    (folder / "unfinished.swap").mkdir()
    (folder / "unfinished.swap" / "x").touch()
    with pytest.raises(OSError, match="in the way"):
        write_new(folder)
    assert read(folder) == OLD


@pytest.mark.parametrize(
    "manifest",
    [
        "",
        "[]",
        '{"format": "jaxrob swap 2", "moved": [], "gone": []}',
        '{"format": "jaxrob swap 1", "moved": ["../x"], "gone": []}',
        '{"format": "jaxrob swap 1", "moved": [], "gone": ["/etc/x"]}',
        '{"format": "jaxrob swap 1", "moved": [".."], "gone": []}',
        '{"format": "jaxrob swap 1", "moved": [""], "gone": []}',
        '{"format": "jaxrob swap 1", "moved": [3], "gone": []}',
    ],
)
def test_a_manifest_that_nobody_wrote_is_refused(tmp_path, manifest):
    folder = old_in(tmp_path / "folder")
    (folder / "unfinished.swap").mkdir()
    (folder / "unfinished.swap" / "manifest").write_text(manifest)
    for use in (read, write_new):
        with pytest.raises((ValueError, OSError), match=r"unfinished.swap/manifest: "):
            use(folder)
    assert {path.name for path in folder.iterdir()} == {*OLD, "unfinished.swap"}


def test_links_are_not_followed(tmp_path):
    folder, outside = old_in(tmp_path / "folder"), tmp_path / "outside"
    outside.mkdir()
    (outside / "a").write_text("secret")
    manifest = '{"format": "jaxrob swap 1", "moved": ["a"], "gone": []}'
    (outside / "manifest").write_text(manifest)
    (folder / "unfinished.swap").symlink_to(outside)
    with pytest.raises(ValueError, match=r"unfinished.swap: not a folder"):
        read(folder)
    assert (outside / "a").exists()
    (folder / "unfinished.swap").unlink()
    (folder / "unfinished.new-1").symlink_to(outside)
    write_new(folder)
    assert (outside / "a").exists()


def test_what_is_rewritten_meanwhile_is_read_again(tmp_path):
    folder, calls = old_in(tmp_path / "folder"), []

    def disturbed(place):
        calls.append(place)
        if len(calls) == 1:
            write_new(folder)
            raise FileNotFoundError
        return place("last").read_bytes()

    assert read_together(folder, "last", disturbed) == NEW["last"]
    assert len(calls) == 2
    with pytest.raises(OSError, match="all the time"):
        read_together(folder, "last", lambda place: write_new(folder))


def test_a_subfolder_that_another_writer_removed_is_made_again(tmp_path, monkeypatch):
    folder, made, mkdir = old_in(tmp_path / "folder"), [], os.mkdir

    def removed_once(path):
        mkdir(path)
        made.append(path)
        if len(made) == 1:
            os.rmdir(path)

    monkeypatch.setattr(os, "mkdir", removed_once)
    write_new(folder)
    assert len(made) == 2 and read(folder) == files(folder) == NEW


def test_readers_and_writers_at_once(tmp_path):
    folder = old_in(tmp_path / "folder")
    errors, is_over = [], threading.Event()

    def run(do):
        try:
            while not is_over.is_set():
                do()
        except BaseException as error:
            errors.append(error)

    def check():
        assert read(folder) in (OLD, NEW)

    both = lambda: write_new(folder), lambda: write_together(folder, OLD, ["c"])
    threads = [threading.Thread(target=run, args=[do]) for do in (*both, *both, check)]
    for thread in threads:
        thread.start()
    is_over.wait(0.3)
    is_over.set()
    for thread in threads:
        thread.join(30)
    assert not errors and not any(thread.is_alive() for thread in threads)
    assert files(folder) in (OLD, NEW)


def test_a_file_is_written_whole_or_not_at_all(tmp_path):
    path = tmp_path / "file"
    write_file(path, b"old")
    for room in (0, 1, 2):
        with room_for(room), pytest.raises(OSError, match="No space left") as error:
            write_file(path, b"new")
        assert error.value.filename == str(path)
        assert files(tmp_path) == {"file": b"old"}
    with pytest.raises(FileNotFoundError) as error:
        write_file(tmp_path / "none" / "file", b"new")
    assert error.value.filename == str(tmp_path / "none" / "file")
    for moment in itertools.count():
        try:
            with killed_at(moment):
                write_file(path, b"new")
            break
        except Killed:
            assert path.read_bytes() in (b"old", b"new")
    assert path.read_bytes() == b"new"


def test_a_pipe_is_written_to_and_stays(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    write_file(pipe, b"new" * 100)
    reader.join(60)
    assert read == [b"new" * 100] and pipe.is_fifo()


def test_of_a_link_the_file_is_replaced(tmp_path):
    (tmp_path / "file").write_bytes(b"old")
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "new").symlink_to("none")
    for name, target in (("link", "file"), ("new", "none")):
        write_file(tmp_path / name, b"new")
        assert (tmp_path / name).is_symlink()
        assert (tmp_path / target).read_bytes() == b"new"


def test_a_folder_is_no_file(tmp_path):
    with pytest.raises(IsADirectoryError, match="cannot be written"):
        write_file(tmp_path, b"new")
    assert list(tmp_path.iterdir()) == []
