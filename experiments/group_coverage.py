r"""How often intervals cover the truth where images belong to groups.

    python experiments/group_coverage.py
    python experiments/group_coverage.py --draws=100 --groups=30 --seed=7

An image is right at a level where its own number, uniform on [0, 1], is above the error
rate there. Numbers of a group are correlated (a Gaussian copula), and groups have equal
sizes, random ones, or one has a third of all images. Prints for each cell how often the
intervals of the accuracy at one level and of the robustness cover the truth, with the
groups and as if images were independent, and the median ratio of their widths; then
which cells of 30 effective groups and more are significantly too low (Holm). Writes
JSON into the folder `--output`.

    python experiments/group_coverage.py --what=networks
    python experiments/group_coverage.py --what=few

"networks": how often four networks of one distribution are not told apart, by `compare`
of two of them (robustness, and mean) and by `ranks` of all. "few": the population's
interval of `FewImages`, which looks at images in random order.
"""

import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np
from absl import app, flags
from checks import of_comparisons
from common import define, files, intervals, startup
from scipy import special

import jaxrob
from jaxrob import metrics, reporting, strategies
from jaxrob._metadata import ImageTable
from jaxrob.metrics._counts import Groups, count
from jaxrob.metrics._groups import effective_groups, worth_of
from jaxrob.strategies._few.estimates import population_of

_LEVELS = np.linspace(0, 1, 17)
_THRESHOLD = 0.8
# The error rate at a level. The threshold is crossed on a slope, after a plateau, or
# hardly: the plateau lies 0.01 above it.
_ERRORS = {
    "slope": lambda x: 0.05 + 0.4 * x,
    "steep": lambda x: 0.01 + 0.9 * x**3,
    "plateau": lambda x: np.where(x < 0.6, 0.1, 0.1 + 0.8 * (x - 0.6)),
    "near": lambda x: np.where(x < 0.7, 0.19 * np.minimum(4 * x, 1), 0.19 + x - 0.7),
}
_ACCURACIES = (0.8, 0.95, 0.99)
_SIZES = ("equal", "random", "a third")

_NETWORKS, _SHARED = 4, 0.6
_FEW = strategies.FewImages(strategies.ASAP(n=64), half_width=0.05)

_WHAT = flags.DEFINE_enum(
    "what", "intervals", ("intervals", "networks", "few"), "What is tried."
)
_GROUPS = flags.DEFINE_list("groups", ["10", "30", "100", "300"], "Groups.")
_EACH = flags.DEFINE_integer("each", 20, "Images of a group, in the mean.", 1)
_OF_SIZES = flags.DEFINE_list("sizes", [*_SIZES], "Of the groups.")
_CORRELATIONS = flags.DEFINE_list("correlations", ["0", "0.1", "0.5", "1"], "Within.")
_DRAWS = flags.DEFINE_integer("draws", 1000, "Test sets of each.", 1)
_SEED = define.seed()
_OUTPUT = define.output("results/group_coverage")


def main(argv: Sequence[str]) -> None:
    startup.start(argv)
    rows = []
    numbers, within = map(int, _GROUPS.value), map(float, _CORRELATIONS.value)
    for cell in itertools.product(numbers, _OF_SIZES.value, within):
        for row in _cell(*cell):
            rows.append(row)
            print(
                "{groups:4} {sizes:8} {correlation:4} {level} {of:16} effective "
                "{effective:6.1f} covered {covered:6.1%} alone {alone:6.1%} width "
                "{width:5.2f}".format(**row),
                flush=True,
            )
    many = [row for row in rows if row["effective"] >= 29.5]
    for level in (0.95, 0.99):
        some = [row for row in many if row["level"] == level]
        times = [row["times"] for row in some]
        if not some:
            continue
        below = intervals.significantly_below(times, _DRAWS.value, level)
        for row in itertools.compress(some, below):
            print("significantly too low: {groups} {sizes} {correlation} {of}", row)
        print(f"at {level}: {sum(below)} of {len(some)} significantly too low")
    files.save(_OUTPUT.value, f"{_WHAT.value}.json", rows)


def _cell(number: int, sizes: str, correlation: float) -> list[dict]:
    rng = np.random.default_rng([_SEED.value, number, _SIZES.index(sizes)])
    each = np.full(number, _EACH.value)
    if sizes == "random":
        each = 1 + rng.geometric(1 / _EACH.value, number)
    elif sizes == "a third":
        each[0] = (number - 1) * _EACH.value // 2
    of_image = np.repeat(np.arange(number), each)
    draw = {"intervals": _draw, "networks": _networks, "few": _few}[_WHAT.value]
    found = [draw(rng, of_image, correlation) for _ in range(_DRAWS.value)]
    about = {"groups": number, "sizes": sizes, "correlation": correlation}
    about |= {"effective": effective_groups(of_image)}
    rows = []
    for of, level in found[0]:
        truth = _robustness(of) if of in _ERRORS else of
        truth = 0.0 if _WHAT.value == "networks" else truth
        ends = np.array(
            [one[of, level] for one in found]
        )  # [draws, (grouped, alone), 2]
        held = (ends[..., 0] <= truth + 1e-9) & (truth - 1e-9 <= ends[..., 1])
        width = np.maximum(np.diff(ends)[..., 0], 1e-9)
        rows.append(
            about
            | {
                "of": f"{of}",
                "level": level,
                "times": int(held[:, 0].sum()),
                "covered": float(held[:, 0].mean()),
                "alone": float(held[:, 1].mean()),
                "width": float(np.median(width[:, 0] / width[:, 1])),
            }
        )
    return rows


