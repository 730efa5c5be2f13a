"""Small files that unpack to large data, or claim to."""

import base64
import copy
import gzip
import io
import json
import struct
import tarfile
import threading
import zipfile
import zlib

import numpy as np

from ..data.files import bare_png, bare_tiff, nifti


def png(side):
    return bare_png((side, side), 1, 0, bytes(1 + -(-side // 8)) * side)


def tiff(height, width, pixels, following=0, tags=()):
    """Returns a TIFF of 16 bits a sample, deflated, of one strip."""
    numbers = {256: width, 257: height, 258: 16, 259: 8, 262: 1, 277: 1, 278: height}
    return bare_tiff(numbers | dict(tags), pixels, following)


def webp(side):
    """Returns a WebP that claims a canvas, and has no picture on it."""
    canvas = (side - 1).to_bytes(3, "little") * 2
    body = b"WEBPVP8X" + struct.pack("<LL", 10, 0) + canvas
    return b"RIFF" + struct.pack("<L", len(body)) + body


def huge_nifti(*shape):
    """Returns the header of a volume of 16 bits, whose contents are missing."""
    data = bytearray(nifti(np.zeros((8, 8, 1), np.int16)))
    data[42:48] = struct.pack("<3h", *shape)
    return bytes(data[:352])


def zeros(number, before=b"", wbits=31):
    """Returns zeros as a gzip stream, made without compressing them all.

    Its checksum is wrong: nobody may read so far.
    """
    header = zlib.compressobj(9, wbits=wbits)
    start = header.compress(before) + header.flush(zlib.Z_FULL_FLUSH)
    stream = zlib.compressobj(9, wbits=-15)
    block = stream.compress(bytes(1 << 20)) + stream.flush(zlib.Z_FULL_FLUSH)
    end = struct.pack("<II", 0, (len(before) + number) % 2**32)
    return start + block * (number >> 20) + b"\x03\0" + end


def tar_header(name, size, kind=tarfile.REGTYPE):
    info = tarfile.TarInfo(name)
    info.size, info.type = size, kind
    return info.tobuf(tarfile.GNU_FORMAT)


def negative_size():
    """Returns a header with a negative size: the next member is itself."""
    header = bytearray(tar_header("a/1.txt", 0))
    header[124:136] = b"\xff" * 10 + struct.pack(">h", -512)
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return tar_header("a/0.txt", 0) + bytes(header) + bytes(1024)


def slow_attributes():
    """Returns a tar whose attributes take tarfile's own search hours."""
    body = b"2 " * (31 << 10)
    header = tar_header("././@PaxHeader", len(body), tarfile.XHDTYPE)
    return (header + body + bytes(-len(body) % 512)) * 40 + bytes(1024)


def npy(shape, data=b""):
    stream = io.BytesIO()
    header = {"descr": "<f4", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(stream, header)
    return stream.getvalue() + data


def npz():
    """Returns one array of a megabyte under 2,000 names."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("a.npy", npy((1 << 18,), bytes(1 << 20)))
        for number in range(2000):
            archive.filelist.append(copy.copy(archive.filelist[0]))
            archive.filelist[-1].filename = f"{number:04}.npy"
    return buffer.getvalue()


def assessment():
    from .documents import assessments

    return json.loads(assessments()[0].to_json())


def many_images():
    """Returns counts of 150 million images; the answers are zeros in base64 of zlib."""
    number, document = 150 << 20, assessment()
    document["confusion"] = [[[number] + [0] * 3] + [[0] * 4] * 2] * 3
    for name, size in (("predicted", 6), ("labels", 4)):
        data = base64.b64encode(zeros(number * size, wbits=15)).decode()
        document["answers"][name]["base64_zlib"] = data
    return json.dumps(document).encode()


def strings():
    """Returns an array with one long string: NumPy allocates as much for each."""
    document = assessment() | {"confusion": ["x" * 10**6] + [""] * 10**5}
    return json.dumps(document).encode()


def of_zeros(kind):
    # Hidden: of other files the size is limited.
    return zeros(1 << 30, tar_header(".x", 1 << 30, kind))


MOST = "at most 178956970 are read"
# By name: the file's suffix, one file or several, what the message says.
PICTURES = {
    "image of too many pixels": (".png", lambda: png(14_000), MOST),
    "image of too few bytes": (".png", lambda: png(12_000)[:99], "bytes can hold"),
    "images of another size than the first": (
        ".png",
        lambda: [png(8), *[png(13_000)] * 3],
        "13000x13000 pixels",
    ),
    "tiff of too many values": (
        ".tif",
        lambda: tiff(60_000, 60_000, zlib.compress(bytes(1 << 20))),
        MOST,
    ),
    "tiff of a huge tile": (
        ".tif",
        lambda: tiff(9, 9, b"", tags={322: 1 << 31, 323: 1 << 31, 324: 8, 325: 8}),
        MOST,
    ),
    "tiff of a strip of zeros": (
        ".tif",
        lambda: tiff(9, 9, zeros(1 << 30, wbits=15)),
        "not a readable",
    ),
    "tiff of a circle": (
        ".tif",
        lambda: tiff(1, 1, bytes(8), 16),
        "in a circle|damaged",
    ),
    "webp of a huge canvas": (".webp", lambda: webp(16_000), "of a WebP at most"),
    "npy of a huge shape": (
        ".npy",
        lambda: npy((1 << 20, 1 << 20)),
        "needs 4398046511104",
    ),
    "nifti of huge dimensions": (
        ".nii",
        lambda: huge_nifti(32_000, 32_000, 32_000),
        "its header says",
    ),
    "nifti of zeros": (
        ".nii.gz",
        lambda: zeros(1 << 30, huge_nifti(32_000, 32_000, 1)),
        "at most 268435456",
    ),
    "nifti of more zeros than it says": (
        ".nii.gz",
        lambda: zeros(1 << 30, huge_nifti(8, 8, 1)),
        "its header says",
    ),
}
# By name: the reader, the file, what the message says.
FILES = {
    "tar of zeros that are skipped": (
        "image_folder",
        lambda: of_zeros(tarfile.REGTYPE),
        "may unpack to",
    ),
    "tar of a long name": (
        "image_folder",
        lambda: of_zeros(tarfile.GNUTYPE_LONGNAME),
        "header of more than",
    ),
    "tar of long attributes": (
        "image_folder",
        lambda: of_zeros(tarfile.XHDTYPE),
        "header of more than",
    ),
    "tar of a negative size": ("image_folder", negative_size, "wrong size"),
    "tar of slow attributes": ("image_folder", slow_attributes, "attributes"),
    "tar of headers without end": (
        "image_folder",
        lambda: gzip.compress(tar_header("x", 0, tarfile.XHDTYPE) * 5000),
        "not a readable tar",
    ),
    "idx of zeros": (
        "read_idx",
        lambda: zeros(1 << 30, struct.pack(">BBBBI", 0, 0, 8, 1, 1 << 30)),
        "unpack it first",
    ),
    "npz of one entry under many names": ("npz", npz, "may unpack to"),
    "assessment of many images": ("from_json", many_images, "at most"),
    "assessment of strings": ("from_json", strings, "confusion"),
}


def read(kind, path):
    import jaxrob

    if kind == "image_folder":
        jaxrob.data.image_folder(path)
    elif kind == "read_idx":
        from jaxrob.data._named import read_idx

        read_idx(path)
    elif kind == "npz":
        jaxrob.data.npz(path, labels=None)
    elif kind == "weights":
        jaxrob.networks.load_idc_weights(path)
    else:
        jaxrob.Assessment.from_json(path.read_text())


def error_within_20_seconds(run):
    """The ValueError of `run`, in a thread: a hang in opening a pipe never ends."""
    errors = []

    def caught():
        try:
            run()
        except ValueError as error:
            errors.append(str(error))

    thread = threading.Thread(target=caught, daemon=True)
    thread.start()
    thread.join(20)
    assert not thread.is_alive(), "it hangs"
    return errors[0]
