"""Small files that unpack to large data, and a process of little memory that reads
them.

    python tests/bombs.py FOLDER

reads all files that `write` put there, and prints the error of each.
"""

import base64
import gzip
import io
import json
import pathlib
import resource
import struct
import sys
import tarfile
import time
import zipfile
import zlib

import numpy as np

# The memory that a process may allocate beyond that after its imports.
ROOM = 700 << 20


def png(side, bits=1):
    """Returns a black, grey PNG: forty of them take less than a megabyte."""

    def chunk(kind, data):
        check = zlib.crc32(kind + data)
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", check)

    header = struct.pack(">IIBBBBB", side, side, bits, 0, 0, 0, 0)
    stream = zlib.compressobj(9)
    row = bytes(1 + -(-side * bits // 8))
    data = b"".join(stream.compress(row * 100) for _ in range(side // 100))
    data += stream.compress(row * (side % 100)) + stream.flush()
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", data)
        + chunk(b"IEND", b"")
    )


def tiff(height, width, pixels, **tags):
    """Returns a TIFF of 16 bits a sample, deflated, of one strip."""
    start = 8 + len(pixels) + len(pixels) % 2
    numbers = {256: width, 257: height, 258: 16, 259: 8, 262: 1, 273: 8, 277: 1}
    numbers |= {278: height, 279: len(pixels)}
    numbers |= {int(name[1:]): value for name, value in tags.items() if name[0] == "t"}
    entries = b"".join(
        struct.pack("<HHLL", tag, 4, 1, number)
        for tag, number in sorted(numbers.items())
    )
    head = struct.pack("<2sHL", b"II", 42, start) + pixels.ljust(start - 8, b"\0")
    following = tags.get("following", 0)
    return head + struct.pack(f"<H{len(entries)}sL", len(numbers), entries, following)


def pages(number):
    """Returns a TIFF of many empty pages after the first."""
    data = tiff(1, 1, zlib.compress(bytes(2)))
    chain = b""
    for page in range(1, number):
        following = len(data) + 6 * page if page < number - 1 else 0
        chain += struct.pack("<HL", 0, following)
    return data[:-4] + struct.pack("<L", len(data)) + chain


def deflated(number):
    """Returns zeros as a zlib stream."""
    stream = zlib.compressobj(9)
    parts = [stream.compress(bytes(1 << 20)) for _ in range(number >> 20)]
    return b"".join(parts) + stream.flush()


def webp(side):
    """Returns a WebP that claims a canvas, and has no picture on it."""
    canvas = (side - 1).to_bytes(3, "little") * 2
    body = b"WEBPVP8X" + struct.pack("<LL", 10, 0) + canvas
    return b"RIFF" + struct.pack("<L", len(body)) + body


def bmp(side):
    """Returns a BMP of run lengths that claims a side, and ends at once."""
    header = struct.pack("<LllHHLLllLL", 40, side, side, 1, 8, 1, 2, 0, 0, 2, 2)
    start = 14 + len(header) + 8
    return (
        b"BM" + struct.pack("<LLL", start + 2, 0, start) + header + bytes(8) + b"\0\1"
    )


def nifti(shape, contents=b""):
    """Returns the header of a volume of 16 bits, and its contents."""
    header = bytearray(352)
    header[:4] = struct.pack("<l", 348)
    header[40:56] = struct.pack("<8h", 3, *shape, 1, 1, 1, 1)
    header[70:74] = struct.pack("<hh", 4, 16)
    header[108:112] = struct.pack("<f", 352)
    header[124:132] = struct.pack("<ff", 1, 0)
    header[344:348] = b"n+1\0"
    return bytes(header) + contents


def dicom(rows, columns, pixels, syntax=b"1.2.840.10008.1.2.1"):
    """Returns a DICOM file of 16 bits, its pixels of any length."""

    def element(group, number, kind, value):
        value += b"\0" * (len(value) % 2)
        tag = struct.pack("<HH2s", group, number, kind)
        if kind in (b"OB", b"OW"):
            return tag + struct.pack("<HL", 0, len(value)) + value
        return tag + struct.pack("<H", len(value)) + value

    meta = element(2, 0x10, b"UI", syntax)
    found = bytes(128) + b"DICM" + element(2, 0, b"UL", struct.pack("<L", len(meta)))
    found += meta + element(0x28, 2, b"US", struct.pack("<H", 1))
    found += element(0x28, 4, b"CS", b"MONOCHROME2 ")
    numbers = ((0x10, rows), (0x11, columns), (0x100, 16), (0x101, 16), (0x102, 15))
    for number, value in (*numbers, (0x103, 0)):
        found += element(0x28, number, b"US", struct.pack("<H", value))
    for number, value in ((0x1050, b"40"), (0x1051, b"400 ")):
        found += element(0x28, number, b"DS", value)
    return found + element(0x7FE0, 0x10, b"OW", pixels)


def single(name, data):
    def write(path):
        (path / "class").mkdir(parents=True)
        (path / "class" / name).write_bytes(data)

    return write


def zeros(number, before=b""):
    """Returns zeros as a gzip stream, made without compressing them all."""
    header = zlib.compressobj(9, wbits=31)
    start = header.compress(before) + header.flush(zlib.Z_FULL_FLUSH)
    part = bytes(1 << 20)
    stream = zlib.compressobj(9, wbits=-15)
    block = stream.compress(part) + stream.flush(zlib.Z_FULL_FLUSH)
    check = zlib.crc32(before)
    for _ in range(number >> 20):
        check = zlib.crc32(part, check)
    end = struct.pack("<II", check, (len(before) + number) % 2**32)
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


def folder_of(count, data):
    def write(path):
        (path / "class").mkdir(parents=True)
        for number in range(count):
            (path / "class" / f"{number}.png").write_bytes(data)

    return write


def tar_of(count, data):
    def write(path):
        with tarfile.open(path, "w:gz") as archive:
            for number in range(count):
                info = tarfile.TarInfo(f"class/{number}.png")
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))

    return write


def packed(make):
    return lambda path: path.write_bytes(gzip.compress(make()))


def npz_of(names, compression, entry):
    def write(path):
        with zipfile.ZipFile(path, "w", compression) as archive:
            for name in names:
                archive.writestr(name, entry())

    return write


def npy(shape, data=b""):
    stream = io.BytesIO()
    header = {"descr": "<f4", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(stream, header)
    return stream.getvalue() + data


def overlapping(path):
    """Returns a zip archive with 2,000 names of one entry of a megabyte."""
    npz_of(["a.npy"], zipfile.ZIP_STORED, lambda: npy((1 << 18,), bytes(1 << 20)))(path)
    data = path.read_bytes()
    end = data.rindex(b"PK\5\6")
    first = data.index(b"PK\1\2")
    entry, tail = data[first:end], bytearray(data[end:])
    at = entry.index(b"a.npy")
    entries = b"".join(
        entry[:28]
        + struct.pack("<H", 8)
        + entry[30:at]
        + b"%04d.npy" % number
        + entry[at + 5 :]
        for number in range(2000)
    )
    tail[8:12] = struct.pack("<HH", 2000, 2000)
    tail[12:16] = struct.pack("<I", len(entries))
    path.write_bytes(data[:first] + entries + tail)


def assessment(path):
    """Returns counts of 300,000,000 images; the answers are zeros in base64 of zlib."""
    number = 150 << 20
    document = small_assessment()
    levels = len(document["levels"])
    document["confusion"] = [[[number, 0, 0], [0, 0, 0]]] * levels
    for name, size in (("predicted", 2 * levels), ("labels", 4)):
        # A zlib stream in place of a gzip stream.
        data = b"\x78\xda" + zeros(number * size)[10:-8] + struct.pack(">I", 1)
        data = base64.b64encode(data).decode()
        document["answers"][name]["base64_zlib"] = data
    path.write_text(json.dumps(document))


def strings(path):
    """Returns an array with one long string: NumPy allocates as much for each."""
    document = small_assessment()
    document["confusion"] = ["x" * 10**6] + [""] * 10**5
    path.write_text(json.dumps(document))


def small_assessment():
    from .assessment.test_serialization import assessment

    return json.loads(assessment(levels=2, classes=2).to_json())


def results(path):
    """Writes a folder of results whose picture is 600 MB of zeros."""
    import jaxrob

    from .assessment.test_serialization import assessment

    one = assessment(levels=2, classes=2)
    level = one.identity
    shown = jaxrob.reporting.Picture(None, "0" * 32, level, 0, 0, 0, "unaltered")
    found = jaxrob.reporting.Results(None, None, (one,), pictures=((shown,),))
    jaxrob.reporting.write_results(path, found)
    with zipfile.ZipFile(path / "pictures.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        with archive.open("0" * 32 + ".npy", "w") as member:
            member.write(npy((600 << 10, 1 << 10, 1)))
            for _ in range(600):
                member.write(bytes(1 << 20))


IDX = struct.pack(">BBBBI", 0, 0, 8, 1, 1 << 30)
# By name: the reader, the writer, the message.
BOMBS = {
    "image of too many pixels": (
        "image_folder",
        folder_of(1, png(14_000)),
        "at most 178956970 are read",
    ),
    "images of another size than the first": (
        "image_folder",
        lambda path: (
            folder_of(1, png(8))(path),
            *(
                (path / "class" / f"x{number}.png").write_bytes(png(13_000))
                for number in range(20)
            ),
        ),
        "13000x13000 pixels, but",
    ),
    "tiff of too many values": (
        "image_folder",
        single("x.tif", tiff(60_000, 60_000, deflated(1 << 20))),
        "at most 178956970 are read",
    ),
    "tiff of a huge tile": (
        "image_folder",
        single(
            "x.tif",
            tiff(9, 9, b"", t322=1 << 31, t323=1 << 31, t324=8, t325=8),
        ),
        "at most 178956970 are read",
    ),
    "tiff that unpacks to more than it says": (
        "image_folder",
        single("x.tif", tiff(9_000, 9_000, deflated(1 << 20))),
        "not a readable picture",
    ),
    "tiff of many pages": (
        "image_folder",
        single("x.tif", pages(20_000)),
        "more than 10000 pages",
    ),
    "tiff of a circle": (
        "image_folder",
        single("x.tif", tiff(1, 1, bytes(8), following=16)),
        "in a circle",
    ),
    "webp of a huge canvas": (
        "image_folder",
        single("x.webp", webp(16_000)),
        "of a WebP at most",
    ),
    "bmp of a huge size": (
        "image_folder",
        single("x.bmp", bmp(12_000)),
        "bytes can hold",
    ),
    "npy of a huge shape": (
        "image_folder",
        single("x.npy", npy((1 << 20, 1 << 20))),
        "needs 4398046511104",
    ),
    "nifti of huge dimensions": (
        "image_folder",
        single("x.nii", nifti((32_000, 32_000, 32_000))),
        "its header says",
    ),
    "nifti of zeros": (
        "image_folder",
        single("x.nii.gz", zeros(1 << 30, nifti((32_000, 32_000, 1)))),
        "may unpack to",
    ),
    "nifti of more zeros than it says": (
        "image_folder",
        single("x.nii.gz", zeros(1 << 30, nifti((8, 8, 1)))),
        "it unpacks to more",
    ),
    "dicom of a huge size": (
        "image_folder",
        single("x.dcm", dicom(65_535, 65_535, bytes(64))),
        "at most 178956970 are read",
    ),
    "dicom of run lengths": (
        "image_folder",
        single(
            "x.dcm",
            dicom(9_000, 9_000, bytes(64), b"1.2.840.10008.1.2.5"),
        ),
        "not a readable picture",
    ),
    "dicom that is deflated": (
        "image_folder",
        single(
            "x.dcm",
            dicom(8, 8, bytes(8), b"1.2.840.10008.1.2.1.99")[:-20]
            + deflated(1 << 30)[2:],
        ),
        "deflated",
    ),
    "tar of zeros": (
        "image_folder",
        packed(
            lambda: (
                b"".join(
                    tar_header(f"class/{number}.png", 200 << 20) + bytes(200 << 20)
                    for number in range(3)
                )
                + bytes(1024)
            )
        ),
        "may unpack to",
    ),
    "tar of zeros that are skipped": (
        "image_folder",
        packed(lambda: tar_header("about.txt", 250 << 20) + bytes(400 << 20)),
        "may unpack to|truncated",
    ),
    "tar of a long name": (
        "image_folder",
        lambda path: path.write_bytes(
            zeros(1 << 30, tar_header("x", 1 << 30, tarfile.GNUTYPE_LONGNAME))
        ),
        "header of more than",
    ),
    "tar of long attributes": (
        "image_folder",
        lambda path: path.write_bytes(
            zeros(1 << 30, tar_header("x", 1 << 30, tarfile.XHDTYPE))
        ),
        "header of more than",
    ),
    "tar of a negative size": (
        "image_folder",
        lambda path: path.write_bytes(negative_size()),
        "wrong size",
    ),
    "tar of slow attributes": (
        "image_folder",
        lambda path: path.write_bytes(slow_attributes()),
        "attributes",
    ),
    "tar of headers without end": (
        "image_folder",
        packed(lambda: tar_header("x", 0, tarfile.XHDTYPE) * 5000),
        "not a readable tar",
    ),
    "idx of zeros": (
        "read_idx",
        lambda path: path.write_bytes(zeros(1 << 30, IDX)),
        "unpack it first",
    ),
    "npz of zeros": (
        "load",
        npz_of(
            ["header.npy"],
            zipfile.ZIP_DEFLATED,
            lambda: npy((200 << 18,), bytes(200 << 20)),
        ),
        "compressed",
    ),
    "npz of a huge shape": (
        "load",
        npz_of(["header.npy"], zipfile.ZIP_STORED, lambda: npy((1 << 40,))),
        "needs 4398046511104",
    ),
    "npz of one entry under many names": ("load", overlapping, "claim"),
    "results of a large picture": ("read_results", results, "claim"),
    "assessment of many images": ("from_json", assessment, "at most"),
    "assessment of strings": ("from_json", strings, "confusion"),
}


def read(kind, path):
    import jaxrob

    if kind == "image_folder":
        jaxrob.data.image_folder(path)
    elif kind == "read_idx":
        from jaxrob.data._idx import read_idx

        read_idx(path)
    elif kind == "load":
        jaxrob.bayes.load(path, jaxrob.networks.MLP())
    elif kind == "read_results":
        jaxrob.reporting.read_results(path)
    else:
        jaxrob.Assessment.from_json(path.read_text())


def main(folder):
    import PIL.Image

    import jaxrob

    PIL.Image.MAX_IMAGE_PIXELS = None  # as in many programs

    # Imported before the limit: these load on first use.
    for name in ("bayes", "data", "networks", "reporting"):
        getattr(jaxrob, name)
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + ROOM
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    for name, (kind, _, _) in BOMBS.items():
        start = time.perf_counter()
        try:
            read(kind, folder / name)
            found = "nothing", "", False
        except BaseException as error:
            found = type(error).__name__, str(error)[:1000], ran_out(error)
        print(json.dumps([name, *found, time.perf_counter() - start]), flush=True)


def ran_out(error):
    """Whether an error comes from a lack of memory."""
    while error is not None:
        if isinstance(error, MemoryError):
            return True
        error = error.__cause__ or error.__context__
    return False


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
