"""The library's alterations by name, with default ranges, and a user's own."""

import inspect
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

from jaxrob import alterations
from jaxrob._command import user_code
from jaxrob._command.grammar import Written
from jaxrob._command.refused import Refused, did_you_mean
from jaxrob.alterations import Alteration


class _Known(NamedTuple):
    """One of the library's alterations.

    Attributes:
      make: makes it, of a lower and an upper end and settings.
      ends: the default range for pictures of a height and a width; None for that of
        the library.
      plausible: where the default range is from.
    """

    make: Callable[..., Alteration]
    ends: Callable[[int, int], tuple[float, float]] | None
    plausible: str


def _tenth(size: int) -> tuple[float, float]:
    return -_rounded(size / 10), _rounded(size / 10)


def _rounded(number: float) -> float:
    return float(f"{number:.3g}")


_KNOWN = {
    "horizontal_translation": _Known(
        alterations.horizontal_translation,
        lambda height, width: _tenth(width),
        "10 % of the width, as in the papers of 2022 and 2024",
    ),
    "vertical_translation": _Known(
        alterations.vertical_translation,
        lambda height, width: _tenth(height),
        "10 % of the height, as in the papers of 2022 and 2024",
    ),
    "rotation": _Known(alterations.rotation, None, "as in the paper of 2020"),
    "brightness": _Known(alterations.brightness, None, "as in the papers"),
    "zoom": _Known(alterations.zoom, None, "as in the papers"),
    "gaussian_noise": _Known(
        alterations.gaussian_noise, None, "200 / 255**2, as in the paper of 2020"
    ),
    "gaussian_blur": _Known(
        alterations.gaussian_blur,
        lambda height, width: (0.0, _rounded(min(height, width) / 25)),
        "4 % of the shorter side: 2 px of 50, as in the paper of 2020",
    ),
    "jpeg_compression": _Known(
        alterations.jpeg_compression, None, "100 less the quality, as in the papers"
    ),
}
NAMES = tuple(_KNOWN)


def plausible(name: str) -> str:
    """Where the default range of one of `NAMES` is from."""
    return _KNOWN[name].plausible


def settings(name: str) -> list[str]:
    """What may be said of one of `NAMES` beside its range."""
    parameters = inspect.signature(_KNOWN[name].make).parameters
    return [one for one in parameters if one not in ("lower", "upper")]


def made(written: Written, image_shape: Sequence[int]) -> Alteration:
    """The alteration that was written.

    Args:
      written: what was written.
      image_shape: `(H, W, C)` of the pictures, which default ranges scale with.

    Raises:
      Refused: if there is none of that name, or its range or settings are wrong.
    """
    if user_code.is_code(written.name):
        return _users_own(written)
    known = _KNOWN.get(written.name)
    if known is None:
        hint = did_you_mean(written.name, _KNOWN)
        raise Refused(
            f"{written.text!r}: there is no alteration {written.name}.{hint} There "
            f"are: {', '.join(_KNOWN)}; or file.py:name for one of your own"
        )
    ends = written.ends
    if ends is None and known.ends is not None:
        ends = known.ends(*image_shape[:2])
        if written.settings.get("unit") == "relative":
            ends = (-0.1, 0.1)
    _check_settings(written, settings(written.name))
    try:
        return known.make(*(ends or ()), **written.settings)
    except (TypeError, ValueError) as error:
        raise Refused(f"{written.text!r}: {error}") from error


def all_made(some: Sequence[Written], image_shape: Sequence[int]) -> list[Alteration]:
    """Each of the alterations that were written.

    Raises:
      Refused: as `made`, or if two would go by one name in the results.
    """
    found = [made(one, image_shape) for one in some]
    seen: dict[str, str] = {}
    for one, written in zip(found, some):
        # Of the files of results.
        name = re.sub(r"\W+", "_", one.name).lower()
        if name in seen:
            raise Refused(
                f"{seen[name]!r} and {written.text!r} are both called {one.name}, and "
                "results have one of a name; leave one out"
            )
        seen[name] = written.text
    return found


def _check_settings(written: Written, allowed: Sequence[str]) -> None:
    for name in written.settings:
        if name not in allowed:
            there = ", ".join(allowed) or "no settings, only a range"
            raise Refused(
                f"{written.text!r}: {written.name} has no setting {name}; it has "
                f"{there}.{did_you_mean(name, allowed)}"
            )


def _users_own(written: Written) -> Alteration:
    """What a user's file holds: an alteration, what makes one, or its function."""
    found = user_code.load(written.name, "alterations")
    if inspect.isroutine(found) and not _required(found):
        found = found()
        if not isinstance(found, Alteration):
            raise Refused(
                f"{written.text!r}: without parameters it must return a "
                f"jaxrob.Alteration; got {type(found).__name__}"
            )
    if isinstance(found, Alteration):
        if written.ends is not None or written.settings:
            raise Refused(
                f"{written.text!r}: it is a jaxrob.Alteration, which has its own range "
                "and settings; leave out the parentheses"
            )
        return found
    number = len(_required(found)) if callable(found) else 0
    if number not in (2, 3):
        raise Refused(
            f"{written.text!r}: it must be a jaxrob.Alteration, or a function of an "
            "image and a level (and a random key)"
        )
    if written.ends is None:
        raise Refused(
            f"{written.text!r}: a function needs a range, such as {written.name}(0,1)"
        )
    _check_settings(written, ("identity", "unit", "resolution"))
    given = cast(dict[str, Any], written.settings)
    name = written.name.rpartition(":")[2].replace("_", " ")
    try:
        return Alteration(name, found, *written.ends, stochastic=number == 3, **given)
    except (TypeError, ValueError) as error:
        raise Refused(f"{written.text!r}: {error}") from error


def _required(function: Any) -> list[str]:
    """The parameters that a call must give, by position."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # Of some that are built in.
        return []
    return [
        one.name
        for one in parameters
        if one.default is one.empty
        and one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)
    ]
