"""`jaxrob alterations`: prints names, units and ranges, and draws a picture."""

import pathlib
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

import jaxrob
from jaxrob import data, reporting
from jaxrob._arguments.texts import install
from jaxrob._command import catalogue, grammar
from jaxrob._command.define import Values
from jaxrob._command.images import pair
from jaxrob._command.refused import Refused, check_file
from jaxrob.alterations import presets

_LEVELS = 7
_HEADER = ("name", "default range", "unit", "nothing at", "settings", "range from")


def run(values: Values, words: Sequence[str]) -> str:
    """Lists the alterations for pictures of a size."""
    del words
    path = values.pictures
    if path is not None and pathlib.Path(path).suffix.lower() != ".png":
        raise Refused(f"--pictures={path}: it must end with .png")
    if values.image is not None and path is None:
        raise Refused("--image needs --pictures, the file that is written")
    if path is not None:
        check_file("pictures", path)
    size = pair(values, "size")
    assert size is not None
    image = np.zeros((*size, 3))
    if path is not None:
        image = _image(values.image)
        size = image.shape[0], image.shape[1]
    written = [grammar.read(name) for name in catalogue.NAMES]
    altered = [one for one, _ in catalogue.all_made(written, (*size, 3))]
    _print_table(altered, size)
    if path is not None:
        _draw(altered, image, path)
        print(f"wrote {path}")
    return ""


def _print_table(altered: Sequence[jaxrob.Alteration], size: tuple[int, int]) -> None:
    rows: list[tuple[str, ...]] = [_HEADER]
    for name, one in zip(catalogue.NAMES, altered):
        settings = ", ".join(catalogue.settings(name))
        rows.append(
            (
                name,
                f"{one.lower:.4g},{one.upper:.4g}",
                one.unit,
                f"{one.identity:g}",
                settings,
                one.about.range_from,
            )
        )
    said = dict.fromkeys(
        catalogue.BY_SEVERITY, "a benchmark's, held back for validation"
    )
    for name in presets.CORRUPTIONS:
        said[f"corruptions.{name}"] = "of ImageNet-C and CIFAR-10-C"
    for name in catalogue.PRESETS:
        said[name] = f"all {len(presets.CORRUPTIONS)} of the benchmark"
    for name, where in said.items():
        settings = ", ".join(catalogue.settings(name))
        rows.append((name, "0,5", "severity", "0", settings, where))
    widths = [max(map(len, column)) for column in zip(*rows)]
    print(f"for pictures of {size[0]} x {size[1]}:")
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths)]
        print("  ".join(cells).rstrip())


def _image(path: str | None) -> np.ndarray:
    """Returns the picture that is altered."""
    if path is None:
        return np.asarray(data.digits("test").images[3])
    from jaxrob.data._decode import Fit, decode_image
    from jaxrob.data._source import read_file

    on_white = Fit(background=(255, 255, 255))
    image, _ = decode_image(read_file(pathlib.Path(path)), path, on_white)
    return image


def _draw(altered: Sequence[jaxrob.Alteration], image: np.ndarray, path: str) -> None:
    """Writes a row of pictures for each alteration that applies to the image."""
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
