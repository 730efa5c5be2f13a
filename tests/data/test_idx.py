import gzip
import struct
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from jaxrob.data._named import read_idx

CODES = {"u1": 0x08, "i1": 0x09, "i2": 0x0B, "i4": 0x0C, "f4": 0x0D, "f8": 0x0E}


def encode(array):
    """Encodes IDX by its definition: zeros, type, rank, big-endian sizes and values."""
    code = CODES[array.dtype.str[1:]]
    header = struct.pack(f">BBBB{array.ndim}I", 0, 0, code, array.ndim, *array.shape)
    return header + array.astype(array.dtype.newbyteorder(">")).tobytes()


@pytest.fixture(scope="module")
def scratch(tmp_path_factory):
    return tmp_path_factory.mktemp("idx") / "file"


def test_hand_written_bytes(scratch):
    scratch.write_bytes(bytes.fromhex("00000b02 00000002 00000003") + bytes(range(12)))
    array = read_idx(scratch)
    assert array.dtype == np.int16
    assert array.dtype.isnative
    np.testing.assert_array_equal(
        array, [[0x0001, 0x0203, 0x0405], [0x0607, 0x0809, 0x0A0B]]
    )
    array[0, 0] = 7  # the result is writable


@settings(max_examples=30, deadline=None)
@given(
    array=st.sampled_from(sorted(CODES)).flatmap(
        lambda code: hnp.arrays(
            np.dtype(code), hnp.array_shapes(max_dims=5, min_side=0, max_side=5)
        )
    ),
    compress=st.booleans(),
)
def test_round_trip(scratch, array, compress):
    data = encode(array)
    scratch.write_bytes(gzip.compress(data) if compress else data)
    read = read_idx(str(scratch))
    assert read.dtype == array.dtype
    np.testing.assert_array_equal(read, array)


@pytest.mark.parametrize("compress", [False, True])
def test_every_truncation_and_a_byte_more(scratch, compress):
    data = encode(np.arange(12, dtype=np.int32).reshape(3, 2, 2))
    for length in range(len(data)):
        cut = data[:length]
        scratch.write_bytes(gzip.compress(cut) if compress else cut)
        with pytest.raises(ValueError, match=str(scratch)):
            read_idx(scratch)
    stream = data if not compress else gzip.compress(data)
    for length in range(len(stream)):
        scratch.write_bytes(stream[:length])
        with pytest.raises(ValueError, match=str(scratch)):
            read_idx(scratch)
    data += b"\0"
    scratch.write_bytes(gzip.compress(data) if compress else data)
    with pytest.raises(ValueError, match="bytes"):
        read_idx(scratch)


@pytest.mark.parametrize("magic", ["00010801", "00000a01", "00000800", "00000841"])
def test_wrong_magic(scratch, magic):
    scratch.write_bytes(bytes.fromhex(magic) + struct.pack(">I", 1) + b"x")
    with pytest.raises(ValueError, match=r"IDX|shape"):
        read_idx(scratch)


@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize("shape", [(60000, 28, 28), (0, *[2**32 - 1] * 3)])
def test_lying_header_allocates_nothing(scratch, compress, shape):
    data = struct.pack(f">BBBB{len(shape)}I", 0, 0, 0x0E, len(shape), *shape) + b"abc"
    scratch.write_bytes(gzip.compress(data) if compress else data)
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="shape"):
            read_idx(scratch)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_idx(tmp_path / "nothing")
