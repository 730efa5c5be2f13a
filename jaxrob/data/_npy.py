"""Arrays that `numpy.save` wrote, as pictures."""

from jaxrob._files.npz import npy_array
from jaxrob.data._source import Samples, Source, check_num_values, in_unit_range

MAGIC = b"\x93NUMPY"


def open_npy(data: bytes, value_range: tuple[float, float] | None) -> Source:
    """Returns an array `[H, W]` or `[H, W, C]` of numbers as a source."""
    array = npy_array(data, "it")
    if array.dtype.kind not in "uif" or array.ndim not in (2, 3) or not array.size:
        raise ValueError(
            f"an array of {array.dtype} of the shape {array.shape}; expected numbers "
            "[H, W] or [H, W, C]"
        )
    array = array[..., None] if array.ndim == 2 else array
    check_num_values(array.nbytes, array.shape, data)
    native = array.dtype.newbyteorder("=")

    def samples() -> Samples:
        values, brightest = in_unit_range(array.astype(native), value_range)
        return Samples(values, brightest=brightest)

    height, width, _ = array.shape
    return Source(height, width, array.size, samples)
