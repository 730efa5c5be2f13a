"""Tar archives, of which one pass finds all members, and shards of WebDataset."""

import gzip
import json
import os
import pathlib
import re
import tarfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from jaxrob._arguments.checks import checked_path
from jaxrob._arguments.messages import named, wrong_type
from jaxrob._dataset import Dataset
from jaxrob._files import damage_of, most_unpacked, open_file
from jaxrob.data._classes import checked_class_names, numbered
from jaxrob.data._decode import SUFFIXES
from jaxrob.data._pictures import Pictures, as_dataset
from jaxrob.data._preparation import MAX_BYTES, checked_preparation
from jaxrob.data._source import MAX_FILE_BYTES, is_gzip, is_of_system

# Arrays are other fields of a sample.
_PICTURES = tuple(one.removeprefix(".") for one in SUFFIXES if one != ".npy")
_RANGE = re.compile(r"\{([0-9]+)\.\.([0-9]+)\}")
_MOST_SHARDS = 100_000
_FIELD = "label"


def tar_shards(
    shards: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    labels: str | None = "cls",
    class_names: Sequence[str] | str | os.PathLike[str] | None = None,
    size: int | tuple[int, int] | None = None,
    grey: bool = False,
    resize: int | None = None,
    crop: int | tuple[int, int] | None = None,
    interpolation: str = "bicubic",
    orientation: str = "exif",
    dct_scaling: bool = False,
    unreadable: str = "error",
    max_bytes: int = MAX_BYTES,
    background: str | None = None,
    value_range: tuple[float, float] | None = None,
    slice_at: tuple[int, int] | None = None,
) -> Dataset:
    """Loads images from tar archives in the layout of WebDataset.

    Example::

        dataset = jaxrob.data.tar_shards(
            "imagenet-val-{000000..000006}.tar", resize=256, crop=224
        )

    The files of a sample share their key, the path up to the first dot of the file's
    name: `0001.jpg` and `0001.cls`. Images are read where they stand, now or when they
    are needed, as by `image_folder`, in the order of the shards and of the samples in
    them. Other files of a sample are ignored, hidden and system files skipped.

    Args:
      shards: the path of an archive; a pattern of paths such as
        `"shard-{000000..000012}.tar"`; a folder, whose .tar files are read in the order
        of their names; or a sequence of paths.
      labels: "cls", if a sample's file `.cls` holds the class's index, or its name if
        `class_names` has it; "json" or "json:FIELD", if an object in its file `.json`
        has it in the field "label" or FIELD, an integer like its text; or None for
        images without labels.
      class_names: see `image_folder`; by default the sorted names, if there are any.
      size: see `image_folder`.
      grey: see `image_folder`.
      resize: see `image_folder`.
      crop: see `image_folder`.
      interpolation: see `image_folder`.
      orientation: see `image_folder`.
      dct_scaling: see `image_folder`.
      unreadable: see `image_folder`.
      max_bytes: see `image_folder`.
      background: see `image_folder`.
      value_range: see `image_folder`.
      slice_at: see `image_folder`.

    Raises:
      FileNotFoundError: if there is no such archive.
      TypeError: if `shards` is not a path or a sequence of paths.
      ValueError: if a shard is compressed, damaged, holds links or a name that leads
        outside, or comes twice; a sample has no image or several, or no label or an
        invalid one; or as `image_folder`. The message names the file.
      ImportError: if the package that reads a picture is missing.
    """
    prepared = checked_preparation(
        size=size,
        grey=grey,
        resize=resize,
        crop=crop,
        interpolation=interpolation,
        orientation=orientation,
        dct_scaling=dct_scaling,
        unreadable=unreadable,
        max_bytes=max_bytes,
        background=background,
        value_range=value_range,
        slice_at=slice_at,
    )
    extension, read_label = _checked_labels(labels)
    names = checked_class_names(class_names)
    paths = _paths(shards)
    samples: list[_Sample] = []
    skipped: list[str] = []
    for path in paths:
        in_shard, passed_over = _samples(path, extension, read_label)
        samples += in_shard
        skipped += passed_over
    if not samples:
        raise ValueError(f"{paths[0]}: no sample in it and the other shards")
    classes = None if labels is None else [sample.label for sample in samples]
    places = [f"{sample.shard}/{sample.name}" for sample in samples]
    numbers, names = numbered(classes, names, paths[0], places)
    pictures = Pictures(
        paths[0].parent if len(paths) > 1 else paths[0],
        [f"{sample.shard.name}/{sample.name}" for sample in samples],
        lambda index: read_member(samples[index].shard, samples[index].member),
        places.__getitem__,
        skipped,
    )
    return as_dataset(pictures, numbers, names, prepared)


