r"""The accepted volume of made-up domains: its intervals' coverage and their cost.

    python experiments/domains.py --shapes=ball,ridge --runs=500 --seed=1
    python experiments/domains.py --generator=showing --num_images=200 --half_width=0.05

No network: the accuracy is a function of the level, with an accepted volume known in
closed form, and images are right where their own number is at most the accuracy. Either
all levels see one order of images, or each of 100 patches of the box has its own.
Prints for each shape and dimension how often the intervals hold the truth, their half
widths, and the evaluations beside those of a grid and of uniform levels without a
model. With `--population` images are drawn anew for each run. Writes JSON into the
folder `--output`.
"""

import collections
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from absl import app, flags
from common import define, files, intervals, known_domains, startup

from jaxrob import strategies

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
_RUNS = flags.DEFINE_integer("runs", 20, "Runs of each.", 1)
_SEED = define.seed()
_OUTPUT = define.output("results/domains")


def main(argv: Sequence[str]) -> None:
    startup.start(argv)
    rows = []
    dimensions = [int(one) for one in _DIMENSIONS.value]
    for which, d, name in itertools.product(
        _STRATEGIES.value, dimensions, _SHAPES.value
    ):
        row = _cell(which, d, name)
        rows.append(row)
        print(
            "{strategy} {dimension} {shape:12} volume {volume:.3f} evaluations "
            "{evaluations:9,.0f}, {of_grid:6.2%} of a grid; half width {half:.4f} held "
            "{held:4} of {runs}; population {wide:.4f} held {held_there:4} {status} "
            "{seconds:.2f} s".format(**row),
            flush=True,
        )
    for held in ("held", "held_there"):
        below = intervals.named(
            rows, held, _RUNS.value, "{strategy} {dimension} {shape}"
        )
        share = sum(row[held] for row in rows) / sum(row["runs"] for row in rows)
        print(f"{held}: {share:.2%} of all; significantly below 95 %: {below}")
    files.save(_OUTPUT.value, "domains.json", rows)


def _cell(which: str, dimension: int, name: str) -> dict[str, Any]:
    runs, volumes = [], []
    for number in range(_RUNS.value):
        # Seeds of runs differ between all cells, but not between strategies.
        place = [*known_domains.SHAPES].index(name) + 10 * dimension
        seed = (_SEED.value * 100 + place) * 10_000 + number
        one = known_domains.shape(name, dimension, _GENERATOR.value, seed)
        kind = "population" if _POPULATION.value else ("one", "patches")[number % 2]
        box = (0.0,) * dimension, (1.0,) * dimension
        task = strategies.Task(
            *box, known_domains.THRESHOLD, num_images=_NUM_IMAGES.value, seed=seed
        )
        runs.append(known_domains.run(one, _strategy(which), task, kind, seed))
        volumes.append(one.volume)
    ends = np.array([one.found.interval for one in runs])
    there = np.array([one.found.population_interval for one in runs])
    truth, evaluations = np.array(volumes), [one.evaluations for one in runs]
    return {
        "strategy": which,
        "shape": name,
        "dimension": dimension,
        "num_images": _NUM_IMAGES.value,
        "half_width": _HALF_WIDTH.value,
        "runs": len(runs),
        "volume": float(truth.mean()),
        "volumes": volumes,
        "all_evaluations": evaluations,
        "evaluations": float(np.median(evaluations)),
        "of_grid": float(np.median(evaluations))
        / (_GRID.get(dimension, 7**5) * _NUM_IMAGES.value),
        "held": _number_held(ends, truth),
        "held_there": _number_held(there, truth),
        "half": float(np.diff(ends).mean()) / 2,
        "wide": float(np.diff(there).mean()) / 2,
        "status": dict(collections.Counter(one.found.status for one in runs)),
        "seconds": float(np.mean([one.seconds for one in runs])),
    }


def _strategy(which: str) -> strategies.Volume:
    half_width, relative = _HALF_WIDTH.value, _RELATIVE.value
    if which == "P":
        return strategies.Volume(half_width, relative, guarantee="proven")
    return {"S": strategies.Volume, "U": known_domains.Uniform}[which](
        half_width, relative
    )


def _number_held(ends: np.ndarray, truth: np.ndarray) -> int:
    held = (ends[:, 0] <= truth + 1e-9) & (truth - 1e-9 <= ends[:, 1])
    return int(held.sum())


if __name__ == "__main__":
    app.run(main)
