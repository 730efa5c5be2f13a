"""IDX files, images and tar archives."""

import gzip
import io
import struct
import tarfile
import zlib

import numpy as np
from PIL import Image

from jaxrob.data import image_folder

from ..data.files import dicom, encoded, nifti, npy, tiff
from .mutations import ROOM, Seed, Target


def pictures():
    """By name: a file of each format whose contents decide."""
    rng = np.random.default_rng(0)
    rgb = rng.integers(0, 256, (5, 7, 3), dtype=np.uint8)
    palette = Image.fromarray(rgb).convert("P", palette=Image.Palette.ADAPTIVE)
    deep = rng.integers(0, 2**16, (5, 7), dtype=np.uint16)
    tiles = {"tile": (16, 16), "compression": "zlib", "predictor": True}
    return {
        "rgb": encoded(rgb),
        "palette": encoded(palette),
        "deep": encoded(deep),
        "jpeg": encoded(rgb, "JPEG"),
        "progressive": encoded(rgb, "JPEG", progressive=True),
        "webp": encoded(rgb, "WEBP", lossless=True),
        "bmp": encoded(rgb, "BMP"),
        "tiff": encoded(rgb, "TIFF", compression="tiff_lzw"),
        "deep tiff": tiff(deep, **tiles),
        "npy": npy(rgb),
    }


def image_target(folder):
    seeds = []
    for name, data in pictures().items():
        seeds.append(Seed(data))
        if name in ("rgb", "palette", "deep"):
            seeds.append(Seed(data, with_png_checks))
    # The same for every file, whatever its size.
    sizes = {"size": lambda data: [None, (3, 4)][len(data) % 2]}
    return reader_of("x.png", folder, seeds, **sizes)


def dicom_target(folder):
    values = np.random.default_rng(0).integers(0, 4096, (6, 9), dtype=np.uint16)
    seeds = [Seed(dicom(values, WindowCenter=40, WindowWidth=400))]
    return reader_of("x.dcm", folder, seeds)


def nifti_target(folder):
    data = nifti(np.arange(60, dtype=np.int16).reshape(3, 4, 5))
    # The header alone.
    seeds = [Seed(data[:352], lambda header: header + data[352:])]
    return reader_of("x.nii", folder, seeds, slice_at=lambda data: (2, 0))


def reader_of(name, folder, seeds, **options):
    place = folder / "pictures" / "class" / name
    place.parent.mkdir(parents=True)

    def read(path):
        data = path.read_bytes()
        place.write_bytes(data)
        given = {option: choose(data) for option, choose in options.items()}
        try:
            return image_folder(folder / "pictures", **given)
        except ValueError as error:
            raise ValueError(str(error).replace(str(place), str(path))) from error

    return Target(seeds, read, check_pictures)


def check_pictures(dataset):
    images = dataset.images
    assert images.dtype in (np.uint8, np.float32)
    assert images.ndim == 4 and images.shape[3] >= 2
    assert np.isfinite(images).all() and images.min() >= 0
    assert images.dtype == np.uint8 or images.max() <= 1
    assert images.nbytes < ROOM and len(dataset.labels) == len(images) > 0
    assert dataset.labels.max() < len(dataset.class_names)


def with_png_checks(data):
    """The checksums of all chunks put right, as far as the lengths lead."""
    out, place = data[:8], 8
    while place + 12 <= len(data):
        (length,) = struct.unpack(">I", data[place : place + 4])
        body = data[place + 4 : place + 8 + length]
        out += data[place : place + 4] + body + struct.pack(">I", zlib.crc32(body))
        place += 12 + length
    return out


def tar_target(folder):
    data = pictures()["rgb"]
    seeds = []
    for form in (tarfile.USTAR_FORMAT, tarfile.PAX_FORMAT, tarfile.GNU_FORMAT):
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w", format=form) as archive:
            for name in ("a/1.png", "a/2.png", f"{'b' * 120}/é{'3' * 90}.png"):
                if form == tarfile.USTAR_FORMAT:
                    name = f"{name[0]}/{name[-5:]}"
                info = tarfile.TarInfo(name)
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
        whole = buffer.getvalue()
        seeds.append(Seed(whole))
        seeds.append(Seed(gzip.compress(whole), is_protected=True))
        seeds.append(Seed(whole, with_tar_checks))
        seeds.append(Seed(whole, lambda data: gzip.compress(with_tar_checks(data))))
    original = None

    def check(dataset):
        nonlocal original
        check_pictures(dataset)
        if original is None:
            original = dataset.images[0]
        # Each picture guards itself.
        assert all((image == original).all() for image in dataset.images)

    def same(one, other):
        return np.array_equal(one.images, other.images)

    return Target(seeds, image_folder, check, same)


def with_tar_checks(data):
    """The checksums of all blocks that look like headers put right."""
    blocks = [data[at : at + 512] for at in range(0, len(data), 512)]
    for number, block in enumerate(blocks):
        if len(block) == 512 and b"ustar" in block[250:270]:
            block = block[:148] + b" " * 8 + block[156:]
            blocks[number] = block[:148] + b"%06o\0 " % sum(block) + block[156:]
    return b"".join(blocks)
