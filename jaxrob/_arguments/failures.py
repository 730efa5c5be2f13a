"""Errors of functions that users pass in, with tracebacks that begin there."""

import types

import jax

from jaxrob._arguments.checks import looks_channels_first
from jaxrob._arguments.texts import error_text


def failed_on_images(
    what: str, image_shape: tuple[int, ...], error: Exception
) -> ValueError:
    """Makes the error for a function that fails on images of a shape."""
    # The traceback of its cause begins with the user's frames then.
    begin_with_users(error)
    shape, hint = ", ".join(map(str, image_shape)), ""
    if len(image_shape) == 2:
        hint = " (if the axis of the channels is missing, images[..., None] adds it)"
    elif looks_channels_first(image_shape):
        hint = (
            " (they are taken as [B, H, W, C]; if they are [B, C, H, W], pass "
            "np.moveaxis(images, 1, -1))"
        )
    if type(error).__name__ == "TraceContextError":
        hint = " (give a module of Flax NNX to jaxrob.Classifier.from_nnx(module))"
    return ValueError(
        f"{what} failed on images of the shape [B, {shape}]{hint}: {error_text(error)}"
    )


# Packages whose frames lie between a call of this library and the user's network, and
# the modules of Python with which they call it.
_CALLERS = ("jaxrob", "jax", "contextlib", "functools")
_FRAMEWORKS = (*_CALLERS, "flax", "torch", "keras", "equinox")


def begin_with_users(error: BaseException) -> None:
    """Drops the frames before those of the user's network from an error's traceback."""
    # Where the network is all of a framework's own layers it begins with these, and
    # where no other code was called it stays whole, as with
    # JAX_TRACEBACK_FILTERING=off.
    if jax.config.jax_traceback_filtering == "off":  # pyright: ignore
        return
    for skipped in (_FRAMEWORKS, _CALLERS):
        trace = error.__traceback__
        while trace is not None and _package(trace.tb_frame) in skipped:
            trace = trace.tb_next
        if trace is not None:
            # A class of the user's may have another method of this name.
            BaseException.with_traceback(error, trace)
            return


def _package(frame: types.FrameType) -> str:
    return frame.f_globals.get("__name__", "").partition(".")[0]
