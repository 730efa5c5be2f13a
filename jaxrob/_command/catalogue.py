"""The library's alterations by name, with default ranges, and the user's own."""

import inspect
import re
from collections.abc import Callable, Sequence
from typing import Any, cast

from jaxrob import alterations
from jaxrob._command import user_code
from jaxrob._command.grammar import Value, Written
from jaxrob._command.refused import Refused, did_you_mean
from jaxrob.alterations import Alteration, presets

#: The papers' alterations, which are assessed by default.
DEFAULT = tuple(one.name.replace(" ", "_") for one in presets.cnn_2020())
#: The corruptions of the benchmarks, each by itself.
BY_SEVERITY = tuple(
    f"corruptions.{name}"
    for name in (*presets.CORRUPTIONS, *presets.VALIDATION_CORRUPTIONS)
)
#: Names of several alterations.
PRESETS = ("imagenet_c", "cifar_c")
#: The papers' first, then the others without required parameters.
NAMES = (
    *DEFAULT,
    *(
        name
        for name, found in inspect.getmembers(alterations, inspect.isfunction)
        if name not in DEFAULT and not user_code.parameters(found)
    ),
)
# The grammar has no paths: `--frost` takes the folder.
_FOLDERS = ("folder", "frost_folder")
_NO_SETTINGS = ("lower", "upper", *_FOLDERS)


def settings(name: str) -> list[str]:
    """Returns the settings of an alteration or a preset besides its range."""
    parameters = inspect.signature(_maker(name)).parameters
    return [one for one in parameters if one not in _NO_SETTINGS]


def _maker(name: str) -> Callable[..., Any]:
    if name in BY_SEVERITY:
        return getattr(alterations.corruptions, name.removeprefix("corruptions."))
    return getattr(presets if name in PRESETS else alterations, name)


def made(
    written: Written, image_shape: Sequence[int], frost_folder: str | None = None
) -> Alteration:
    """Makes the alteration that was written."""
    if user_code.is_code(written.name):
        return _users_own(written, image_shape)
    if written.name in BY_SEVERITY:
        return _of_benchmark(written, frost_folder)
    if written.name in PRESETS:
        raise Refused(
            f"{written.text!r}: it stands for several alterations; name each, such as "
            f"{BY_SEVERITY[0]}"
        )
    if written.name not in NAMES:
        hint = did_you_mean(written.name, (*NAMES, *BY_SEVERITY, *PRESETS))
        raise Refused(
            f"{written.text!r}: there is no alteration {written.name}.{hint} There "
            f"are: {', '.join((*NAMES, *PRESETS, *BY_SEVERITY))}; or file.py:name for "
            "one of your own"
        )
    _check_settings(written, settings(written.name))
    try:
        return _in_range(_maker(written.name), written, image_shape)
    except (TypeError, ValueError) as error:
        raise Refused(f"{written.text!r}: {error}") from error


def _in_range(
    make: Callable[..., Alteration], written: Written, image_shape: Sequence[int]
) -> Alteration:
    """Makes an alteration over the written range, or over its default range."""
    found = make(*(written.ends or ()), **written.settings)
    if written.ends is None and found.about.default_range is not None:
        ends = found.about.default_range(*image_shape[:2])
        try:
            lower, upper = ends
            found = make(lower, upper, **written.settings)
        except (TypeError, ValueError) as error:
            raise Refused(
                f"{written.text!r}: its default_range gives {ends}: {error}"
            ) from error
    return found


def all_made(
    some: Sequence[Written],
    image_shape: Sequence[int],
    frost_folder: str | None = None,
) -> list[tuple[Alteration, Written]]:
    """Makes each alteration that was written, and all of a preset; see `made`."""
    pairs = [
        (one, written)
        for written in some
        for one in (
            _of_benchmark(written, frost_folder)
            if written.name in PRESETS
            else [made(written, image_shape, frost_folder)]
        )
    ]
    seen: dict[str, str] = {}
    for one, written in pairs:
        # Names of the results' files.
        name = re.sub(r"\W+", "_", one.name).lower()
        if name in seen:
            raise Refused(
                f"{seen[name]!r} and {written.text!r} are both called {one.name}, and "
                "results have one of a name; leave one out"
            )
        seen[name] = written.text
    if frost_folder is not None and "frost" not in seen:
        raise Refused(f"--frost={frost_folder}: frost is not among the alterations")
    return pairs


def _of_benchmark(written: Written, frost_folder: str | None) -> Any:
    """Makes the corruptions of a benchmark, or one of them."""
    if written.ends not in (None, (0.0, 5.0)):
        raise Refused(
            f"{written.text!r}: its levels are severities from 0 to 5; leave out the "
            "range"
        )
    _check_settings(written, settings(written.name))
    make = _maker(written.name)
    takes = inspect.signature(make).parameters
    folder = {name: frost_folder for name in _FOLDERS if name in takes}
    try:
        return make(**_with_integers(written.settings), **folder)
    except (FileNotFoundError, ImportError, TypeError, ValueError) as error:
        raise Refused(f"{written.text!r}: {error}") from error


def _with_integers(settings: dict[str, Value]) -> dict[str, Any]:
    """Returns the settings with whole numbers as integers, as sizes must be."""
    return {
        name: int(value) if isinstance(value, float) and value.is_integer() else value
        for name, value in settings.items()
    }


def _check_settings(written: Written, allowed: Sequence[str]) -> None:
    for name in written.settings:
        if name not in allowed:
            there = ", ".join(allowed) or "no settings, only a range"
            raise Refused(
                f"{written.text!r}: {written.name} has no setting {name}; it has "
                f"{there}.{did_you_mean(name, allowed)}"
            )


def _users_own(written: Written, image_shape: Sequence[int]) -> Alteration:
    """Makes a user's alteration: from an alteration, its maker, or its function."""
    found = user_code.load(written.name, "alterations")
    make = (
        found if inspect.isroutine(found) and not user_code.parameters(found) else None
    )
    if make is not None:
        found = make()
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
        return found if make is None else _in_range(make, written, image_shape)
    number = len(user_code.parameters(found)) if callable(found) else 0
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
