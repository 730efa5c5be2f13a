"""Tar archives, of which one pass finds all members; nothing is extracted to disk."""

import gzip
import os
import re
import tarfile
import zlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, cast

from jaxrob._files.regular import most_unpacked, open_file
from jaxrob.data._files import MAX_FILE_BYTES, is_gzip

# ImageNet has 1.4 million. A small archive can hold huge numbers of empty members.
MAX_MEMBERS = 4_000_000
# The headers before a member's contents, with long names and further attributes.
_MAX_HEADER_BYTES = 64 << 10
_CHUNK = 1 << 20
# Types of headers that precede the member's own.
_PAX = (tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE)
_LONG = (tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK)
_DIGITS = re.compile(rb"\d{200}")
# The exceptions of tarfile, gzip and zlib for damaged files.
_DAMAGE = (
    tarfile.TarError,
    gzip.BadGzipFile,
    zlib.error,
    EOFError,
    IndexError,
    KeyError,
    MemoryError,
    OverflowError,
    # Endless chains of headers.
    RecursionError,
    ValueError,
)


class Member(NamedTuple):
    """A file in an archive.

    Attributes:
      offset: where its contents begin in the archive; without meaning if compressed.
      size: of its contents, in bytes.
      contents: None if they were not read.
    """

    offset: int
    size: int
    contents: bytes | None = None


def read_tar(
    path: str | os.PathLike[str],
    wanted: Callable[[str], bool],
    later: Callable[[str], bool] = lambda name: False,
) -> Iterator[tuple[tuple[str, ...], Member | None]]:
    """Yields the files and folders of a tar or tar.gz archive, in its order.

    Hidden members, of which a part of the name begins with a dot, are not checked.

    Args:
      path: the archive; compression is recognised by its first bytes.
      wanted: whether to read a file of that name, without its folders.
      later: whether `read_member` will read it: then its contents are read now only if
        the archive is compressed.

    Yields:
      The parts of each member's name, and the member: None for a folder.

    Raises:
      ValueError: if the archive is damaged or truncated, holds more than 4 million
        members, or unpacks to more than `most_unpacked` allows; or if a member is a
        link, a device, sparse, larger than 256 MiB, or has a name that leads outside.
    """
    path = os.fspath(path)
    with open_file(path) as file:
        size = os.fstat(file.fileno()).st_size
        is_packed = is_gzip(file)
        unpacked = gzip.GzipFile(fileobj=file) if is_packed else file
        stream = _Bounded(unpacked, most_unpacked(size))

        def is_read(name: str) -> bool:
            return wanted(name) or (is_packed and later(name))

        try:
            # Not tarfile's own decompression, which does not read to the stream's end.
            with tarfile.TarFile(fileobj=cast(Any, stream)) as archive:
                yield from _files(archive, stream, is_read)
        except _DAMAGE as error:
            reason = str(error) or type(error).__name__
            raise ValueError(f"{path}: not a readable tar archive: {reason}") from error


def read_member(path: str | os.PathLike[str], member: Member) -> bytes:
    """Returns a member's contents.

    Raises:
      ValueError: if the archive is no longer there, or ends before them.
    """
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


def _files(
    archive: tarfile.TarFile, stream: "_Bounded", is_read: Callable[[str], bool]
) -> Iterator[tuple[tuple[str, ...], Member | None]]:
    for member in _members(archive, stream):
        parts = _parts(member.name)
        if member.isdir():
            yield parts, None
            continue
        contents = None
        if not is_hidden(parts):
            _check_file(member)
            if not parts:
                raise tarfile.ReadError(f"a file with no name but {member.name!r}")
            if is_read(parts[-1]):
                contents = _contents(member, stream)
        yield parts, Member(member.offset_data, member.size, contents)
    # tarfile treats a damaged header as the end of the archive.
    stream.begin_member()
    stream.seek(archive.offset)
    if stream.read(tarfile.BLOCKSIZE) != bytes(tarfile.BLOCKSIZE):
        raise tarfile.ReadError(
            f"damaged or truncated at byte {archive.offset}: neither a member nor the "
            "end"
        )
    # gzip verifies the checksum at the end.
    while stream.contents(_CHUNK):
        pass


