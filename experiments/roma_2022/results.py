"""The experiments' results, and the paper's."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from common import intervals

from jaxrob import roma

# Of the paper, all on CIFAR-10 with VGG16 [%]: plr and its standard deviation by
# category, and the share of inputs with an answer.
PAPER = {
    "airplane": (99.143, 5.18),
    "automobile": (99.372, 3.86),
    "bird": (97.226, 8.87),
    "cat": (97.112, 8.77),
    "deer": (98.586, 6.25),
    "dog": (97.233, 8.58),
    "frog": (98.524, 6.39),
    "horse": (98.606, 6.09),
    "ship": (98.389, 6.63),
    "truck": (99.390, 4.26),
}
PAPER_ANSWERED = {"experiment 1": 82.0, "experiment 3": 90.48, "as drawn": 12.82}

# The kinds of category. The paper speaks of "inputs classified as Cats".
CATEGORIES = {"label": "true classes", "predicted": "predicted classes"}

# The crude Monte Carlo draws alone, without an estimator: unbiased.
COUNTED = "plain draws"


class Timed(NamedTuple):
    """A result, its query, and the seconds it took."""

    result: roma.RomaResult
    seconds: float  # NaN if answers came from a journal
    inputs: np.ndarray  # [N], their numbers among the images that are assessed


class Values(NamedTuple):
    """The probability of a distinct misclassification at each input, float64 `[N]`."""

    adversarial: np.ndarray
    known: np.ndarray  # bool


def readings(found: Mapping[str, Timed]) -> dict[str, tuple[Timed, Values]]:
    """Ways to read results of the same inputs, by name."""
    # An estimator's answers alone, as the paper reads "roma", or all if nearly all have
    # one; and `COUNTED`.
    first = next(iter(found.values()))
    counted = np.asarray(first.result.hits) / first.result.num_samples
    read = {COUNTED: (first, Values(counted, np.full(len(counted), True)))}
    for name, one in found.items():
        known = one.result.answered
        if name != "roma":
            known = np.full(len(known), True)
        read[name] = one, Values(adversarial(one.result), known)
    return read


def by_category(
    found: Mapping[str, Timed], class_names: tuple[str, ...], by: str
) -> dict[str, roma.Categorial]:
    tables = {}
    for name, (one, values) in readings(found).items():
        result = one.result
        plr = np.where(values.known, 1 - values.adversarial, np.nan)
        tables[name] = roma.compare_categories(
            plr, result.hits, result.num_samples, category(result, by), class_names
        )
    return tables


def category(result: roma.RomaResult, by: str) -> np.ndarray:
    """Returns each input's category, int `[N]`; `by` is one of `CATEGORIES`."""
    found = {"label": result.labels, "predicted": result.excluded}[by]
    assert found is not None
    return found


def adversarial(result: roma.RomaResult) -> np.ndarray:
    """Returns 1 - plr, counted among the crude draws if there is no answer."""
    counted = np.asarray(result.hits) / result.num_samples
    found = np.exp(result.log_adversarial_probability)
    return np.where(result.answered, found, counted)


def at_inputs(found: Timed, inputs: np.ndarray) -> roma.RomaResult:
    """Returns the result restricted to some inputs, given their numbers."""
    chosen, values = np.isin(found.inputs, inputs), {}
    for field in dataclasses.fields(found.result):
        value = getattr(found.result, field.name)
        is_array = isinstance(value, np.ndarray)
        values[field.name] = value[chosen] if is_array else value
    return roma.RomaResult(**values)


HEAD = (
    "inputs", "answered", "plr", "Adv", "of all", "counted", "of both", "auto's", "s",
    "status",
)  # fmt: skip


def row(
    epoch: int, epsilon: float, estimator: str, found: Timed, auto: Timed | None
) -> dict[str, Any]:
    """An estimator's results at an epoch and an epsilon, by name."""
    # "adversarial" is the mean of the answers; "adversarial_all" of all inputs, those
    # without an answer by their crude draws; "counted" of all by crude draws;
    # "adversarial_of_both" and "adversarial_of_auto" of those that "auto" answers too.
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
    widths = (7, 9, 9, 9, 9, 9, 9, 9, 8)
    right = "".join(cell.rjust(width) for cell, width in zip(cells, widths))
    return f"{varied:>8} {estimator:10}{right}  {cells[-1]}"


def short(probability: float) -> str:
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


def category_document(categories: roma.Categorial) -> dict[str, Any]:
    names = "names", "inputs", "answered", "plr", "interval", "std", "plr_all"
    return {name: getattr(categories, name) for name in names}


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else math.nan
