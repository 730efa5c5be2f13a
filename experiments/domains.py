r"""The accepted volume of domains: its intervals' coverage and their cost.

    python experiments/domains.py --shapes=ball,ridge --runs=500 --seed=1
    python experiments/domains.py --generator=showing --num_images=200 --half_width=0.05
    python experiments/domains.py --network=mnist --cells=40,40 --strategies=S,U,P
    python experiments/domains.py --network=cifar10 --threshold=0.5

Without a network the accuracy is a function of the level, with an accepted volume known
in closed form, and images are right where their own number is at most the accuracy.
Either all levels see one order of images, or each of 100 patches of the box has its
own. With `--population` images are drawn anew for each run. With a network the box is
cut into cells, and all its images at the middle of each are the truth.

Prints of each shape how often the intervals hold the truth, their half widths, and the
evaluations beside those of a grid and of uniform levels; writes JSON into `--output`.
Matrices are small: OPENBLAS_NUM_THREADS=1 saves two thirds of the processor's time.
"""

import collections
import functools
import itertools
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from absl import app, flags
from common import (
    classifiers,
    datasets,
    define,
    files,
    intervals,
    known_domains,
    startup,
)

import jaxrob
from jaxrob import alterations, data, strategies

_GRID = {2: 41**2, 3: 15**3}

_SHAPES = flags.DEFINE_list(
    "shapes", [*known_domains.SHAPES], "Of the made-up domains."
)
_GENERATOR = flags.DEFINE_enum(
    "generator", "building", ["building", "showing"], "What the shapes are made by."
)
_DIMENSIONS = flags.DEFINE_list("dimensions", ["2", "3"], "Alterations of a domain.")
_NUM_IMAGES = define.num_images(1000, "Images of each data set.")
_HALF_WIDTH = flags.DEFINE_float("half_width", 0.05, "Half width wanted.", 0, 0.5)
_RELATIVE = flags.DEFINE_bool("relative", False, "Whether it is of the volume.")
_STRATEGIES = flags.DEFINE_list(
    "strategies", ["S", "U"], "S calibrated, P proven, U uniform levels."
)
_POPULATION = flags.DEFINE_bool("population", False, "Whether images are drawn anew.")
_NETWORK = flags.DEFINE_enum(
    "network", None, ["mnist", "cifar10", "idc"], "A network in place of shapes."
)
_THRESHOLD = define.threshold()
_CELLS = flags.DEFINE_list("cells", ["40", "40"], "Cells along its alterations.")
_DATA_DIR = define.data_dir()
_RUNS = flags.DEFINE_integer("runs", 20, "Runs of each.", 1)
_SEED = define.seed()
_OUTPUT = define.output("results/domains")


def main(argv: Sequence[str]) -> None:
    startup.start(argv)
    rows = []
    dimensions = [int(one) for one in _DIMENSIONS.value]
    shapes = _SHAPES.value
    if _NETWORK.value is not None:
        dimensions, shapes = [len(_CELLS.value)], [_NETWORK.value]
    for which, d, name in itertools.product(_STRATEGIES.value, dimensions, shapes):
        row = _cell(which, d, name)
        rows.append(row)
        print(
            "{strategy} {dimension} {shape:12} volume {volume:.3f} evaluations "
            "{evaluations:9,.0f}, {of_grid:6.2%} of a grid; half width {half:.4f} held "
            "{held:4} of {runs}; population {wide:.4f} held {held_there:4} {status} "
            "{seconds:.2f} s".format(**row),
            flush=True,
        )
    # Images drawn anew have a volume of their own, which nothing tells.
    for held in ("held_there",) if _POPULATION.value else ("held", "held_there"):
        cell = "{strategy} {dimension} {shape}"
        below = intervals.named(rows, held, _RUNS.value, cell)
        share = sum(row[held] for row in rows) / sum(row["runs"] for row in rows)
        print(f"{held}: {share:.2%} of all; significantly below 95 %: {below}")
    files.save(_OUTPUT.value, "domains.json", rows)


