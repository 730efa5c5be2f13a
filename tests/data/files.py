"""Pictures as bytes, and folders and archives of files."""

import io
import pathlib
import struct
import tarfile
import warnings
import zlib

import numpy as np
import pytest
from PIL import Image


def encoded(pixels: np.ndarray | Image.Image, kind: str = "PNG", **options) -> bytes:
    image = pixels if isinstance(pixels, Image.Image) else Image.fromarray(pixels)
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def deep_png(values, colours):
    """Encodes `[H, W, C]` as a PNG of 16 bits a channel, which Pillow cannot write."""
    height, width, _ = values.shape
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in values)
    return bare_png((width, height), 16, colours, rows)


def bare_png(size, bits, colours, rows):
    header = struct.pack(">IIBBBBB", *size, bits, colours, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(rows, 9)), (b"IEND", b""))
    data = b"\x89PNG\r\n\x1a\n"
    for kind, body in parts:
        check = struct.pack(">I", zlib.crc32(kind + body))
        data += struct.pack(">I", len(body)) + kind + body + check
    return data


def bare_tiff(tags, pixels, following=0):
    """Returns a TIFF of these tags, each one number, and a strip of pixels."""
    start = 8 + len(pixels) + len(pixels) % 2
    tags = {273: 8, 279: len(pixels)} | dict(tags)
    entries = b"".join(
        struct.pack("<HHLL", tag, 4, 1, number) for tag, number in sorted(tags.items())
    )
    head = struct.pack("<2sHL", b"II", 42, start) + pixels.ljust(start - 8, b"\0")
    return head + struct.pack("<H", len(tags)) + entries + struct.pack("<L", following)


def tiff(values, **options):
    import tifffile

    buffer = io.BytesIO()
    options = {"photometric": "minisblack", **options}
    if options["photometric"] == "minisblack" and values.ndim == 3:
        options.setdefault("planarconfig", "contig")
    tifffile.imwrite(buffer, values, metadata=None, **options)
    return buffer.getvalue()


def npy(values):
    buffer = io.BytesIO()
    np.save(buffer, values)
    return buffer.getvalue()


def dicom(values, syntax=None, bits=12, **elements):
    """Returns a file of `[H, W]`, `[N, H, W]` or RGB `[H, W, 3]` values."""
    pydicom = pytest.importorskip("pydicom", reason="needs jaxrob[medical]")
    found = pydicom.Dataset()
    found.file_meta = pydicom.dataset.FileMetaDataset()
    syntax = syntax or pydicom.uid.ExplicitVRLittleEndian
    found.file_meta.TransferSyntaxUID = syntax
    found.SOPClassUID = pydicom.uid.SecondaryCaptureImageStorage
    found.SOPInstanceUID = "1.2.3"
    is_colour = values.ndim == 3 and values.shape[-1] == 3
    if values.ndim == 3 and not is_colour:
        found.NumberOfFrames = len(values)
    found.Rows, found.Columns = values.shape[:2] if is_colour else values.shape[-2:]
    found.SamplesPerPixel = 3 if is_colour else 1
    if is_colour:
        found.PlanarConfiguration = 0
    found.PhotometricInterpretation = "RGB" if is_colour else "MONOCHROME2"
    found.BitsAllocated = 8 * values.dtype.itemsize
    found.BitsStored, found.HighBit = bits, bits - 1
    found.PixelRepresentation = int(values.dtype.kind == "i")
    found.PixelData = values.tobytes()
    for name, value in elements.items():
        if value is None:
            delattr(found, name)
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # Of invalid values.
                setattr(found, name, value)
    return saved(found)


def saved(dataset):
    buffer = io.BytesIO()
    dataset.save_as(buffer, enforce_file_format=True)
    return buffer.getvalue()


def nifti(values, kind="Nifti1Image", display=(0, 1000), slope=None):
    nibabel = pytest.importorskip("nibabel", reason="needs jaxrob[medical]")
    image = getattr(nibabel, kind)(values, np.eye(4))
    image.header["cal_min"], image.header["cal_max"] = display
    if slope is not None:
        image.header.set_slope_inter(*slope)
    return image.to_bytes()


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


class Trap:
    """An object that leaves a trace when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return pathlib.Path.touch, (pathlib.Path(self.path),)
