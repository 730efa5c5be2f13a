"""The tags of a TIFF file, read within its bytes and without a decoder."""

import math
from typing import Literal, NamedTuple

import numpy as np

# By their numbers in the file.
WIDTH, HEIGHT, BITS, COMPRESSION, PHOTOMETRIC = 256, 257, 258, 259, 262
FILL_ORDER, STRIP_OFFSETS, ORIENTATION, SAMPLES = 266, 273, 274, 277
ROWS_PER_STRIP, STRIP_BYTES, PLANAR, PREDICTOR = 278, 279, 284, 317
TILE_WIDTH, TILE_HEIGHT, TILE_OFFSETS, TILE_BYTES = 322, 323, 324, 325
EXTRA, FORMAT, MOST, LEAST_OF_FORMAT, MOST_OF_FORMAT = 338, 339, 281, 340, 341
_SUBFILE, _DEPTH, _TILE_DEPTH = 254, 32997, 32998
_WANTED = {
    *(WIDTH, HEIGHT, BITS, COMPRESSION, PHOTOMETRIC, FILL_ORDER, STRIP_OFFSETS),
    *(ORIENTATION, SAMPLES, ROWS_PER_STRIP, STRIP_BYTES, PLANAR, PREDICTOR),
    *(TILE_WIDTH, TILE_HEIGHT, TILE_OFFSETS, TILE_BYTES, EXTRA, FORMAT),
    *(MOST, LEAST_OF_FORMAT, MOST_OF_FORMAT, _SUBFILE, _DEPTH, _TILE_DEPTH),
}
# TIFF's types of a tag's values.
_TYPES = {
    **{1: "u1", 3: "u2", 4: "u4", 6: "i1", 8: "i2", 9: "i4"},
    **{11: "f4", 12: "f8", 13: "u4", 16: "u8", 17: "i8", 18: "u8"},
}
_MAGIC: dict[bytes, Literal["<", ">"]] = {
    b"II*\0": "<",
    b"MM\0*": ">",
    b"II+\0": "<",
    b"MM\0+": ">",
}
# A slide has hundreds of pages; a chain of empty ones takes six bytes each.
_MOST_PAGES = 10_000
_REDUCED = 1


class Tags(NamedTuple):
    """The tags of a file's first picture.

    Attributes:
      order: "<" or ">", the order of the bytes.
      values: the values of each tag that is wanted here, by its number.
      is_first_of_many: whether more pictures follow that are no thumbnails.
      orientation_at: where the orientation's bytes are, or None.
    """

    order: Literal["<", ">"]
    values: dict[int, np.ndarray]
    is_first_of_many: bool
    orientation_at: int | None

    def number(self, tag: int, default: int | None = None) -> int:
        """Returns a tag's only value as an integer.

        Raises:
          ValueError: if it is missing and there is no default, or no integer.
        """
        found = self.values.get(tag)
        if found is None and default is not None:
            return default
        if found is None or len(found) != 1 or found.dtype.kind not in "ui":
            raise ValueError(f"its tag {tag} must be one integer")
        return int(found[0])

    def numbers(self, tag: int, count: int, default: int) -> list[int]:
        """Returns a tag's values, one for each sample of a pixel.

        Raises:
          ValueError: if there is another number of them.
        """
        found = self.values.get(tag)
        if found is None:
            return [default] * count
        # Some writers state one value for all.
        found = np.repeat(found, count) if len(found) == 1 else found
        if len(found) != count or found.dtype.kind not in "ui":
            raise ValueError(f"its tag {tag} must hold {count} integers")
        return found.tolist()


def is_tiff(data: bytes) -> bool:
    """Whether a file begins like a TIFF."""
    return data[:4] in _MAGIC


