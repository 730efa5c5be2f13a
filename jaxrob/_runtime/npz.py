"""Files of arrays in zip archives."""

import struct
import zipfile
import zlib

# What a damaged npz file makes zipfile and NumPy raise. A RuntimeError is encryption or
# an unknown method of compression.
DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    KeyError,
    MemoryError,
    OSError,
    OverflowError,
    RuntimeError,
    TypeError,
    ValueError,
)