def _cell(which: str, dimension: int, name: str) -> dict[str, Any]:
    runs, volumes = [], []
    for number in range(_RUNS.value):
        # Seeds of runs differ between all cells, but not between strategies.
        names = [*known_domains.SHAPES, name]
        seed = (_SEED.value * 100 + names.index(name) + 10 * dimension) * 10_000
        seed += number
        if name in known_domains.SHAPES:
            one = known_domains.shape(name, dimension, _GENERATOR.value, seed)
            threshold = known_domains.THRESHOLD
        else:
            one, threshold = _network(name), _THRESHOLD.value
        kind = "population" if _POPULATION.value else ("one", "patches")[number % 2]
        box = (0.0,) * dimension, (1.0,) * dimension
        task = strategies.Task(*box, threshold, num_images=_NUM_IMAGES.value, seed=seed)
        runs.append(known_domains.run(one, _strategy(which), task, kind, seed))
        volumes.append(one.volume)
    ends = np.array([one.found.interval for one in runs])
    there = np.array([one.found.population_interval for one in runs])
    total = runs[0].num_images
    truth, evaluations = np.array(volumes), [one.evaluations for one in runs]
    return {
        "strategy": which,
        "shape": name,
        "dimension": dimension,
        "num_images": total,
        "half_width": _HALF_WIDTH.value,
        "runs": len(runs),
        "volume": float(truth.mean()),
        "volumes": volumes,
        "all_evaluations": evaluations,
        "evaluations": float(np.median(evaluations)),
        "of_grid": float(np.median(evaluations)) / (_GRID.get(dimension, 7**5) * total),
        "held": _number_held(ends, truth),
        "held_there": _number_held(there, truth),
        "half": float(np.diff(ends).mean()) / 2,
        "wide": float(np.diff(there).mean()) / 2,
        "status": dict(collections.Counter(one.found.status for one in runs)),
        "seconds": float(np.mean([one.seconds for one in runs])),
    }


# Volumes between .2 and .8, in the order of optics and exposure.
_ALTERATIONS = {
    "mnist": (
        alterations.rotation(-60, 60),
        alterations.brightness(-0.6, 0.6),
        alterations.gaussian_blur(0, 3),
    ),
    "cifar10": (
        alterations.rotation(-45, 45),
        alterations.brightness(-0.7, 0.7),
        alterations.gaussian_blur(0, 1.5),
    ),
    "idc": (
        alterations.rotation(-90, 90),
        alterations.brightness(-0.35, 0.35),
        alterations.gaussian_blur(0, 1.5),
    ),
}
_LEVELS_AT_ONCE = 200
_TRAINED_ON, _EPOCHS = 20_000, {"mnist": 2, "cifar10": 8}


@functools.cache
def _network(name: str) -> known_domains.Shape:
    each = [int(one) for one in _CELLS.value]
    if name == "idc":
        test_set = data.load(name, "test", _DATA_DIR.value)
        classifier = classifiers.published_idc(_DATA_DIR.value)
    else:
        # Some of each class: folders are read one after another.
        train_set = data.load(name, "train", _DATA_DIR.value)
        train_set = datasets.evenly_picked(train_set, _TRAINED_ON)
        test_set = data.load(name, "test", _DATA_DIR.value)
        network = {"mnist": "strided_cnn", "cifar10": "wide_strided_cnn"}[name]
        key = jax.random.key(_SEED.value)
        classifier = classifiers.train(network, train_set, key, _EPOCHS[name], False)
    test_set = datasets.evenly_picked(test_set, _NUM_IMAGES.value)
    domain = jaxrob.Domain(_ALTERATIONS[name][: len(each)])
    middles = np.stack(np.meshgrid(*[(np.arange(n) + 0.5) / n for n in each]), -1)
    lower, upper = np.array(domain.lower), np.array(domain.upper)
    # In lexicographic order, as curves and cells have.
    middles = np.array(sorted(middles.reshape(-1, len(each)).tolist()))
    right = []
    for some in np.array_split(middles, -(-len(middles) // _LEVELS_AT_ONCE)):
        levels = lower + (upper - lower) * some
        curve: Any = jaxrob.evaluate(classifier, test_set, domain, levels)
        right.append(curve.predicted == curve.labels)
    return known_domains.measured(np.concatenate(right), each, _THRESHOLD.value)


def _strategy(which: str) -> strategies.Volume:
    proven = functools.partial(strategies.Volume, guarantee="proven")
    kinds = {"S": strategies.Volume, "P": proven, "U": known_domains.Uniform}
    return kinds[which](_HALF_WIDTH.value, _RELATIVE.value)


def _number_held(ends: np.ndarray, truth: np.ndarray) -> int:
    held = (ends[:, 0] <= truth + 1e-9) & (truth - 1e-9 <= ends[:, 1])
    return int(held.sum())


if __name__ == "__main__":
    app.run(main)
