"""Tracebacks that begin with the user's code."""

import types

import jax

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
