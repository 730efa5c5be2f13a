"""Checks of arguments, before anything is traced. `checked_*` functions return them."""

import math
import numbers
import operator
import os
import pathlib
from collections.abc import Collection, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from jaxrob._arguments.messages import named, range_text, wrong_type

# What arrays may hold, and which of booleans, integers and floats ("bif") that is.
_KINDS = {
    "booleans": "b",
    "integers": "i",
    "numbers": "if",
    "numbers or booleans": "bif",
}
# Messages leave out limits this large for values far below them.
_LARGE = 2**30
# The default upper limit of integers: no array is longer, and int32 would wrap around.
_LARGEST_INTEGER = 2**31 - 1


def check_type(name: str, value: Any, kind: Any, wanted: str) -> None:
    if not isinstance(value, kind):
        raise wrong_type(name, wanted, value)


def check_choice(name: str, value: Any, allowed: Collection[str]) -> None:
    if not isinstance(value, str):
        raise wrong_type(name, f"one of {tuple(allowed)}", value)
    if value not in allowed:
        raise ValueError(f"{name} must be one of {tuple(allowed)}; got {value!r}")


def check_hashable(name: str, value: Any) -> None:
    """Raises an error for a value without a hash, which static arguments need."""
    try:
        hash(value)
    except TypeError:
        raise wrong_type(name, "hashable", value) from None


def checked_flag(name: str, value: Any) -> bool:
    check_type(name, value, bool | np.bool_, "True or False")
    return bool(value)


def checked_text(name: str, value: Any, *, may_be_empty: bool = False) -> str:
    check_type(name, value, str, "a text")
    if not value and not may_be_empty:
        raise ValueError(f"{name} must be a text that is not empty; got {value!r}")
    return value


def checked_path(name: str, value: Any) -> pathlib.Path:
    """A path. Rejects integers, which `open` would take for file descriptors."""
    wanted = "a path, as text or os.PathLike"
    check_type(name, value, str | os.PathLike, wanted)
    text = os.fspath(value)
    check_type(name, text, str, wanted)
    if not text or "\0" in text:
        raise ValueError(f"{name} must be {wanted}, not empty; got {text!r}")
    return pathlib.Path(text)


def checked_sequence(
    name: str, value: Any, kind: Any, wanted: str, *, min_length: int = 1
) -> tuple:
    whole = f"a sequence of {wanted}"
    if isinstance(value, str | bytes) or not isinstance(value, Sequence):
        raise wrong_type(name, whole, value)
    for index, member in enumerate(value):
        if not isinstance(member, kind):
            raise TypeError(f"{name} must be {whole}; got {named(member)} at {index}")
    if len(value) < min_length:
        state = f"of length {len(value)}" if value else "empty"
        raise ValueError(
            f"{name} is {state}; {name} must be {whole}, {min_length} or more"
        )
    return tuple(value)


def checked_names(name: str, value: Any) -> tuple[str, ...]:
    if isinstance(value, np.ndarray) and value.dtype.kind in "UO" and value.ndim == 1:
        value = value.tolist()
    return checked_sequence(name, value, str, "texts")


def checked_integer(
    name: str, value: Any, *, at_least: int | None = None, at_most: int | None = None
) -> int:
    number = None
    if not isinstance(value, bool | np.bool_) and hasattr(value, "__index__"):
        try:
            number = operator.index(value)
        except TypeError:  # An array of several numbers, or a tracer, or a class.
            pass
    if number is None:
        raise wrong_type(name, "an integer", value)
    below = at_least is not None and number < at_least
    if below or (at_most is not None and number > at_most):
        shown = None if at_most is not None and at_most >= _LARGE > number else at_most
        wanted = range_text(at_least, None, shown, None)
        raise ValueError(f"{name} must {wanted}; got {number!s:.80}")
    if at_most is None and number > _LARGEST_INTEGER:
        raise ValueError(f"{name} must be below 2**31; got {number!s:.80}")
    return number


