"""EXIF orientations of images."""

import re
import struct
from collections.abc import Mapping
from typing import Any

from jaxrob.data._tiff_tags import ORIENTATION, Tags

_EXIF = b"Exif\0\0"
_BYTE_ORDERS = {b"II*\0": "<", b"MM\0*": ">"}
_ORIENTATION = 0x112
# TIFF's numbers of the integer types of a tag's value: two and four bytes.
_INTEGERS = {3: "H", 4: "L"}
_IN_XMP = re.compile(r'tiff:Orientation(?:="|>)([0-9])')
_START_OF_SCAN = 0xDA


def orientation(info: Mapping[Any, Any]) -> int | None:
    """Returns an image's orientation, from 1 to 8; 1, upright, if it has no such entry.

    Args:
      info: Pillow's information on an image beside its pixels.

    Returns:
      The number, or None if the entry is damaged or not an orientation.
    """
    try:
        found = _in_exif(_exif(info)) or _in_xmp(info)
    except (struct.error, ValueError):
        return None
    if not found:
        return 1
    # Two different orientations are ambiguous.
    (number, *others) = found
    return None if others or not 1 <= number <= 8 else number


def hide_exif(data: bytes) -> tuple[bytes, bytes]:
    """Returns a JPEG in which Pillow finds no EXIF, and the EXIF.

    When Pillow opens a JPEG it looks for a resolution in the EXIF, and warns or fails
    if it is damaged.
    """
    hidden, exif, at = None, b"", 2
    while at + 10 <= len(data) and data[at] == 0xFF and data[at + 1] != _START_OF_SCAN:
        if data[at + 1] == 0xFF:  # Fill bytes between segments.
            at += 1
            continue
        end = at + 2 + int.from_bytes(data[at + 2 : at + 4], "big")
        if data[at + 1] == 0xE1 and data[at + 4 : at + 10] == _EXIF:
            hidden = hidden or bytearray(data)
            hidden[at + 4] = ord("e")
            exif += data[at + 10 : end]
        at = end
    return (data if hidden is None else bytes(hidden)), exif


def hide_orientation(data: bytes, tags: Tags) -> bytes:
    """Returns a TIFF whose orientation says upright: Pillow would turn it on its own.

    Args:
      data: the file's bytes.
      tags: its tags.
    """
    at = tags.orientation_at
    if at is None:
        return data
    size = tags.values[ORIENTATION].dtype.itemsize
    order = "little" if tags.order == "<" else "big"
    return data[:at] + (1).to_bytes(size, order) + data[at + size :]


def _exif(info: Mapping[Any, Any]) -> bytes:
    exif = info.get("exif")
    if exif is None and "Raw profile type exif" in info:
        # ImageMagick's format: name and length, then hexadecimal digits.
        exif = bytes.fromhex("".join(info["Raw profile type exif"].split("\n")[3:]))
    return (exif or b"").removeprefix(_EXIF).removeprefix(_EXIF)


def _in_exif(exif: bytes) -> set[int]:
    """Returns the orientations in the first directory, usually one or an empty set.

    Raises:
      ValueError: if it is not EXIF, or the value is not a number.
      struct.error: if it ends before an orientation.
    """
    found: set[int] = set()
    if not exif:
        return found
    if exif[:4] not in _BYTE_ORDERS:
        raise ValueError("no EXIF begins so")
    order = _BYTE_ORDERS[exif[:4]]
    try:
        (at,) = struct.unpack_from(f"{order}L", exif, 4)
        (entries,) = struct.unpack_from(f"{order}H", exif, at)
        for entry in range(at + 2, at + 2 + 12 * entries, 12):
            tag, kind, number = struct.unpack_from(f"{order}HHL", exif, entry)
            if tag != _ORIENTATION:
                continue
            if kind not in _INTEGERS or number != 1:
                raise ValueError("the orientation is no number")
            found.update(
                struct.unpack_from(f"{order}{_INTEGERS[kind]}", exif, entry + 8)
            )
    except struct.error:
        # The part after the orientation may be missing.
        if not found:
            raise
    return found


def _in_xmp(info: Mapping[Any, Any]) -> set[int]:
    xmp = info.get("XML:com.adobe.xmp") or info.get("xmp") or ""
    if isinstance(xmp, bytes):
        xmp = xmp.decode("latin-1")
    found = _IN_XMP.search(xmp)
    return {int(found[1])} if found else set()
