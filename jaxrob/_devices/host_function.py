"""A function on the host, called from a compiled program."""

import collections
import contextlib
import dataclasses
import functools
import logging
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrob._arguments.checks import check_type, checked_integer
from jaxrob._arguments.messages import (
    IF_NO_CLASSES,
    begin_with_users,
    class_outputs,
    if_no_classes,
    named,
)
from jaxrob._arguments.texts import error_text
from jaxrob._devices.blocks import filled, joined

# In one call.
MOST_IMAGES = 2**20
# Of black images; an exported network may be fixed to one.
_SIZES = (2, 1, 4, 8, 16, 32, 64)
# Includes JAX's types, such as bfloat16, which NumPy counts as void.
_REAL = (np.floating, np.integer, np.bool_)
# The last errors of host functions, because JAX passes on only their text.
_failed: collections.deque[Exception] = collections.deque(maxlen=8)
# One entry for each block of `own_errors` that is open.
_blocks: list[None] = []


@dataclasses.dataclass(frozen=True)
class HostFunction:
    """A function of NumPy arrays, with what identifies it."""

    function: Callable[[np.ndarray], np.ndarray]  # from float32 `[B, ...]` to `[B, K]`
    num_classes: int | None  # K; None to ask the function itself
    name: str | None = None
    version: str | None = None
    batch_size: int | None = None  # images in each call; None for any number
    # Of images and a scalar's gradient in the outputs `[B, K]`: that in the images.
    gradient: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None
    # Refuses wrong outputs; called once, first of all, with black images.
    check: Callable[[np.ndarray], None] | None = None
    # Whether it may write to the images, and so gets arrays of its own
    writes: bool = True
    # Whether it returns arrays `[B, ...]`, a tuple or dict of them, or a list
    is_any: bool = False

    def __post_init__(self) -> None:
        check_type("name", self.name, str | None, "text or None")
        check_type("version", self.version, str | None, "text or None")
        if self.batch_size is not None:
            size = checked_integer(
                "batch_size", self.batch_size, at_least=1, at_most=MOST_IMAGES
            )
            object.__setattr__(self, "batch_size", size)

    @property
    def is_identifiable(self) -> bool:
        return self.name is not None and self.version is not None

    def classes(self, image_shape: tuple[int, ...]) -> int:
        if self.num_classes is not None:
            return self.num_classes
        return _found(self, image_shape)[0]

    def _batches(
        self, rows: np.ndarray | jax.Array, image_shape: tuple[int, ...]
    ) -> Iterator[tuple[np.ndarray, int]]:
        """Yields the rows in batches of one size, and how many of each count."""
        size = self.batch_size
        if size is None and self.num_classes is None and not self.is_any:
            size = _found(self, image_shape)[1]
        # Batches are float32, contiguous and, if it writes, writable.
        rows = np.asarray(rows, np.float32)
        size = size or len(rows)
        for first in range(0, len(rows), size):
            part = rows[first : first + size]
            number = len(part)
            if self.writes or number < size:
                part = filled(part, size)
            yield np.ascontiguousarray(part), number

    def returned(self, images: np.ndarray | jax.Array) -> Any:
        parts = []
        for batch, number in self._batches(images, images.shape[1:]):
            with _noted(batch.shape):
                parts.append(_first_rows(self.function(batch), number, len(batch)))
        if isinstance(parts[0], list):
            return [one for part in parts for one in part]
        return joined(parts)

    def __call__(self, images: np.ndarray | jax.Array) -> np.ndarray:
        parts = []
        for batch, number in self._batches(images, images.shape[1:]):
            with _noted(batch.shape):
                returned = self.function(batch)
                # A list of rows is what services return; its shape is checked.
                if not isinstance(returned, list):
                    returned = class_outputs("the host function", returned, len(batch))
                outputs = _as_rows(returned)
                self._check(outputs, len(batch))
            # A copy: an engine may fill the same buffer again.
            parts.append(np.array(outputs[:number], np.float32))
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def pulled_back(
        self, images: np.ndarray | jax.Array, change: np.ndarray | jax.Array
    ) -> np.ndarray:
        assert self.gradient is not None
        changes = self._batches(change, images.shape[1:])
        parts = []
        for batch, number in self._batches(images, images.shape[1:]):
            with _noted(batch.shape):
                found = self.gradient(batch, next(changes)[0])
            parts.append(np.array(found[:number], np.float32))
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _check(self, outputs: np.ndarray, number: int) -> None:
        fits = outputs.ndim == 2 and len(outputs) == number
        if not fits or self.num_classes not in (None, outputs.shape[1]):
            is_hinted = outputs.ndim != 2 or outputs.shape[1] == 1
            hint = f". {if_no_classes(outputs.shape)}" * is_hinted
            raise ValueError(
                "the host function must return the shape "
                f"({number}, {self.num_classes or 'K'}); got {outputs.shape}{hint}"
            )
        if not any(jnp.issubdtype(outputs.dtype, kind) for kind in _REAL):
            kind = outputs.dtype
            raise TypeError(f"the host function must return numbers; got {kind}")


def host_callback(function: HostFunction, images: jax.Array) -> jax.Array:
    """Calls a host function on images `[B, ...]`; returns float32 `[B, K]`."""
    call = _forward if function.gradient is None else _with_gradient
    return call(function, images)


