"""Runs timed alternately, and their table."""

import statistics
from collections.abc import Callable, Mapping
from typing import Any

from common import timing


def measured(
    runs: Mapping[str, Callable[[], None]], rows: int, repeats: int
) -> dict[str, Any]:
    """Each run's speed, and its ratio to "evaluate": medians of runs side by side."""
    first = {name: timing.seconds(run) for name, run in runs.items()}
    times = [
        {name: timing.seconds(run) for name, run in runs.items()}
        for _ in range(repeats)
    ]
    found = {}
    for name in runs:
        steady = statistics.median(one[name] for one in times)
        found[name] = {
            "images_per_second": rows / steady,
            "seconds": [one[name] for one in times],
            "first_seconds": first[name],
            "ratio": statistics.median(one[name] / one["evaluate"] for one in times),
        }
    return found


def heading(others: Mapping[str, str]) -> str:
    """Returns the heading of `row`, of other runs by name and in words."""
    columns = (f"{words + '/s':>12}{'ratio':>7}" for words in others.values())
    return f"{'alteration':24}{'images/s':>10}{'first':>8}" + "".join(columns)


def row(name: str, found: Mapping[str, Any], others: Mapping[str, str]) -> str:
    """Returns an alteration's row; a dash for each other run that it lacks."""
    evaluate = found["evaluate"]
    cells = [
        f"{name:24}{evaluate['images_per_second']:10,.0f}"
        f"{evaluate['first_seconds']:7.1f}s"
    ]
    for other in others:
        one = found.get(other)
        cells.append(
            f"{one['images_per_second']:12,.0f}{one['ratio']:7.2f}"
            if one
            else f"{'-':>12}{'-':>7}"
        )
    return "".join(cells)
