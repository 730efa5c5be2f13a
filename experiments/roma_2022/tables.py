"""The rows of experiments 1 and 2, and the table by category of experiment 3."""

import math
from typing import Any

import numpy as np
from common import intervals

from jaxrob import roma
from roma_2022.results import PAPER, Timed, adversarial, at_inputs

HEAD = (
    "inputs", "answered", "plr", "Adv", "of all", "counted", "of both", "auto's", "s",
    "status",
)  # fmt: skip


def row(
    epoch: int, epsilon: float, estimator: str, found: Timed, auto: Timed | None
) -> dict[str, Any]:
    """Returns an estimator's results at an epoch and an epsilon.

    Returns:
      Values by name. "adversarial" is the mean of the answers; "adversarial_all" of all
      inputs, those without an answer by their crude draws; "counted" of all inputs by
      their crude draws; "adversarial_of_both" and "adversarial_of_auto" of the inputs
      that "auto" answers too, by this estimator and by "auto".
    """
    result = found.result
    one_less_plr = adversarial(result)
    answers = result.plr[result.answered]
    counted = np.asarray(result.hits) / result.num_samples
    statuses, counts = np.unique(result.status, return_counts=True)
    values = {
        "epoch": epoch,
        "epsilon": epsilon,
        "estimator": estimator,
        "inputs": len(result.status),
        "answered": float(result.answered.mean()),
        "plr": _mean(answers),
        "plr_interval": intervals.over_inputs(np.mean, answers),
        "plr_all": 1 - _mean(one_less_plr),
        "adversarial": _mean(one_less_plr[result.answered]),
        "adversarial_all": _mean(one_less_plr),
        "counted": _mean(counted),
        "counted_interval": intervals.over_inputs(np.mean, counted),
        "seconds": found.seconds,
        "statuses": dict(zip(statuses.tolist(), counts.tolist())),
    }
    if auto is not None:
        same = at_inputs(found, auto.inputs)
        both = same.answered & auto.result.answered
        values["adversarial_of_both"] = _mean(adversarial(same)[both])
        values["adversarial_of_auto"] = _mean(adversarial(auto.result)[both])
    return values


def row_line(row: dict[str, Any], varied: str) -> str:
    """Formats a row; `varied` names its first column."""
    return line(
        f"{row[varied]:g}",
        row["estimator"],
        f"{row['inputs']:,}",
        f"{row['answered']:.1%}",
        "-" if math.isnan(row["plr"]) else f"{row['plr']:.3%}",
        short(row["adversarial"]),
        short(row["adversarial_all"]),
        short(row["counted"]),
        short(row.get("adversarial_of_both", math.nan)),
        short(row.get("adversarial_of_auto", math.nan)),
        "-" if math.isnan(row["seconds"]) else f"{row['seconds']:.1f}",
        ", ".join(f"{k} {v}" for k, v in row["statuses"].items()),
    )


def line(varied: str, estimator: str, *cells: str) -> str:
    """Formats cells in columns."""
    widths = (7, 9, 9, 9, 9, 9, 9, 9, 8)
    right = "".join(cell.rjust(width) for cell, width in zip(cells, widths))
    return f"{varied:>8} {estimator:10}{right}  {cells[-1]}"


def short(probability: float) -> str:
    """Formats a probability in few digits."""
    if math.isnan(probability):
        return "-"
    return f"{probability:.4f}" if probability >= 1e-3 else f"{probability:.1e}"


def print_categories(categories: roma.Categorial) -> None:
    """Prints the table by category, beside the paper's if the categories are equal."""
    head = f"{'category':12}{'inputs':>7}{'answered':>9}{'plr':>9}{'std':>7}{'Adv':>9}"
    with_paper = set(categories.names) <= set(PAPER)
    paper = f"{'plr':>11}{'std':>7}{'Adv':>8} (paper)" if with_paper else ""
    print(head + f"{'95 % interval':>18}{'plr of all':>12}" + paper)
    for i, name in enumerate(categories.names):
        low, high = 100 * categories.interval[i]
        text = (
            f"{name:12}{categories.inputs[i]:7}{categories.answered[i]:9}"
            f"{100 * categories.plr[i]:9.3f}{100 * categories.std[i]:7.2f}"
            f"{100 * categories.adversarial[i]:9.3f}"
            f"{f'{low:.2f} to {high:.2f}':>18}{100 * categories.plr_all[i]:12.3f}"
        )
        if with_paper:
            plr, std = PAPER[name]
            text += f"{plr:11.3f}{std:7.2f}{100 - plr:8.3f}"
        print(text)


def by_category(categories: roma.Categorial) -> dict[str, Any]:
    """Returns the table for JSON, with the tests of two pairs of categories."""
    found = {
        name: getattr(categories, name)
        for name in ("names", "inputs", "answered", "plr", "interval", "std", "plr_all")
    }
    pairs: list[tuple[str, ...]] = []
    if {"cat", "truck"} <= set(categories.names):
        pairs.append(("cat", "truck"))
    # The pair furthest apart, among categories with a spread for the test.
    plr = np.where(categories.answered < 2, np.nan, categories.plr)
    if np.isfinite(plr).sum() > 1:
        extremes = np.nanargmin(plr), np.nanargmax(plr)
        pairs.append(tuple(categories.names[i] for i in extremes))
    found["pairs"] = []
    for pair in pairs:
        worse, better = (categories.names.index(name) for name in pair)
        found["pairs"].append(
            {
                "categories": pair,
                "adversarial": categories.adversarial[[worse, better]],
                "welch": categories.welch[worse, better],
                "binomial": categories.binomial[worse, better],
            }
        )
    return found


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else math.nan