def checked_integers(
    name: str, value: Any, *, at_least: int, min_length: int = 1
) -> tuple[int, ...]:
    kinds = int | np.integer
    found = checked_sequence(name, value, kinds, "integers", min_length=min_length)
    return tuple(checked_integer(name, one, at_least=at_least) for one in found)


def checked_number(
    name: str,
    value: Any,
    *,
    at_least: float | None = None,
    above: float | None = None,
    at_most: float | None = None,
    below: float | None = None,
) -> float:
    if not _is_number(value):
        raise wrong_type(name, "a number", value)
    try:
        number = float(as_written(value))
    except OverflowError:
        number = math.inf
    inside = (
        math.isfinite(number)
        and (at_least is None or number >= at_least)
        and (above is None or number > above)
        and (at_most is None or number <= at_most)
        and (below is None or number < below)
    )
    if not inside:
        shown = at_most
        if at_most is not None and at_most >= _LARGE:
            shown = at_most if at_most < number < math.inf else None
        wanted = range_text(at_least, above, shown, below)
        if number == math.inf and not {"in", "finite"} & set(wanted.split()):
            wanted = f"{wanted} and finite" if wanted else "be finite"
        raise ValueError(f"{name} must {wanted or 'be finite'}; got {value!s:.80}")
    return number


def checked_share(name: str, number: Any) -> float:
    return checked_number(name, number, at_least=0, at_most=1)


def check_ascending(
    lower_name: str, lower: float, upper_name: str, upper: float
) -> None:
    if not lower < upper:
        raise ValueError(
            f"{lower_name} must be below {upper_name}; got {lower:g} and {upper:g}"
        )


def checked_bounds(name: str, value: Any) -> tuple[float, float]:
    wanted = "the finite ends of a range, (lower, upper) with lower < upper"
    is_pair = isinstance(value, Sequence | np.ndarray) and np.ndim(value) == 1
    if not is_pair or len(value) != 2 or not all(map(_is_number, value)):
        raise wrong_type(name, wanted, value)
    lower, upper = (float(as_written(end)) for end in value)
    if not -math.inf < lower < upper < math.inf:
        raise ValueError(f"{name} must be {wanted}; got {value}")
    return lower, upper


def checked_array(
    name: str,
    value: Any,
    shape: str,
    holding: str = "numbers",
    *,
    at_least: float | None = None,
    at_most: float | None = None,
    may_be_nan: bool = False,
    may_be_infinite: bool = False,
    may_be_empty: bool = False,
    axes: dict[str, int] | None = None,
) -> np.ndarray:
    wanted = f"an array [{shape}] of {holding}"
    array = plain_array(name, value, wanted)
    kind = _kind(array.dtype)
    if array.dtype == np.float64 and isinstance(value, list | tuple):
        array = as_written(value)
    if kind is None or kind not in _KINDS[holding]:
        found = named(value)
        found += "" if hasattr(value, "dtype") else f", of {array.dtype}"
        raise TypeError(f"{name} must be {wanted}; got {found}")
    known = {} if axes is None else axes
    before = dict(known)
    if not fits(array.shape, shape, known, shortest=0 if may_be_empty else 1):
        raise ValueError(
            f"{name} must have the shape [{shape}]{lengths_text(shape, before)}; got "
            f"{array.shape}"
        )
    if kind == "f":
        bad = np.zeros(array.shape, bool) if may_be_nan else np.isnan(array)
        if not may_be_infinite:
            bad |= np.isinf(array)
        if bad.any():
            kept = "not be NaN" if may_be_infinite else "be finite"
            raise ValueError(f"{name} must {kept}; got {_first(array, bad)}")
    outside: Any = at_least is not None and array < at_least
    outside = outside if at_most is None else outside | (array > at_most)
    if np.any(outside):
        wanted = range_text(at_least, None, at_most, None)
        raise ValueError(f"{name} must {wanted}; got {_first(array, outside)}")
    return array


