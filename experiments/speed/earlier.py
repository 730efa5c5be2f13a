"""Comparison with an earlier run of `throughput.py`."""

import json
import pathlib
from typing import Any, NamedTuple

from absl import app

# Images per second, by network, size, alteration and pipeline.
Speeds = dict[tuple[str, str, str, str], float]


class Run(NamedTuple):
    """The values of a run that are compared."""

    machine: dict[str, Any]
    speeds: Speeds


def read(path: str) -> Run:
    """Reads an earlier run's JSON.

    Raises:
      absl.app.UsageError: if it is missing, or not written by the script.
    """
    try:
        return of(json.loads(pathlib.Path(path).read_text()))
    except OSError as error:
        raise app.UsageError(f"--compare: {path}: {error}") from error
    except (KeyError, TypeError, ValueError) as error:
        raise app.UsageError(
            f"--compare: {path} is not what this script writes: {error!r}"
        ) from error


def of(document: dict[str, Any]) -> Run:
    """Extracts the compared values from the script's output."""
    speeds = {}
    for result in document["results"]:
        size = f"{result['num_images']} x {result['num_levels']}"
        for row in result["alterations"]:
            for name in ("evaluate", "forward", "opencv", "dm_pix"):
                if name in row:
                    key = (result["network"], size, row["alteration"], name)
                    speeds[key] = row[name]["images_per_second"]
    return Run(document["machine"], speeds)


def compared(now: Run, before: Run) -> list[str]:
    """Formats the differences of the machines, and each speed-up."""
    lines = [
        f"{name} was {before.machine.get(name)}, is {now.machine.get(name)}"
        for name in {**before.machine, **now.machine}
        if before.machine.get(name) != now.machine.get(name)
    ]
    lines.append("times as fast as in the earlier run")
    ratios: dict[tuple[str, str, str], list[str]] = {}
    for key, speed in now.speeds.items():
        if key in before.speeds:
            cells = ratios.setdefault(key[:3], [])
            cells.append(f"{key[3]} {speed / before.speeds[key]:.2f}")
    for (network, size, alteration), cells in ratios.items():
        lines.append(f"{network}, {size}, {alteration}: " + ", ".join(cells))
    if not ratios:
        lines.append("nothing: no network was measured with as many images and levels")
    return lines
