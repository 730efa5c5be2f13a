"""A report's statements on random perturbations and attacks."""

from collections.abc import Sequence

import numpy as np

from jaxrob._arguments.texts import counted
from jaxrob.adversarial import Attack
from jaxrob.reporting._report import figures
from jaxrob.reporting._report.parts import (
    Facts,
    Figure,
    Heading,
    Part,
    Text,
    say,
    table,
)
from jaxrob.reporting._words import interval, number, percent, percent_of, short
from jaxrob.roma import RomaResult

# More categories are not compared in pairs; a thousand would take minutes.
_MOST_CATEGORIES = 40
_MOST_INPUTS = 10


def local(roma: RomaResult | None, names: Sequence[str]) -> list[Part]:
    if roma is None:
        return []
    total, answered = len(roma.plr), int(roma.answered.sum())
    statuses, counts = np.unique(roma.status, return_counts=True)
    facts = [
        ("estimator", roma.estimator),
        ("perturbation", roma.perturbation),
        ("radius (epsilon)", "none" if roma.epsilon is None else number(roma.epsilon)),
        ("an answer is distinct from a confidence of (delta)", number(roma.delta)),
        ("random draws for each image", f"{roma.num_samples:,}"),
        *_budget(roma),
        ("images", f"{total:,}, of which {answered:,} have an answer"),
        ("mean plr of those", percent(_mean(roma.plr[roma.answered]), 3)),
        *_precision(roma),
        (
            "how answers were found",
            ", ".join(f"{one} {count:,}" for one, count in zip(statuses, counts)),
        ),
    ]
    warnings = [Text(one, "warning") for one in (*roma.warnings, *roma.caveats)]
    parts = [Text(say("roma")), Facts(facts), *_categories(roma, names)]
    return [*parts, *_lowest(roma, names), *warnings]


def attacked(attack: Attack | None, names: Sequence[str]) -> list[Part]:
    if attack is None:
        return []
    correct, success = np.asarray(attack.correct), np.asarray(attack.success)
    tried = int(correct.sum())
    rate = success.sum() / tried if tried else np.nan
    facts = (
        ("images", f"{len(correct):,}, of which {tried:,} were right and attacked"),
        (
            "with an adversarial example",
            f"{success.sum():,} ({percent(float(rate))} of those attacked)",
        ),
        (
            "median distance of the examples (Euclidean, pixels in [0, 1])",
            number(_median(attack.distance[success])),
        ),
        (
            "median structural similarity of the examples (1 is the same image)",
            number(_median(attack.similarity[success])),
        ),
    )
    if (lost := int(np.sum(attack.vanished))) > 0:
        words = f"{lost:,}, where nothing was found: no sign of robustness"
        facts += (("without a gradient to follow", words),)
    labels = np.asarray(attack.labels)
    rows = []
    for index in np.unique(labels):
        mine = (labels == index) & correct
        share = float(success[mine].sum() / mine.sum()) if mine.any() else np.nan
        rows.append((-share, _name(names, int(index)), int(mine.sum()), share))
    rows.sort(key=lambda row: (np.isnan(row[0]), row[0]))
    classes = table(
        rows[:_MOST_CATEGORIES],
        ("class", "row", lambda row: row[1]),
        ("attacked", "n", lambda row: f"{row[2]:,}"),
        ("with an adversarial example", "n", lambda row: percent(row[3])),
    )
    return [Text(say("attacks")), Facts(facts), classes]


def _budget(roma: RomaResult) -> list[tuple[str, str]]:
    if roma.budget is None:
        return []
    return [("forward passes for each image at most", f"{roma.budget:,}")]


def _precision(roma: RomaResult) -> list[tuple[str, str]]:
    if roma.half_width is None:
        return []
    return [
        (
            "images looked at, in random order",
            f"{int(roma.seen.sum()):,}, until each category's mean over all its images "
            f"was known to {number(roma.half_width)} "
            f"({percent_of(roma.confidence_level)})",
        ),
        (
            "mean plr of all images",
            f"{percent(roma.mean_plr, 3)}, {interval(*roma.mean_plr_interval)}",
        ),
    ]


def _categories(roma: RomaResult, names: Sequence[str]) -> list[Part]:
    numbers = roma.excluded if roma.labels is None else roma.labels
    by = "predicted class" if roma.labels is None else "right class"
    present = len(np.unique(numbers))
    if present > _MOST_CATEGORIES:
        return [Text(f"{present} categories are too many to compare in pairs.")]
    found = roma.categorial(tuple(_name(names, k) for k in range(max(numbers) + 1)))
    pairs = np.triu_indices(present, 1)
    level = percent_of(roma.confidence_level)
    kind = "of images to come, by a bound"
    if roma.half_width is not None:
        kind = "of images to come, by betting"
    words = (
        f"By {by}; intervals are {kind}, {level} each. Of "
        f"{counted(len(pairs[0]), 'pair')} of categories, "
        f"{int((found.welch[pairs] < 0.05).sum())} differ by Welch's test at 5 %, "
        "adjusted for all pairs by Holm's method."
    )
    estimates = [
        figures.Estimate(name, (float(plr),), (float(low),), (float(high),))
        for name, plr, (low, high) in zip(found.names, found.plr, found.interval)
    ]
    figure = figures.estimates(
        estimates,
        ("plr",),
        alt="mean probabilistic local robustness of each category",
        level=level,
        x_label=f"mean plr, with its {level} interval over the images",
    )
    categories = table(
        range(len(found.names)),
        ("category", "row", lambda k: found.names[k]),
        ("images", "n", lambda k: f"{found.inputs[k]:,}"),
        ("with an answer", "n", lambda k: f"{found.answered[k]:,}"),
        ("mean plr", "n", lambda k: percent(found.plr[k], 3)),
        (f"{level} interval", "n", lambda k: interval(*found.interval[k])),
    )
    return [Figure(figure), Text(words), categories]


def _lowest(roma: RomaResult, names: Sequence[str]) -> list[Part]:
    numbers = roma.excluded if roma.labels is None else roma.labels
    order = np.argsort(-roma.log_adversarial_probability, kind="stable")
    order = order[roma.answered[order]][:_MOST_INPUTS]
    level = percent_of(roma.confidence_level)
    lowest = table(
        order.tolist(),
        ("image", "n", str),
        ("class", "name", lambda at: _name(names, int(numbers[at]))),
        ("plr", "n", lambda at: percent(float(roma.plr[at]), 3)),
        (f"{level} interval", "n", lambda at: interval(*roma.confidence_interval[at])),
        ("found by", "", lambda at: str(roma.status[at])),
    )
    return [Heading("The least robust images", 4), lowest] * bool(len(order))


def _name(names: Sequence[str], index: int) -> str:
    return short(names[index]) if index < len(names) else f"class {index}"


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else np.nan


def _median(values: np.ndarray) -> float:
    return float(np.median(values)) if len(values) else np.nan