def checked_traceable(name: str, value: Any, shape: str) -> jax.Array:
    """Returns a float32 JAX array, perhaps traced. It does not look at the values."""
    if not isinstance(value, jax.Array):
        value = checked_array(name, value, shape, may_be_nan=True, may_be_infinite=True)
    wanted = f"an array [{shape}] of numbers"
    if _kind(value.dtype) not in ("i", "f"):
        raise wrong_type(name, wanted, value)
    if not fits(value.shape, shape, {}, shortest=1):
        raise ValueError(f"{name} must have the shape [{shape}]; got {value.shape}")
    return jnp.asarray(value, jnp.float32)


def as_written(value: Any) -> np.ndarray:
    """A float64 copy; of narrower floats the shortest decimal, 0.85, not 0.85000002."""
    if isinstance(value, list | tuple):
        return np.array([as_written(one) for one in value], float)
    array = np.asarray(np.nan if value is np.ma.masked else value)
    if _kind(array.dtype) != "f" or array.itemsize > 4:
        return array.astype(float)

    def shortest(one: float) -> float:
        # Not NumPy's own text, which follows its printing options.
        shorter = (float(f"{one:.{digits}g}") for digits in range(1, 10))
        return next((few for few in shorter if array.dtype.type(few) == one), one)

    with np.errstate(over="ignore"):
        return np.reshape([*map(shortest, array.astype(float).flat)], array.shape)


def _is_number(value: Any) -> bool:
    if isinstance(value, bool | np.bool_ | Tracer | np.ma.MaskedArray):
        return False
    if isinstance(value, numbers.Real):
        return True
    is_array = isinstance(value, np.ndarray | np.generic | jax.Array)
    # Not bfloat16: 0.8 would be 0.80078125.
    return is_array and value.shape == () and value.dtype.kind in "iuf"


def _kind(dtype: Any) -> str | None:
    if dtype.kind in "biuf":
        return "i" if dtype.kind == "u" else dtype.kind
    # Types of JAX that NumPy does not know, such as bfloat16. Random keys are others.
    extended = jnp.issubdtype(dtype, jax.dtypes.extended)
    return "f" if not extended and jnp.issubdtype(dtype, jnp.floating) else None


def _first(array: np.ndarray, where: np.ndarray) -> str:
    found = tuple(map(int, np.argwhere(where)[0]))
    if not found:
        return str(array)
    return f"{array[found]} at index {found[0] if len(found) == 1 else found}"


def fits(
    found: tuple[int, ...], shape: str, lengths: dict[str, int], shortest: int
) -> bool:
    axes = [axis.strip() for axis in shape.split(",") if axis.strip()]
    if axes[:1] == ["..."]:
        axes = axes[1:]
        found = found[max(0, len(found) - len(axes)) :] if axes else ()
    if axes[-1:] == ["..."]:
        axes = axes[:-1]
        found = found[: len(axes)]
    if len(found) != len(axes):
        return False
    for axis, length in zip(axes, found):
        letter, _, more = axis.partition(" + ")
        extra = int(more or 0)
        if letter.isdigit():
            wanted = int(letter)
        else:
            wanted = lengths.setdefault(letter, length - extra)
        if length != wanted + extra or (not letter.isdigit() and wanted < shortest):
            return False
    return True


def lengths_text(shape: str, lengths: dict[str, int]) -> str:
    parts = [f"{letter} = {n}" for letter, n in lengths.items() if letter in shape]
    return f" with {', '.join(parts)}" if parts else ""


def check_integers(name: str, array: jax.Array | np.ndarray) -> None:
    """Rejects an array whose integers JAX would wrap around."""
    dtype = jax.dtypes.canonicalize_dtype(array.dtype)
    if dtype == array.dtype or not jnp.issubdtype(dtype, jnp.integer):
        return
    limits = jnp.iinfo(dtype)
    if array.min(initial=0) < limits.min or array.max(initial=0) > limits.max:
        raise ValueError(
            f"{name} must lie in [{limits.min}, {limits.max}], JAX's integers unless "
            f"jax_enable_x64 is set; got {array.min()} to {array.max()}"
        )


