"""What the rows say to the paper's findings, a line each."""

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jaxrob import roma
from roma_2022.results import PAPER_ANSWERED, Timed, comparable, log10_adversarial
from roma_2022.tables import short


def over_epsilon(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Of experiment 1, a line for each estimator."""
    lines = []
    for name in dict.fromkeys(row["estimator"] for row in rows):
        some = [row for row in rows if row["estimator"] == name]
        some = sorted(some, key=lambda row: row["epsilon"])
        adversarial = [row["adversarial_all"] for row in some]
        answered = statistics.mean(row["answered"] for row in some)
        lines.append(
            f"1  {name}: {answered:.2%} of the queries answered"
            + _paper(name, "experiment 1")
            + f"; Adv of all grows with epsilon in "
            f"{sum(np.diff(adversarial) > 0)} of {len(some) - 1} steps, from "
            f"{short(adversarial[0])} to {short(adversarial[-1])}"
        )
    return lines


def by_category(
    name: str, result: roma.RomaResult, pairs: Sequence[dict[str, Any]]
) -> list[str]:
    """Of experiment 3, by an estimator; `pairs` as `tables.by_category` has them."""
    line = f"3  {name}: {result.answered.mean():.2%} answered"
    line += _paper(name, "experiment 3")
    if name == "roma":
        as_drawn = np.mean(result.status == "normal")
        line += f", {as_drawn:.2%} normal as drawn" + _paper(name, "as drawn")
    lines = [line]
    for pair in pairs:
        worse, better = pair["adversarial"]
        ratio = worse / better if better > 0 else math.inf
        lines.append(
            f"3  {name}: Adv of {pair['categories'][0]} / "
            f"{pair['categories'][1]} {short(worse)} / {short(better)} = "
            f"{ratio:.3g}"
            + (" (paper: 4.7)" if pair["categories"] == ("cat", "truck") else "")
            + f"; Holm's p: Welch {pair['welch']:.2g}, binomial "
            f"{pair['binomial']:.2g} (paper: below 0.001, uncorrected)"
        )
    return lines


def against_auto(found: Mapping[str, Timed]) -> list[str]:
    """How far "roma" is above "auto", by the size of what "auto" finds."""
    if not {"roma", "auto"} <= set(found):
        return []
    theirs, better = found["roma"].result, found["auto"].result
    both = comparable(theirs, better)
    x, y = log10_adversarial(better, both), log10_adversarial(theirs, both)
    lines = []
    for low, high in ((-2, 0), (-4, -2), (-6, -4), (-math.inf, -6)):
        inside = (x >= low) & (x < high)
        if inside.any():
            ratio = 10 ** np.median((y - x)[inside])
            above = np.mean((y - x)[inside] > 0)
            where = f"1e{low:g} to 1e{high:g}" if low > -math.inf else "below 1e-6"
            off = np.mean(np.abs(y - x)[inside] > np.log10(3))
            lines.append(
                f"   roma / auto, {where}: median "
                f"{ratio:.3g}, above for {above:.0%}, off by a factor 3 for {off:.0%} "
                f"of {inside.sum()} inputs"
            )
    return lines


def costs(found: Mapping[str, Timed], seconds_a_pass: float) -> list[str]:
    """What each estimator costs, beside the forward passes of single images alone."""
    return [
        f"   {name}: {seconds:.1f} s, {result.evaluations.mean():.0f} forward passes "
        f"an input, which alone take {seconds_a_pass * result.evaluations.sum():.1f} s"
        for name, (result, seconds) in found.items()
    ]


def _paper(name: str, what: str) -> str:
    return f" (paper: {PAPER_ANSWERED[what]:g} %)" if name == "roma" else ""
