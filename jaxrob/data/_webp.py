"""The size of a WebP, before Pillow makes room for it."""

from jaxrob.data._source import MAX_PIXELS

# A picture of one colour has as many bytes in any size, so that only its size limits
# it: Pillow takes eight bytes for each pixel when it opens the file.
_MOST_PIXELS = MAX_PIXELS // 4


def check_webp(data: bytes) -> None:
    """Rejects a WebP of too many pixels; other files pass."""
    if data[:4] != b"RIFF" or data[8:12] != b"WEBP":
        return
    width, height = _size(data[12:16], data[20:34])
    if width * height > _MOST_PIXELS:
        raise ValueError(
            f"the header says {height}x{width} pixels; of a WebP at most "
            f"{_MOST_PIXELS} are read"
        )


def _size(kind: bytes, body: bytes) -> tuple[int, int]:
    """Returns width and height by the first chunk, of a kind."""

    def number(at: int, size: int) -> int:
        return int.from_bytes(body[at : at + size], "little")

    if kind == b"VP8X":
        return number(4, 3) + 1, number(7, 3) + 1
    if kind == b"VP8L":
        bits = number(1, 4)
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if kind == b"VP8 ":
        return number(6, 2) & 0x3FFF, number(8, 2) & 0x3FFF
    raise ValueError("a WebP without a picture at its start")