class Member(NamedTuple):
    """A file in an archive; `contents` is None if they were not read."""

    offset: int
    size: int
    contents: bytes | None = None


class _Sample(NamedTuple):
    shard: pathlib.Path
    name: str  # The image's name in the shard
    member: Member
    label: str  # The class's index or name; empty without labels


def _samples(
    path: pathlib.Path, extension: str | None, read_label: Callable[[bytes], str]
) -> tuple[list[_Sample], list[str]]:
    with open_file(path) as file:
        if is_gzip(file) or path.suffix in (".xz", ".zst"):
            raise ValueError(f"{path}: compressed; make it a .tar, as gunzip does")
    pictures: dict[str, tuple[str, Member]] = {}
    labels: dict[str, str] = {}
    keys: dict[str, None] = {}
    skipped = []
    for parts, member in read_tar(path, lambda name: _split(name)[1] == extension):
        if member is None:
            continue
        name = "/".join(parts)
        if is_of_system(parts):
            skipped.append(f"{path.name}/{name}")
            continue
        stem, kind = _split(parts[-1])
        key = "/".join((*parts[:-1], stem))
        keys[key] = None
        if kind in _PICTURES:
            if key in pictures:
                raise ValueError(f"{path}/{name}: the second image of sample {key}")
            pictures[key] = name, member
        elif kind == extension:
            if key in labels:
                raise ValueError(f"{path}/{name}: the second label of the sample {key}")
            with damage_of(f"{path}/{name}"):
                labels[key] = read_label(member.contents or b"")
    for key in keys:
        if key not in pictures:
            raise ValueError(f"{path}: its sample {key} has no picture, as {key}.jpg")
        if extension is not None and key not in labels:
            raise ValueError(
                f"{path}: its sample {key} has no label; expected {key}.{extension}. "
                "labels= says where labels are, and labels=None reads images without"
            )
    samples = [
        _Sample(path, name, member, labels.get(key, ""))
        for key, (name, member) in pictures.items()
    ]
    return samples, skipped


def _split(name: str) -> tuple[str, str]:
    """Splits a file's name at the first dot into the key's end and the kind."""
    stem, _, kind = name.partition(".")
    return stem, kind.lower()


def _checked_labels(labels: Any) -> tuple[str | None, Callable[[bytes], str]]:
    """Returns the ending of files of labels, and a function that reads a label."""
    if labels is None:
        return None, bytes.decode
    allowed = '"cls", "json", "json:FIELD" or None'
    if not isinstance(labels, str):
        raise wrong_type("labels", allowed, labels)
    kind, _, field = labels.partition(":")
    if labels == "cls":
        return "cls", _class_in_text
    if kind == "json" and (field or labels == "json"):
        return "json", lambda data: _class_in_json(data, field or _FIELD)
    raise ValueError(f"labels must be {allowed}; got {labels!r}")


def _class_in_text(data: bytes) -> str:
    text = data.decode("utf-8-sig").strip()
    if not text or "\n" in text:
        raise ValueError(f"expected a class on one line; got {named(text[:40])}")
    return text


def _class_in_json(data: bytes, field: str) -> str:
    fields = json.loads(data)
    if not isinstance(fields, dict) or field not in fields:
        raise ValueError(f"expected an object with the field {field!r}")
    label = fields[field]
    is_index = type(label) is int and label >= 0
    if not is_index and not (isinstance(label, str) and label):
        raise ValueError(f"{field!r} must be an index or a name; got {named(label)}")
    return str(label)