def _members(archive: tarfile.TarFile, stream: "_Bounded") -> Iterator[tarfile.TarInfo]:
    number = 0
    while (member := archive.next()) is not None:
        # tarfile would keep all members.
        cast(Any, archive).members.clear()
        number += 1
        if number > MAX_MEMBERS:
            raise tarfile.ReadError(
                f"more than {MAX_MEMBERS} members; unpack it first if that is meant"
            )
        # A global header may change the size, but not where the next member begins.
        size = member.size if member.isreg() and not member.issparse() else 0
        if member.size < 0 or archive.offset < member.offset_data + size:
            raise tarfile.ReadError(f"member {member.name!r} has a wrong size")
        shared = archive.pax_headers.items()
        if sum(len(key) + len(value) for key, value in shared) > _MAX_HEADER_BYTES:
            raise tarfile.ReadError("too many attributes for all members")
        yield member
        stream.begin_member()


def _parts(name: str) -> tuple[str, ...]:
    parts = tuple(part for part in name.split("/") if part not in ("", "."))
    if name.startswith("/") or ".." in parts:
        raise tarfile.ReadError(f"member {name!r} leads outside the archive")
    return parts


def _check_file(member: tarfile.TarInfo) -> None:
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


def _contents(member: tarfile.TarInfo, stream: "_Bounded") -> bytes:
    stream.seek(member.offset_data)
    found = stream.contents(member.size)
    if len(found) < member.size:
        raise tarfile.ReadError(
            f"truncated: member {member.name!r} has {len(found)} of {member.size} bytes"
        )
    return found


class _Bounded:
    """A stream that limits the bytes read in all and for each member's headers.

    tarfile trusts the lengths in headers: it reads as many bytes, and decompresses
    contents to skip them.
    """

    def __init__(self, stream: Any, most: int) -> None:
        """Allows the first `most` bytes of a stream to be read."""
        self._stream = stream
        self._most = most
        self.begin_member()

    def begin_member(self) -> None:
        """Allows the headers of one more member to be read."""
        self._left = _MAX_HEADER_BYTES
        # The type of the header whose contents (names or attributes) are read next.
        self._kind = b""

    def contents(self, size: int) -> bytes:
        """Reads the next `size` bytes, or fewer at the end."""
        found = bytearray()
        while len(found) < size:
            part = self._stream.read(min(_CHUNK, size - len(found)))
            if not part:
                break
            self._check_end(self.tell())
            found += part
        return bytes(found)

    def read(self, size: int) -> bytes:
        """Reads a part of a header."""
        if not 0 <= size <= self._left:
            raise tarfile.ReadError(
                f"a header of more than {_MAX_HEADER_BYTES} bytes, or of a negative "
                "length"
            )
        self._left -= size
        found = self._stream.read(size)
        self._check_end(self.tell())
        if self._kind in _PAX:
            _check_attributes(found)
        is_header = not self._kind and size == tarfile.BLOCKSIZE
        kind = found[156:157] if is_header else b""
        self._kind = kind if kind in _PAX + _LONG else b""
        return found

    def seek(self, position: int) -> int:
        """Moves to a position."""
        self._check_end(position)
        return self._stream.seek(position)

    def tell(self) -> int:
        """Returns the position."""
        return self._stream.tell()

    def _check_end(self, position: int) -> None:
        if position > self._most:
            raise tarfile.ReadError(
                f"more than {self._most} bytes, the most that an archive of this size "
                "may unpack to; unpack it first if that is meant"
            )


def _check_attributes(found: bytes) -> None:
    """Rejects attributes that tarfile's less strict parser takes very long to read.

    Args:
      found: records of length, keyword and value, one on each line, then zeros.
    """
    start = 0
    while start < len(found) and found[start] != 0:
        length = found[start : start + 10].partition(b" ")[0]
        stop = start + int(length) if length.isdigit() else start
        if stop <= start or found[stop - 1 : stop] != b"\n":
            raise tarfile.ReadError("damaged attributes of a member")
        start = stop
    if _DIGITS.search(found):
        raise tarfile.ReadError("attributes of a member with a number of 200 digits")
