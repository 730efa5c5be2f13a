"""Alterations on the command line: by name, as calls that Python would parse, listed.

    alteration = name [ "(" [ part { "," part } ] ")" ]
    name       = word [ "." word ] | path ".py:" word
    part       = number | word "=" ( number | word )

The first two parts are the ends of the range; named ones follow. Nothing written is
ever executed.
"""

import ast
import inspect
import math
import pathlib
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

import jax
import numpy as np

import jaxrob
from jaxrob import alterations, data, reporting
from jaxrob._arguments.texts import install, warn
from jaxrob._command import user_code
from jaxrob._command.define import Refused, Values, check_file, did_you_mean
from jaxrob._command.network import pair
from jaxrob.alterations import Alteration, presets

Value = str | float | bool

# Allows hyphens, so that a message can suggest the name with underscores.
_NAME = re.compile(
    r"\s*(.+?\.py:[A-Za-z_]\w*|[A-Za-z_][\w-]*(?:\.[A-Za-z_][\w-]*)?)\s*", re.ASCII
)
# No alteration needs more; a longer text is a mistake.
_LONGEST = 1000


class Written(NamedTuple):
    name: str  # The name of a library alteration, or a Python file and a name in it
    # The lower and the upper end of the range; None for the default
    ends: tuple[float, float] | None
    settings: dict[str, Value]  # The other settings, by name
    text: str  # The whole text
    reason: str | None = None  # Why the range is plausible; None where nobody says


def read_call(text: str) -> Written:
    """Reads an alteration, such as "gaussian_blur(0,4)" or "rotation"."""
    if len(text) > _LONGEST:
        raise Refused(f"an alteration has {_LONGEST} characters at most: {len(text)}")
    found = _NAME.match(text)
    if found is None:
        raise Refused(f"{text!r}: expected an alteration's name")
    name, rest = found[1], text[found.end() :].strip()
    if not rest:
        return Written(name, None, {}, text)
    if rest[0] != "(":
        what = '"(", or "_" in place of a space,'
        what = "one alteration for each flag" if rest[0] == "," else what
        raise Refused(f"{text!r}: expected {what} after {name}; got {rest[:20]!r}")
    try:
        call = ast.parse(f"_{rest}", mode="eval").body
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
            raise ValueError('expected nothing after ")"')
        ends = [_value(one) for one in call.args]
        settings = {str(one.arg): _value(one.value) for one in call.keywords}
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        reason = error.msg if isinstance(error, SyntaxError) else error
        raise Refused(
            f"{text!r}: {reason}; write it as {name}(lower,upper,setting=value)"
        ) from error
    if len(settings) < len(call.keywords) or "None" in settings:
        raise Refused(f"{text!r}: a setting has no name, or stands there twice")
    return Written(name, _range(text, name, ends), settings, text)


def _value(node: ast.expr) -> Value:
    if isinstance(node, ast.Name):
        return {"true": True, "false": False}.get(node.id.lower(), node.id)
    found = ast.literal_eval(node)
    if not isinstance(found, int | float) or not math.isfinite(found):
        raise ValueError(f"expected a finite number or a word; got {found!r}")
    return found if isinstance(found, bool) else float(found)


def _range(text: str, name: str, values: list[Value]) -> tuple[float, float] | None:
    if not values:
        return None
    ends = [one for one in values if not isinstance(one, bool | str)]
    if len(ends) < len(values):
        raise Refused(f"{text!r}: expected numbers as the ends of the range")
    if len(ends) == 1:
        low, high = min(ends[0], 0.0), max(ends[0], 0.0)
        raise Refused(
            f"{text!r}: a range has two ends, such as {name}({low:g},{high:g})"
        )
    if len(ends) > 2:
        raise Refused(f"{text!r}: a range has two ends; got {len(ends)} numbers")
    lower, upper = ends
    if not lower < upper:
        raise Refused(
            f"{text!r}: the lower end must be below the upper one; got {lower:g} and "
            f"{upper:g}"
        )
    return lower, upper


#: The papers' alterations, which are assessed by default.
DEFAULT = tuple(one.name.replace(" ", "_") for one in presets.cnn_2020())
#: The corruptions of the benchmarks, each by itself.
BY_SEVERITY = tuple(
    f"corruptions.{name}"
    for name in (*presets.CORRUPTIONS, *presets.VALIDATION_CORRUPTIONS)
)
#: Names of several alterations.
PRESETS = ("imagenet_c", "cifar_c")
_OF_COLOURS = ("frost", "spatter", "saturate")
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
    parameters = inspect.signature(_maker(name)).parameters
    return [one for one in parameters if one not in _NO_SETTINGS]


