"""Makes an error of each deprecation that the project's own code causes.

The one who calls what is deprecated causes it: the first code outside of the package
that warns. What other packages cause among themselves is theirs to mend.
"""

import pathlib
import sys
import warnings

ROOT = pathlib.Path(__file__).parents[1]
KINDS = DeprecationWarning, PendingDeprecationWarning, FutureWarning


def make_errors_of_ours() -> None:
    """From now on in this process; packages name the caller in many ways, or not."""
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
    """Whether a test ignores it by its words: what is deprecated has users still."""
    return any(
        action == "ignore"
        and message is not None
        and message.match(str(found))
        and isinstance(found, category)
        for action, message, category, *_ in warnings.filters
    )


def _is_ours(frame) -> bool:
    """Whether the first code outside of the package of a frame is the project's."""
    package = _package(frame)
    # An import by name asks the module for it from within Python's own code.
    while frame is not None and _package(frame) in (package, "importlib"):
        if frame.f_code.co_name == "<module>":
            return False  # Not what it was called for, but its own import.
        frame = frame.f_back
    if frame is None:
        return False
    path = pathlib.Path(frame.f_code.co_filename)
    return path.is_relative_to(ROOT) and "site-packages" not in path.parts


def _package(frame) -> str:
    return frame.f_globals.get("__name__", "").split(".")[0]
