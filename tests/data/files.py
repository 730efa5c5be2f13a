"""Pictures as bytes, and folders and archives of files."""

import io
import struct
import tarfile
import zlib

import numpy as np
from PIL import Image


def encoded(pixels: np.ndarray | Image.Image, kind: str = "PNG", **options) -> bytes:
    image = pixels if isinstance(pixels, Image.Image) else Image.fromarray(pixels)
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def deep_png(values, colours):
    """Encodes `[H, W, C]` as a PNG of 16 bits a channel, which Pillow cannot write."""
    height, width, _ = values.shape
    header = struct.pack(">IIBBBBB", width, height, 16, colours, 0, 0, 0)
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in values)
    data = b"\x89PNG\r\n\x1a\n"
    for kind, body in (
        (b"IHDR", header),
        (b"IDAT", zlib.compress(rows)),
        (b"IEND", b""),
    ):
        check = struct.pack(">I", zlib.crc32(kind + body))
        data += struct.pack(">I", len(body)) + kind + body + check
    return data


def write_folder(root, files):
    for name, data in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    return root


def write_tar(path, files, mode="w:gz", form=tarfile.PAX_FORMAT):
    with tarfile.open(path, mode, format=form) as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            if data is None:
                info.type = tarfile.DIRTYPE
            else:
                info.size = len(data)
            archive.addfile(info, io.BytesIO(data or b""))
    return path