def checked_images(images: Any) -> np.ndarray | jax.Array:
    """Returns images in a type that devices support and in native byte order."""
    # It does not copy arrays that are so already, and does not look at the values.
    given = images
    if not isinstance(images, np.memmap | jax.Array):
        wanted = "an array [N, ...] of uint8 or floating numbers"
        images = plain_array("images", images, wanted)
    if isinstance(images, Tracer):
        raise wrong_type("images", "an array with values", given)
    dtype = images.dtype
    if dtype != np.uint8 and not jnp.issubdtype(dtype, jnp.floating):
        hint = ""
        if jnp.issubdtype(dtype, jnp.integer):
            hint = "; divide 0-255 by 255 in floating point, or pass uint8"
        elif jnp.issubdtype(dtype, jnp.bool_):
            hint = "; pass images.astype('float32')"
        raise TypeError(
            f"images must be uint8 or floating; got {dtype} ({named(given)}){hint}"
        )
    if images.ndim < 2:
        raise ValueError(
            "images must have a leading axis of inputs and at least one more; got "
            f"the shape {images.shape} ({named(given)})"
        )
    if images.size == 0:
        raise ValueError(
            f"images is empty (shape {images.shape}); at least one is needed"
        )
    # JAX has no wider floating type, and takes bytes of the other order as they are.
    native = np.dtype(np.float32) if dtype.itemsize > 8 else dtype.newbyteorder("=")
    if native == dtype:
        return images
    if isinstance(images, np.memmap):
        raise TypeError(
            f"images must be of this machine's byte order and at most 8 bytes a number "
            f"where they are a memory map, which is not converted; got {dtype!r}"
        )
    return images.astype(native)


def plain_array(name: str, values: Any, wanted: str) -> np.ndarray:
    """Converts values to an array of NumPy's own class."""
    if isinstance(values, np.ma.MaskedArray):
        raise TypeError(
            f"{name} must not be masked, because the mask would be lost; got a "
            f"{type(values).__name__} (fill it, or leave the elements out)"
        )
    if hasattr(values, "columns"):
        raise TypeError(
            f"{name} must be without names of columns, which would be lost; got a "
            f"{type(values).__name__} (frame[[names in order]].to_numpy())"
        )
    try:
        return np.asarray(values)
    # Lists of unequal lengths; random keys; values that are not known yet.
    except (TypeError, ValueError) as error:
        raise wrong_type(name, wanted, values) from error


def checked_size(size: Any, name: str = "size") -> tuple[int, int] | None:
    """Returns height and width in pixels, or None. One number stands for both."""
    if size is None:
        return None
    is_array = isinstance(size, np.ndarray) and size.ndim > 0
    if not is_array and (isinstance(size, str) or not isinstance(size, Sequence)):
        size = size, size
    if len(size) != 2:
        raise ValueError(
            f"{name} must be (height, width) in pixels, or one number for both; got "
            f"{named(size)}"
        )
    height, width = (checked_integer(name, one, at_least=1) for one in size)
    return height, width


def check_index(index: Any, length: int) -> None:
    wanted = "a slice, or an array of integers or booleans"
    if isinstance(index, slice):
        for part in (index.start, index.stop, index.step):
            if part is not None:
                checked_integer("index", part)
        return
    try:
        array = np.asarray(index)
    except (TypeError, ValueError):  # Lists of unequal lengths; tracers.
        raise wrong_type("index", wanted, index) from None
    if array.ndim == 0:
        raise TypeError(
            f"index must be {wanted}; got {named(index)}, use [i : i + 1] for one input"
        )
    if array.ndim != 1 or array.dtype.kind not in "biu":
        raise wrong_type("index", wanted, array)
    if array.dtype.kind == "b":
        if len(array) != length:
            raise IndexError(
                f"index must hold {length} booleans, one for each input; got "
                f"{len(array)}"
            )
    elif array.size and not -length <= array.min() <= array.max() < length:
        raise IndexError(
            f"index must lie in 0 ... {length - 1}; got {array.min()} to {array.max()}"
        )
