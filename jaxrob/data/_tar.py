"""Tar archives, of which one pass finds all members; nothing is extracted to disk."""

import gzip
import os
import re
import tarfile
import zlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from jaxrob._files import most_unpacked, open_file
from jaxrob.data._source import MAX_FILE_BYTES, is_gzip

# ImageNet has 1.4 million. A small archive can hold huge numbers of empty members.
MAX_MEMBERS = 4_000_000
# Of a header, with long names or attributes; contents are read in such parts, too.
_MOST_AT_ONCE = 64 << 10
# Types of headers that precede the member's own: attributes, and long names.
_PAX = (tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE)
_LONG = (tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK)
_DIGITS = re.compile(rb"\d{200}")
# The exceptions of tarfile, gzip and zlib for damaged files.
_DAMAGE = (
    *(tarfile.TarError, gzip.BadGzipFile, zlib.error, EOFError, IndexError, KeyError),
    # Endless chains of headers are recursions.
    *(MemoryError, OverflowError, RecursionError, ValueError),
)


class Member(NamedTuple):
    """A file in an archive; `contents` is None if they were not read."""

    offset: int
    size: int
    contents: bytes | None = None


def read_tar(
    path: str | os.PathLike[str],
    wanted: Callable[[str], bool],
    later: Callable[[str], bool] = lambda name: False,
) -> Iterator[tuple[tuple[str, ...], Member | None]]:
    """Yields the parts of names, and the files (None for a folder), of a tar or tar.gz.

    Hidden members, of which a part of the name begins with a dot, are not checked.
    """
    path = os.fspath(path)
    with open_file(path) as file:
        most, is_packed = most_unpacked(os.fstat(file.fileno()).st_size), is_gzip(file)
        # Not tarfile's own decompression, which does not read to the stream's end.
        unpacked: Any = gzip.GzipFile(fileobj=file) if is_packed else file
        stream: Any = _Bounded(unpacked, most)

        def is_read(name: str) -> bool:
            return wanted(name) or (is_packed and later(name))

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
                    if not is_hidden(parts):
                        _check_file(member, parts)
                        if is_read(parts[-1]):
                            stream.seek(member.offset_data)
                            contents = stream.contents(member.size)
                    yield parts, Member(member.offset_data, member.size, contents)
                # tarfile takes a damaged header for the archive's end.
                stream.seek(archive.offset)
                if stream.read(tarfile.BLOCKSIZE) != bytes(tarfile.BLOCKSIZE):
                    raise tarfile.ReadError(
                        f"damaged or truncated at byte {archive.offset}: neither a "
                        "member nor the end"
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
        found = file.read(member.size)
    if len(found) < member.size:
        raise ValueError(f"{os.fspath(path)}: it has become shorter")
    return found


def is_hidden(parts: tuple[str, ...]) -> bool:
    """Whether a part of a name begins with a dot."""
    return any(part.startswith(".") for part in parts)


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
            f"member {member.name!r} claims {member.size} bytes; at most "
            f"{MAX_FILE_BYTES} are read"
        )


class _Bounded:
    """A stream that limits the bytes read in all and of each header.

    tarfile reads as many as a header says, and decompresses what it skips.
    """

    def __init__(self, stream: Any, most: int) -> None:
        """Allows the first `most` bytes of a stream to be read."""
        self._stream, self._most, self.tell = stream, most, stream.tell
        # The type of the header whose contents are read next.
        self._kind = b""

    def read(self, size: int) -> bytes:
        """Reads a part of a header."""
        if not 0 <= size <= _MOST_AT_ONCE:
            raise tarfile.ReadError(f"a header of more than {_MOST_AT_ONCE} bytes")
        found = self._stream.read(size)
        self._check(self.tell())
        if self._kind in _PAX:
            _check_attributes(found)
        is_header = not self._kind and size == tarfile.BLOCKSIZE
        kind = found[156:157] if is_header else b""
        self._kind = kind if kind in _PAX + _LONG else b""
        return found

    def contents(self, size: int) -> bytes:
        """Reads the next `size` bytes."""
        self._check(self.tell() + size)
        found = self._stream.read(size)
        if len(found) < size:
            raise tarfile.ReadError(f"truncated: {len(found)} of {size} bytes")
        return found

    def seek(self, position: int) -> int:
        """Moves to a position."""
        self._check(position)
        return self._stream.seek(position)

    def _check(self, position: int) -> None:
        if position > self._most:
            raise tarfile.ReadError(
                f"more than {self._most} bytes, the most that an archive of this size "
                "may unpack to; unpack it first if that is meant"
            )


def _check_attributes(found: bytes) -> None:
    """Rejects what tarfile takes hours to read: records that end in no newline."""
    start = 0
    while start < len(found) and found[start] != 0:
        length = found[start : start + 10].partition(b" ")[0]
        stop = start + int(length) if length.isdigit() else start
        if stop <= start or found[stop - 1 : stop] != b"\n":
            raise tarfile.ReadError("damaged attributes of a member")
        start = stop
    if _DIGITS.search(found):
        raise tarfile.ReadError("attributes of a member with a number of 200 digits")
