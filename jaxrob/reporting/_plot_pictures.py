"""A plot of images and when they fail."""

import math
import textwrap
from collections.abc import Sequence
from typing import Any

from jaxrob._arguments.checks import checked_integer, checked_names, checked_sequence
from jaxrob.reporting._axes import literal, pyplot
from jaxrob.reporting._results import Picture


def plot_first_failures(
    pictures: Sequence[Picture],
    class_names: Sequence[str] | None = None,
    columns: int = 6,
) -> Any:
    """The images that fail first, each at the level at which it does.

    Example::

        shown = reporting.pictures(result, blur, test)
        reporting.plot_first_failures(shown).savefig("failures.png")

    Args:
      pictures: of an assessment, by `jaxrob.reporting.pictures`. Those shown as
        something else than "first failure", or without an image, are left out.
      class_names: the classes' names; by default their numbers.
      columns: images in a row.

    Returns:
      A matplotlib figure. Under each image are its level, its class and the answer.

    Raises:
      ImportError: if matplotlib is missing.
      TypeError: if an argument has a wrong type.
      ValueError: if none of the pictures is of a failure.
    """
    wanted = "jaxrob.reporting.Picture"
    pictures = checked_sequence("pictures", pictures, Picture, wanted)
    if class_names is not None:
        class_names = checked_names("class_names", class_names)
    columns = checked_integer("columns", columns, at_least=1)
    failed = [
        one
        for one in pictures
        if one.shown_as == "first failure" and one.image is not None
    ]
    if not failed:
        raise ValueError(
            'pictures must hold one that is shown as "first failure" and has an image; '
            f"got {sorted({one.shown_as for one in pictures})}"
        )
    columns = min(columns, len(failed))
    rows = math.ceil(len(failed) / columns)
    whole = pyplot().figure(figsize=(1.5 * columns, 2.1 * rows), layout="constrained")
    for panel, one in zip(whole.subplots(rows, columns, squeeze=False).flat, failed):
        panel.imshow(one.image, cmap="gray", vmin=0, vmax=255)
        words = f"{_name(one.label, class_names)} taken for "
        words += _name(one.predicted, class_names)
        lines = [f"level {one.level:.3g}", *textwrap.wrap(words, 20)[:3]]
        panel.set_title("\n".join(lines), fontsize=7)
    for panel in whole.axes:
        panel.set_axis_off()
    return whole


def _name(number: int | None, class_names: Sequence[str] | None) -> str:
    if number is None:
        return "a class not known"
    if class_names is None:
        return f"class {number}"
    return literal(class_names[number]) if number < len(class_names) else "unknown"