def _paths(shards: Any) -> list[pathlib.Path]:
    if isinstance(shards, str | os.PathLike):
        path = checked_path("shards", shards)
        if path.is_dir():
            paths = _in_folder(path)
        else:
            paths = [path] if path.exists() else _expanded(os.fspath(path))
    elif isinstance(shards, Sequence) and not isinstance(shards, bytes):
        paths = [checked_path(f"shards[{at}]", item) for at, item in enumerate(shards)]
    else:
        raise wrong_type("shards", "a path or a sequence of paths", shards)
    if not paths:
        raise ValueError("shards must hold at least one path; got none")
    seen = set()
    for path in paths:
        if not path.is_file():
            raise FileNotFoundError(f"{path}: expected a tar archive there")
        if path.resolve() in seen:
            raise ValueError(f"shards must be different; {path} comes twice")
        seen.add(path.resolve())
    return paths


def _in_folder(path: pathlib.Path) -> list[pathlib.Path]:
    # Compressed ones are rejected when they are read.
    endings = ".tar", ".tar.gz", ".tgz", ".tar.xz", ".tar.zst"
    shown = [shard for shard in path.iterdir() if not shard.name.startswith(".")]
    shards = sorted(shard for shard in shown if shard.name.lower().endswith(endings))
    if not shards:
        raise ValueError(f"{path}: no .tar file in it")
    return shards


def _expanded(pattern: str) -> list[pathlib.Path]:
    """Expands ranges such as {000..012}, the first one slowest."""
    paths = [pattern]
    while match := _RANGE.search(paths[0]):
        first, last = match.groups()
        number = int(last) - int(first) + 1
        if number < 1 or number * len(paths) > _MOST_SHARDS:
            raise ValueError(
                f"shards must ascend in {match[0]}, to at most {_MOST_SHARDS} paths; "
                f"got {pattern!r}"
            )
        paths = [
            _RANGE.sub(f"{at:0{len(first)}}", path, count=1)
            for path in paths
            for at in range(int(first), int(last) + 1)
        ]
    return [pathlib.Path(path) for path in paths]


# ImageNet has 1.4 million. A small archive can hold huge numbers of empty members.
MAX_MEMBERS = 4_000_000
# Of a header, with long names or attributes; contents are read in such parts, too.
_MOST_AT_ONCE = 64 << 10
# Types of headers that precede the member's own: attributes, and long names.
_PAX = (tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE)
_LONG = (tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK)
_DIGITS = re.compile(rb"\d{200}")
_DAMAGE = (
    *(tarfile.TarError, gzip.BadGzipFile, zlib.error, EOFError, IndexError, KeyError),
    # Endless chains of headers are recursions.
    *(MemoryError, OverflowError, RecursionError, ValueError),
)


def read_tar(
    path: str | os.PathLike[str],
    wanted: Callable[[str], bool],
    later: Callable[[str], bool] = lambda name: False,
) -> Iterator[tuple[tuple[str, ...], Member | None]]:
    """Yields names' parts and files (None for folders); hidden ones are not checked."""
    path = os.fspath(path)
    with open_file(path) as file:
        most, is_packed = most_unpacked(os.fstat(file.fileno()).st_size), is_gzip(file)
        # Not tarfile's own decompression, which does not read to the stream's end.
        unpacked: Any = gzip.GzipFile(fileobj=file) if is_packed else file
        stream: Any = _Bounded(unpacked, most)

        try:
            with tarfile.TarFile(fileobj=stream) as archive:
                for number, member in enumerate(_members(archive)):
                    if number == MAX_MEMBERS:
                        raise tarfile.ReadError(f"more than {MAX_MEMBERS} members")
                    parts = _parts(member.name)
                    if member.isdir():
                        yield parts, None
                        continue
                    contents = None
                    if not is_of_system(parts):
                        _check_file(member, parts)
                        if wanted(parts[-1]) or (is_packed and later(parts[-1])):
                            stream.seek(member.offset_data)
                            contents = stream.contents(member.size)
                    yield parts, Member(member.offset_data, member.size, contents)
                # tarfile takes a damaged header for the archive's end.
                stream.seek(archive.offset)
                if stream.read(tarfile.BLOCKSIZE) != bytes(tarfile.BLOCKSIZE):
                    raise tarfile.ReadError(
                        f"damaged, or truncated, at byte {archive.offset}"
                    )
                # gzip verifies the checksum at the end.
                while stream.read(_MOST_AT_ONCE):
                    pass
        except _DAMAGE as error:
            reason = str(error) or type(error).__name__
            raise ValueError(f"{path}: not a readable tar archive: {reason}") from error