def read_tags(data: bytes) -> Tags:
    """Reads the tags of a file's first picture, and counts the pictures.

    Raises:
      ValueError: if a directory lies outside the file or comes twice, or a tag does.
    """
    order, is_big = _MAGIC[data[:4]], data[2:4] in (b"+\0", b"\0+")
    at = _integer(data, 8 if is_big else 4, 8 if is_big else 4, order)
    visited: set[int] = set()
    first, others = None, 0
    while at:
        if at in visited or len(visited) == _MOST_PAGES:
            raise ValueError(
                "its directories lead in a circle"
                if at in visited
                else f"it has more than {_MOST_PAGES} pages"
            )
        visited.add(at)
        values, orientation_at, at = _directory(data, at, order, is_big)
        is_thumbnail = int(values.get(_SUBFILE, np.zeros(1))[0]) & _REDUCED
        if first is None:
            first = values, orientation_at
        elif not is_thumbnail:
            others += 1
    if first is None:
        raise ValueError("it has no picture")
    for tag in (_DEPTH, _TILE_DEPTH):
        if first[0].get(tag, np.ones(1)).tolist() != [1]:
            raise ValueError("it is a volume, not a picture")
    return Tags(order, first[0], others > 0, first[1])


def _directory(
    data: bytes, at: int, order: str, is_big: bool
) -> tuple[dict[int, np.ndarray], int | None, int]:
    """Returns a directory's values, where its orientation is, and the next's place."""
    size, wide = (20, 8) if is_big else (12, 4)
    number = _integer(data, at, 8 if is_big else 2, order)
    start = at + (8 if is_big else 2)
    end = start + number * size
    following = _integer(data, end, wide, order)
    values: dict[int, np.ndarray] = {}
    orientation_at = None
    for entry in range(start, end, size):
        tag = _integer(data, entry, 2, order)
        if tag not in _WANTED:
            continue
        if tag in values:
            raise ValueError(f"its tag {tag} comes twice")
        kind = _TYPES.get(_integer(data, entry + 2, 2, order))
        count = _integer(data, entry + 4, wide, order)
        if kind is None or count < 1:
            raise ValueError(f"its tag {tag} has no numbers")
        dtype = np.dtype(order + kind)
        place = entry + 4 + wide
        if count * dtype.itemsize > wide:
            place = _integer(data, place, wide, order)
        if place + count * dtype.itemsize > len(data):
            raise ValueError(f"its tag {tag} lies beyond its end")
        values[tag] = np.frombuffer(data, dtype, count, place)
        if tag == ORIENTATION:
            orientation_at = place
    return values, orientation_at, following


def _integer(data: bytes, at: int, size: int, order: str) -> int:
    if at + size > len(data):
        raise ValueError("truncated: a directory lies beyond its end")
    return int.from_bytes(data[at : at + size], "little" if order == "<" else "big")


def num_samples(tags: Tags) -> int:
    """Returns the samples of a pixel.

    Raises:
      ValueError: if there are none, or more than the 16 bits of the tag hold.
    """
    found = tags.number(SAMPLES, 1)
    if not 1 <= found < 1 << 16:
        raise ValueError(f"it says {found} samples a pixel")
    return found


def segments(tags: Tags, data: bytes) -> tuple[np.ndarray, np.ndarray]:
    """Returns the places and the lengths of a picture's strips or tiles.

    Raises:
      ValueError: if they are missing, or not in the file.
    """
    names = (STRIP_OFFSETS, STRIP_BYTES)
    if TILE_OFFSETS in tags.values:
        names = (TILE_OFFSETS, TILE_BYTES)
    if any(name not in tags.values for name in names):
        raise ValueError("it does not say where its pixels are")
    places, lengths = (tags.values[name] for name in names)
    if len(places) != len(lengths) or any(
        one.dtype.kind != "u" for one in (places, lengths)
    ):
        raise ValueError("it does not say where its pixels are")
    # As Python's integers: the sum may exceed 64 bits.
    ends = zip(places.tolist(), lengths.tolist())
    if any(place < 8 or place + length > len(data) for place, length in ends):
        raise ValueError("truncated: its pixels lie beyond its end")
    return places, lengths


def num_segments(tags: Tags, height: int, width: int) -> int:
    """Returns the number of strips or tiles of one plane."""
    if TILE_OFFSETS in tags.values:
        rows, columns = tags.number(TILE_HEIGHT), tags.number(TILE_WIDTH)
        return math.ceil(height / max(1, rows)) * math.ceil(width / max(1, columns))
    return math.ceil(height / max(1, min(tags.number(ROWS_PER_STRIP, height), height)))
