"""Ranks as a text table and as a figure."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxrob._arguments.checks import check_type, checked_sequence
from jaxrob._arguments.readable import readable
from jaxrob.metrics._quality import in_words
from jaxrob.reporting._plot import checked_axes, literal, pyplot
from jaxrob.reporting._ranks import Ranks
from jaxrob.reporting._style import ACCEPTED, LINES

# Longer names would push the ranks out of sight.
_LONGEST = 40


def rank_table(found: Ranks) -> str:
    """Formats ranks for a terminal or a log, a row for each network.

    A rank that is not certain is a range ("1-3"). Below stands who could be first.

    Args:
      found: the ranks.

    Returns:
      The table as text, without a newline at its end.

    Raises:
      TypeError: if `found` are no ranks.
    """
    check_type("found", found, Ranks, "a jaxrob.reporting.Ranks")
    names = [_short(name) for name in found.networks]
    width = max(map(len, (*names, "network")))
    lines = [_title(found), f"  {'network'.ljust(width)}   mean  rank"]
    for name, value, low, high in zip(names, found.values, found.low, found.high):
        lines.append(f"  {name.ljust(width)}  {value:.3f}  {rank_text(low, high)}")
    first = ", ".join(_short(name) for name in found.could_be_first)
    lines.append(f"  could be first: {first}")
    return "\n".join(lines)


def plot_ranks(found: Ranks, axes: Any = None) -> Any:
    """Plots the interval of each network's rank, the best mean on top.

    A dot marks the rank of the observed mean; green are those that could be first.

    Args:
      found: the ranks.
      axes: matplotlib axes to draw on; by default those of a new figure.

    Returns:
      The axes.

    Raises:
      ImportError: if matplotlib is missing.
      TypeError: if an argument has a wrong type.
    """
    check_type("found", found, Ranks, "a jaxrob.reporting.Ranks")
    number = len(found.networks)
    axes = checked_axes(axes, (5, 1.2 + 0.28 * number))
    rows = np.arange(number)
    seen = 1 + (found.values[:, None] < found.values - 1e-12).sum(axis=1)
    for row, low, high, rank in zip(rows, found.low, found.high, seen):
        colour, style = (ACCEPTED, "-") if low == 1 else (LINES[0].colour, "--")
        axes.plot([low, high], [row, row], style, color=colour, linewidth=2)
        axes.plot([low, high], [row, row], "|", color=colour, markersize=9)
        axes.plot(rank, row, "o", color=colour, markersize=5)
    axes.set_yticks(rows, [literal(_short(name)) for name in found.networks])
    axes.invert_yaxis()
    axes.set_xlim(0.5, number + 0.5)
    axes.set_xticks(np.arange(1, number + 1, max(1, number // 10)))
    axes.set_xlabel(f"rank by the mean {in_words(found.measure)}; 1 is best")
    axes.grid(axis="x", color="0.9")
    axes.set_title(literal(_short(found.alteration or "over all")), fontsize=10)
    return axes


def rank_figure(found: Sequence[Ranks]) -> Any:
    """Plots several ranks, one below the other, see `plot_ranks`.

    Args:
      found: the ranks, at least one, such as those that `ranks` returns.

    Returns:
      A matplotlib figure.

    Raises:
      ImportError: if matplotlib is missing.
      TypeError: if `found` is no sequence of ranks.
    """
    found = checked_sequence("found", found, Ranks, "jaxrob.reporting.Ranks")
    rows = 1.2 + 0.28 * len(found[0].networks)
    whole = pyplot().figure(figsize=(6, rows * len(found)), layout="constrained")
    for axes, one in zip(whole.subplots(len(found), squeeze=False)[:, 0], found):
        plot_ranks(one, axes)
    return whole


def _title(found: Ranks) -> str:
    title = _short(found.alteration or "over all")
    return (
        f"{title}: mean {in_words(found.measure)} of {found.num_images} images over "
        f"the range ({found.num_levels} levels), ranks jointly at "
        f"{100 * found.confidence_level:g} %"
    )


def rank_text(low: int, high: int) -> str:
    return f"{low}" if low == high else f"{low}-{high}"


def _short(name: str) -> str:
    text = readable(name)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