def _draw(rng: np.random.Generator, of_image: np.ndarray, correlation: float) -> dict:
    place = special.ndtr(_correlated(rng, of_image, correlation))
    single = _both(place, 1 - np.array(_ACCURACIES), of_image)
    curves = {name: _both(place, of(_LEVELS), of_image) for name, of in _ERRORS.items()}
    found = {}
    for level in (0.95, 0.99):
        ends = [metrics.bands(one, "accuracy", level) for one in single]
        for i, accuracy in enumerate(_ACCURACIES):
            found[accuracy, level] = [(low[i], high[i]) for low, high in ends]
        for name, both in curves.items():
            found[name, level] = [
                metrics.confidence_interval(_LEVELS, one, "accuracy", _THRESHOLD, level)
                for one in both
            ]
    return found


def _networks(
    rng: np.random.Generator, of_image: np.ndarray, correlation: float
) -> dict:
    """An interval holds 0 where equal networks are not told apart, else none."""
    common, *own = (
        _correlated(rng, of_image, correlation) for _ in range(_NETWORKS + 1)
    )
    places = [
        special.ndtr(np.sqrt(_SHARED) * common + np.sqrt(1 - _SHARED) * one)
        for one in own
    ]
    wrong = [
        place <= _ERRORS["slope"](of_comparisons.LEVELS)[:, None] for place in places
    ]
    both = [
        _told([_assessed(one, of_image, grouped) for one in wrong], 0.95)
        for grouped in (True, False)
    ]
    names = [(name, 0.95) for name in ("compare", "compare means", "ranks")]
    return dict(zip(names, zip(*both)))


def _told(some: list[jaxrob.Assessment], level: float) -> list[tuple[float, float]]:
    pair = jaxrob.compare(some[0], some[1], level)
    (ranks,) = reporting.ranks({f"{i}": [one] for i, one in enumerate(some)}, level)
    alike = pair.p_value > 1 - level and pair.confidence_interval.low <= 0
    alike &= pair.confidence_interval.high >= 0
    means = pair.mean_p_value > 1 - level
    first = len(ranks.could_be_first) == len(some)
    return [(0.0, 0.0) if one else (1.0, 1.0) for one in (alike, means, first)]


def _assessed(
    wrong: np.ndarray, of_image: np.ndarray, grouped: bool
) -> jaxrob.Assessment:
    one = of_comparisons.assessment(wrong, _THRESHOLD)
    table = ImageTable(of_image.astype(np.int32)) if grouped else None
    return dataclasses.replace(one, curve=dataclasses.replace(one.curve, table=table))


def _few(rng: np.random.Generator, of_image: np.ndarray, correlation: float) -> dict:
    place = special.ndtr(_correlated(rng, of_image, correlation))
    order = rng.permutation(len(place))
    found = {}
    for name, errors in _ERRORS.items():
        ends = []
        for groups in (of_image[order], None):
            task = strategies.Task(0.0, 1.0, _THRESHOLD, 0.0, len(place), groups=groups)
            seen, result = strategies.sample(
                _FEW, task, lambda x, of=errors: 1.0 * (place[order] > of(x)[:, None])
            )
            ends.append(result.population_interval or population_of(task, seen))
        found[name, 0.95] = ends
    return found


def _correlated(
    rng: np.random.Generator, of_image: np.ndarray, correlation: float
) -> np.ndarray:
    shared = rng.standard_normal(of_image.max() + 1)
    own = rng.standard_normal(len(of_image))
    return np.sqrt(correlation) * shared[of_image] + np.sqrt(1 - correlation) * own


def _both(place: np.ndarray, errors: np.ndarray, of_image: np.ndarray) -> list:
    labels = np.zeros(len(place), int)
    answers = (place <= errors[:, None]).astype(np.int16)
    counts = count(answers, labels, 2)
    grouped = counts._replace(groups=Groups(of_image, labels, answers, None))
    worth = worth_of(grouped, metrics.measures["accuracy"])
    return [counts._replace(groups=worth), counts]


def _robustness(name: str) -> float:
    levels = (np.arange(2**16) + 0.5) / 2**16
    return float(np.mean(_ERRORS[name](levels) <= 1 - _THRESHOLD))


if __name__ == "__main__":
    app.run(main)
