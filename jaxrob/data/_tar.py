"""Tar archives read once, in order, without extracting anything to disk."""

import gzip
import os
import tarfile
import zlib
from collections.abc import Iterator

from jaxrob.data._files import MAX_FILE_BYTES, is_gzip

_CHUNK = 1 << 20
_DAMAGE = (
    tarfile.TarError,
    gzip.BadGzipFile,
    zlib.error,
    EOFError,
    # What a lying length in a header leads to.
    MemoryError,
    OverflowError,
)


def read_tar(
    path: str | os.PathLike[str],
) -> Iterator[tuple[tuple[str, ...], bytes | None]]:
    """Yields the visible files and folders of a tar or tar.gz archive, in its order.

    Members with a part of their name that begins with a dot are left out.

    Args:
      path: the archive; compression is recognised by its first bytes.

    Yields:
      The parts of each member's name, and its contents, or None for a folder.

    Raises:
      ValueError: if the archive is damaged or truncated, or a member is a link, a
        device, sparse, larger than 256 MiB, or has a name that leads outside.
    """
    path = os.fspath(path)
    with open(path, "rb") as file:
        stream = gzip.GzipFile(fileobj=file) if is_gzip(file) else file
        try:
            # Not tarfile's own decompression: the end of the stream is needed below.
            with tarfile.open(fileobj=stream, mode="r:") as archive:
                for member in archive:
                    parts = _parts(member.name, path)
                    if any(part.startswith(".") for part in parts):
                        continue
                    if member.isdir():
                        yield parts, None
                    else:
                        yield parts, _contents(archive, member, path)
                # tarfile takes a damaged header for the end of the archive.
                stream.seek(archive.offset)
                if stream.read(tarfile.BLOCKSIZE) != bytes(tarfile.BLOCKSIZE):
                    raise ValueError(
                        f"{path}: damaged or truncated at byte {archive.offset} of "
                        "the tar archive: neither a member nor the end"
                    )
                # At its end, gzip compares the checksum.
                while stream.read(_CHUNK):
                    pass
        except _DAMAGE as error:
            reason = str(error) or type(error).__name__
            raise ValueError(f"{path}: damaged tar archive: {reason}") from error


def _parts(name: str, path: str) -> tuple[str, ...]:
    parts = tuple(part for part in name.split("/") if part not in ("", "."))
    if name.startswith("/") or ".." in parts:
        raise ValueError(f"{path}: member {name!r} leads outside the archive")
    return parts


def _contents(archive: tarfile.TarFile, member: tarfile.TarInfo, path: str) -> bytes:
    regular = member.isfile() and not member.issparse()
    stream = archive.extractfile(member) if regular else None
    if stream is None:
        raise ValueError(
            f"{path}: member {member.name!r} is not a regular file but of tar type "
            f"{member.type!r}; links, devices and sparse files are not read"
        )
    if member.size > MAX_FILE_BYTES:
        raise ValueError(
            f"{path}: member {member.name!r} claims {member.size} bytes; at most "
            f"{MAX_FILE_BYTES} are read"
        )
    return stream.read()