class own_errors(contextlib.ContextDecorator):
    """Re-raises errors of host functions as they are, not as errors of JAX."""

    # `contextlib.contextmanager` would restore the traceback.
    def __enter__(self) -> None:
        if not _blocks:
            _failed.clear()
        _blocks.append(None)

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        own = None if error is None else _own(error)
        _blocks.pop()
        if not _blocks:
            _failed.clear()
        if own is None:
            return
        begin_with_users(own)
        if own is not error:
            raise own from None


def _own(error: BaseException) -> BaseException | None:
    """Returns a host function's error, if it is one or JAX made it of one."""
    if any(error is own for own in _failed):
        return error
    if any(error.__cause__ is own for own in _failed):
        return None  # It says more already.
    # On a CPU, JAX may raise a ValueError with the text of the host's error.
    if isinstance(error, jax.errors.JaxRuntimeError | ValueError):
        return next((own for own in _failed if error_text(own) in str(error)), None)
    return None


def _is_news(record: logging.LogRecord) -> bool:
    """Whether a line of JAX's log says more than an error that is raised anyway."""
    told = record.exc_info[1] if record.exc_info else None
    return not _blocks or not any(told is own for own in _failed)


# JAX writes the errors of callbacks to its log, with its own frames first.
logging.getLogger("jax._src.callback").addFilter(_is_news)


@dataclasses.dataclass(frozen=True)
class HostCall:
    """The callback of a compiled program, on images with any leading axes."""

    function: HostFunction
    rank: int  # the number of axes of a batch of images
    is_gradient: bool = False  # whether the gradient is asked for, not the outputs

    def __call__(self, images: jax.Array, *change: jax.Array) -> np.ndarray:
        axes = images.shape[: images.ndim - self.rank + 1]
        flat = np.asarray(images).reshape(-1, *images.shape[len(axes) :])
        if not self.is_gradient:
            outputs = self.function(flat)
            return outputs.reshape(*axes, outputs.shape[-1])
        (change_,) = change
        rows = np.asarray(change_).reshape(-1, change_.shape[-1])
        return self.function.pulled_back(flat, rows).reshape(images.shape)


def _as_rows(returned: Any) -> np.ndarray:
    try:
        rows = np.asarray(returned)
    except ValueError as error:  # Of a list whose entries differ in shape.
        raise ValueError(
            f"the host function must return one array [B, K]; got {named(returned)}, "
            f"whose entries differ in shape. {IF_NO_CLASSES}"
        ) from error
    # A last layer of convolution returns [B, K, 1, 1].
    return rows[..., 0, 0] if rows.ndim == 4 and rows.shape[2:] == (1, 1) else rows


def _first_rows(returned: Any, number: int, length: int) -> Any:
    """Returns the first rows of what an `is_any` function returned, as arrays."""
    if isinstance(returned, list):
        if len(returned) != length:
            raise ValueError(
                "a list that the host function returns must have an entry for each of "
                f"{length} images (put several arrays in a tuple or a dict); got "
                f"{len(returned)}"
            )
        return jax.tree.map(_copied, returned[:number])

    def part(leaf: Any) -> np.ndarray:
        array = np.array(leaf)
        if array.shape[:1] != (length,):
            raise ValueError(
                f"the host function must return arrays [B, ...] for B = {length} "
                f"images; got the shape {array.shape}"
            )
        return array[:number]

    return jax.tree.map(part, returned)


def _copied(leaf: Any) -> Any:
    own = getattr(leaf, "clone", None) or getattr(leaf, "copy", None)
    return own() if callable(own) else leaf


def _forward(function: HostFunction, images: jax.Array) -> jax.Array:
    # What returns anything is only traced: `evaluate` calls it between programs.
    num_columns = 1 if function.is_any else function.classes(images.shape[1:])
    shape = len(images), num_columns
    return jax.pure_callback(
        HostCall(function, images.ndim),
        jax.ShapeDtypeStruct(shape, jnp.float32),
        images,
        vmap_method="broadcast_all",
    )


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _with_gradient(function: HostFunction, images: jax.Array) -> jax.Array:
    return _forward(function, images)


def _backward_pass(
    function: HostFunction, images: jax.Array, change: jax.Array
) -> tuple[jax.Array]:
    gradient = jax.pure_callback(
        HostCall(function, images.ndim, is_gradient=True),
        jax.ShapeDtypeStruct(images.shape, jnp.float32),
        images,
        change,
        vmap_method="broadcast_all",
    )
    return (gradient,)


_with_gradient.defvjp(
    lambda function, images: (_forward(function, images), images), _backward_pass
)


@functools.lru_cache(maxsize=256)
def _found(function: HostFunction, shape: tuple[int, ...]) -> tuple[int, int | None]:
    """Finds the number of classes, and the batch of what takes no two images."""
    failures: list[Exception] = []
    for number in [function.batch_size] if function.batch_size else _SIZES:
        black = np.zeros((number, *shape), np.float32)
        try:
            if function.check is not None:
                function.check(black)
            # A program is being traced, of which what it does with JAX is no part.
            with jax.ensure_compile_time_eval():
                fixed = dataclasses.replace(function, batch_size=number)
                num_classes = fixed(black).shape[1]
        except Exception as error:  # The user's code may raise anything.
            failures.append(error)
            continue
        return num_classes, number if failures else function.batch_size
    raise failures[0]


@contextlib.contextmanager
def _noted(shape: tuple[int, ...]) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # The user's code may raise anything.
        # A user's class may not allow a note: its error counts more.
        with contextlib.suppress(Exception):
            error.add_note(
                f"raised by the host function on a batch of the shape {shape}"
            )
        _failed.append(error)
        raise