def _maker(name: str) -> Callable[..., Any]:
    if name in BY_SEVERITY:
        return getattr(alterations.corruptions, name.removeprefix("corruptions."))
    return getattr(presets if name in PRESETS else alterations, name)


def made(
    written: Written, image_shape: Sequence[int], frost_folder: str | None = None
) -> Alteration:
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
    some: Sequence[Written], image_shape: Sequence[int], frost_folder: str | None = None
) -> list[tuple[Alteration, Written]]:
    pairs = [
        (one, written)
        for written in some
        for one in (
            _of_preset(written, image_shape, frost_folder)
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


def _of_preset(
    written: Written, image_shape: Sequence[int], frost_folder: str | None
) -> list[Alteration]:
    """Grey pictures have no colours, which the photographs of frost have."""
    found = [*_of_benchmark(written, frost_folder)]
    gone = [one.name for one in found if one.name in _OF_COLOURS]
    if image_shape[-1] != 1 or not gone or frost_folder:
        return found
    warn(
        f"{', '.join(gone)} is left out, which is about colours: these pictures have "
        "one channel. A mean over the other corruptions is not the benchmark's"
    )
    return [one for one in found if one.name not in gone]


def _of_benchmark(written: Written, frost_folder: str | None) -> Any:
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


_LEVELS = 7
_HEADER = ("name", "default range", "unit", "nothing at", "settings", "range from")


def run_alterations(values: Values, words: Sequence[str]) -> str:
    del words
    path = values.pictures
    if path is not None:
        check_file("pictures", path, ".png")
    elif values.image is not None:
        raise Refused("--image needs --pictures, the file that is written")
    size = pair(values, "size")
    assert size is not None
    image = np.zeros((*size, 3))
    if path is not None:
        image = _image(values.image)
        size = image.shape[0], image.shape[1]
    written = [read_call(name) for name in NAMES]
    altered = [one for one, _ in all_made(written, (*size, 3))]
    _print_table(altered, size)
    if path is not None:
        _draw(altered, image, path)
        print(f"wrote {path}")
    return ""


def _print_table(altered: Sequence[jaxrob.Alteration], size: tuple[int, int]) -> None:
    rows: list[tuple[str, ...]] = [_HEADER]
    for name, one in zip(NAMES, altered):
        shown = ", ".join(settings(name))
        rows.append(
            (
                name,
                f"{one.lower:.4g},{one.upper:.4g}",
                one.unit,
                f"{one.identity:g}",
                shown,
                one.about.range_from,
            )
        )
    said = dict.fromkeys(BY_SEVERITY, "a benchmark's, held back for validation")
    for name in presets.CORRUPTIONS:
        said[f"corruptions.{name}"] = "of ImageNet-C and CIFAR-10-C"
    for name in PRESETS:
        said[name] = f"all {len(presets.CORRUPTIONS)} of the benchmark"
    for name, where in said.items():
        shown = ", ".join(settings(name))
        rows.append((name, "0,5", "severity", "0", shown, where))
    widths = [max(map(len, column)) for column in zip(*rows)]
    print(f"for pictures of {size[0]} x {size[1]}:")
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths)]
        print("  ".join(cells).rstrip())


def _image(path: str | None) -> np.ndarray:
    if path is None:
        return np.asarray(data.digits("test").images[3])
    from jaxrob.data._decode import decode_image
    from jaxrob.data._preparation import Fit
    from jaxrob.data._source import read_file

    on_white = Fit(background=(255, 255, 255))
    image, _ = decode_image(read_file(pathlib.Path(path)), path, on_white)
    return image


def _draw(altered: Sequence[jaxrob.Alteration], image: np.ndarray, path: str) -> None:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise Refused(f"--pictures needs matplotlib: {install('command')}") from error
    if image.shape[-1] != 3:
        print("of a grey picture saturation is left out")
        altered = [one for one in altered if one.name != "saturation"]
    figure = Figure(figsize=(1.3 * _LEVELS, 1.55 * len(altered)), layout="constrained")
    rows: Any = figure.subplots(len(altered), _LEVELS, squeeze=False)
    key = jax.random.key(0)
    for one, row in zip(altered, rows):
        levels = one.snap(np.linspace(one.lower, one.upper, _LEVELS))
        for axes, level, shown in zip(
            row, levels, reporting.examples(one, image, levels, key)
        ):
            axes.imshow(shown.clip(0, 1), cmap="gray", vmin=0, vmax=1)
            axes.set_title(f"{level:.3g}", fontsize=8)
            axes.set_axis_off()
        title = f"{one.name} [{one.unit}]\n{levels[0]:.3g}"
        row[0].set_title("")
        row[0].set_title(title, fontsize=8, loc="left")
    figure.savefig(path, dpi=110)
