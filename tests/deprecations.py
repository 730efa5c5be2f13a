"""Turns each deprecation that the project's own code causes into an error.

The cause is the caller of the deprecated function: the first code outside of the
package that warns. Deprecations among other packages are left to them.
"""

import pathlib
import sys
import warnings

ROOT = pathlib.Path(__file__).parents[1]
KINDS = DeprecationWarning, PendingDeprecationWarning, FutureWarning


def make_errors_of_ours() -> None:
    """Takes effect in this process; packages mark the caller in various ways."""
    warn = warnings.warn

    def checked(message, category=None, stacklevel=1, *rest, **others):
        kind = type(message) if isinstance(message, Warning) else category
        if kind is not None and issubclass(kind, KINDS) and _is_ours(sys._getframe(1)):
            found = message if isinstance(message, Warning) else kind(message)
            if not _is_wanted(found):
                raise found
        return warn(message, category, stacklevel + 1, *rest, **others)

    warnings.warn = checked


def _is_wanted(found: Warning) -> bool:
    """Whether a test ignores it by its message: deprecated code still has users."""
    return any(
        action == "ignore"
        and message is not None
        and message.match(str(found))
        and isinstance(found, category)
        for action, message, category, *_ in warnings.filters
    )


def _is_ours(frame) -> bool:
    """Whether the first code outside of a frame's package is the project's."""
    package = _package(frame)
    # An import by name calls the module from within Python's own code.
    while frame is not None and _package(frame) in (package, "importlib"):
        if frame.f_code.co_name == "<module>":
            return False  # Its own import, not the deprecated call.
        frame = frame.f_back
    if frame is None:
        return False
    path = pathlib.Path(frame.f_code.co_filename)
    return path.is_relative_to(ROOT) and "site-packages" not in path.parts


def _package(frame) -> str:
    return frame.f_globals.get("__name__", "").split(".")[0]
