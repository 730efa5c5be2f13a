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
"""

import itertools
from collections.abc import Sequence

import numpy as np
from absl import app, flags
from common import define, files, intervals, startup
from scipy import special

from jaxrob import metrics
from jaxrob.metrics._counts import Groups, count
from jaxrob.metrics._groups import effective_groups

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
_EACH = 20  # images of a group

_GROUPS = flags.DEFINE_list("groups", ["10", "30", "100", "300"], "Groups.")
_CORRELATIONS = flags.DEFINE_list("correlations", ["0", "0.1", "0.5", "1"], "Within.")
_DRAWS = flags.DEFINE_integer("draws", 1000, "Test sets of each.", 1)
_SEED = define.seed()
_OUTPUT = define.output("results/group_coverage")


def main(argv: Sequence[str]) -> None:
    startup.start(argv)
    rows = []
    numbers, within = map(int, _GROUPS.value), map(float, _CORRELATIONS.value)
    for cell in itertools.product(numbers, _SIZES, within, (0.95, 0.99)):
        for row in _cell(*cell):
            rows.append(row)
            print(
                "{groups:4} {sizes:8} {correlation:4} {level} {of:9} effective "
                "{effective:6.1f} covered {covered:6.1%} alone {alone:6.1%} width "
                "{width:5.2f}".format(**row),
                flush=True,
            )
    many = [row for row in rows if row["effective"] >= 29.5]
    for level in (0.95, 0.99):
        some = [row for row in many if row["level"] == level]
        times = [row["times"] for row in some]
        below = intervals.significantly_below(times, _DRAWS.value, level)
        for row in itertools.compress(some, below):
            print("significantly too low: {groups} {sizes} {correlation} {of}", row)
        print(f"at {level}: {sum(below)} of {len(some)} significantly too low")
    files.save(_OUTPUT.value, "group_coverage.json", rows)


def _cell(number: int, sizes: str, correlation: float, level: float) -> list[dict]:
    rng = np.random.default_rng([_SEED.value, number, _SIZES.index(sizes)])
    each = np.full(number, _EACH)
    if sizes == "random":
        each = 1 + rng.geometric(1 / _EACH, number)
    elif sizes == "a third":
        each[0] = (number - 1) * _EACH // 2
    of_image = np.repeat(np.arange(number), each)
    found = [_draw(rng, of_image, correlation, level) for _ in range(_DRAWS.value)]
    about = {"groups": number, "sizes": sizes, "correlation": correlation}
    about |= {"level": level, "effective": effective_groups(of_image)}
    rows = []
    for of in found[0]:
        truth = of if isinstance(of, float) else _robustness(of)
        ends = np.array([one[of] for one in found])  # [draws, (grouped, alone), 2]
        held = (ends[..., 0] <= truth + 1e-9) & (truth - 1e-9 <= ends[..., 1])
        width = np.maximum(np.diff(ends)[..., 0], 1e-9)
        rows.append(
            about
            | {
                "of": f"{of}",
                "times": int(held[:, 0].sum()),
                "covered": float(held[:, 0].mean()),
                "alone": float(held[:, 1].mean()),
                "width": float(np.median(width[:, 0] / width[:, 1])),
            }
        )
    return rows


def _draw(
    rng: np.random.Generator, of_image: np.ndarray, correlation: float, level: float
) -> dict:
    shared, own = (
        rng.standard_normal(of_image.max() + 1),
        rng.standard_normal(len(of_image)),
    )
    weight = np.sqrt(correlation)
    place = special.ndtr(weight * shared[of_image] + np.sqrt(1 - correlation) * own)
    found = {}
    for accuracy in _ACCURACIES:
        both = _both(place, np.array([1 - accuracy]), of_image)
        ends = [metrics.bands(one, "accuracy", level) for one in both]
        found[accuracy] = [(low[0], high[0]) for low, high in ends]
    for name, errors in _ERRORS.items():
        both = _both(place, errors(_LEVELS), of_image)
        found[name] = [
            metrics.confidence_interval(_LEVELS, one, "accuracy", _THRESHOLD, level)
            for one in both
        ]
    return found


def _both(place: np.ndarray, errors: np.ndarray, of_image: np.ndarray) -> list:
    labels = np.zeros(len(place), int)
    answers = (place <= errors[:, None]).astype(np.int16)
    counts = count(answers, labels, 2)
    return [counts._replace(groups=Groups(of_image, labels, answers, None)), counts]


def _robustness(name: str) -> float:
    levels = (np.arange(2**16) + 0.5) / 2**16
    return float(np.mean(_ERRORS[name](levels) <= 1 - _THRESHOLD))


if __name__ == "__main__":
    app.run(main)