def read_member(path: str | os.PathLike[str], member: Member) -> bytes:
    """Returns a member's contents; a ValueError if the archive has become shorter."""
    if member.contents is not None:
        return member.contents
    try:
        file = open_file(path)
    except FileNotFoundError as error:
        raise ValueError(f"{os.fspath(path)}: it is no longer there") from error
    with file:
        file.seek(member.offset)
        contents = file.read(member.size)
    if len(contents) < member.size:
        raise ValueError(f"{os.fspath(path)}: it has become shorter")
    return contents


def _members(archive: Any) -> Iterator[tarfile.TarInfo]:
    while (member := archive.next()) is not None:
        # tarfile would keep all members.
        archive.members.clear()
        # A global header may change the size, but not where the next member begins.
        size = member.size if member.isreg() and not member.issparse() else 0
        if member.size < 0 or archive.offset < member.offset_data + size:
            raise tarfile.ReadError(f"member {member.name!r} has a wrong size")
        # They are copied for each member.
        shared = archive.pax_headers.items()
        if sum(len(key) + len(value) for key, value in shared) > _MOST_AT_ONCE:
            raise tarfile.ReadError("too many attributes for all members")
        yield member


def _parts(name: str) -> tuple[str, ...]:
    parts = tuple(part for part in name.split("/") if part not in ("", "."))
    if name.startswith("/") or ".." in parts:
        raise tarfile.ReadError(f"member {name!r} leads outside the archive")
    return parts


def _check_file(member: tarfile.TarInfo, parts: tuple[str, ...]) -> None:
    if not parts:
        raise tarfile.ReadError(f"a file with no name but {member.name!r}")
    if not member.isfile() or member.issparse():
        raise tarfile.ReadError(
            f"member {member.name!r} is not a regular file but of tar type "
            f"{member.type!r}; links, devices and sparse files are not read"
        )
    if member.size > MAX_FILE_BYTES:
        raise tarfile.ReadError(
            f"member {member.name!r} has {member.size} bytes, over {MAX_FILE_BYTES}"
        )


class _Bounded:
    """Limits what tarfile reads: it trusts headers, and decompresses what it skips."""

    def __init__(self, stream: Any, most: int) -> None:
        self._stream, self._most, self.tell = stream, most, stream.tell
        # The type of the header whose contents are read next.
        self._kind = b""

    def read(self, size: int) -> bytes:
        if not 0 <= size <= _MOST_AT_ONCE:
            raise tarfile.ReadError(f"a header of more than {_MOST_AT_ONCE} bytes")
        data = self._stream.read(size)
        self._check(self.tell())
        if self._kind in _PAX:
            _check_attributes(data)
        is_header = not self._kind and size == tarfile.BLOCKSIZE
        kind = data[156:157] if is_header else b""
        self._kind = kind if kind in _PAX + _LONG else b""
        return data

    def contents(self, size: int) -> bytes:
        self._check(self.tell() + size)
        data = self._stream.read(size)
        if len(data) < size:
            raise tarfile.ReadError(f"truncated: {len(data)} of {size} bytes")
        return data

    def seek(self, position: int) -> int:
        self._check(position)
        return self._stream.seek(position)

    def _check(self, position: int) -> None:
        if position > self._most:
            raise tarfile.ReadError(
                f"more than {self._most} bytes, the most that an archive of this size "
                "may unpack to; unpack it first if that is meant"
            )


def _check_attributes(attributes: bytes) -> None:
    """Rejects what tarfile takes hours to read: records that end in no newline."""
    start = 0
    while start < len(attributes) and attributes[start] != 0:
        length = attributes[start : start + 10].partition(b" ")[0]
        stop = start + int(length) if length.isdigit() else start
        if stop <= start or attributes[stop - 1 : stop] != b"\n":
            raise tarfile.ReadError("damaged attributes of a member")
        start = stop
    if _DIGITS.search(attributes):
        raise tarfile.ReadError("attributes of a member with a number of 200 digits")
