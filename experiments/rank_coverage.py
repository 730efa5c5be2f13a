r"""How often the intervals of ranks cover the true ranks of eight networks at once.

    python experiments/rank_coverage.py
    python experiments/rank_coverage.py --draws=100 --num_images=200 --seed=7

A network here is a formula: the probability that an image is classified correctly at a
level. Its true rank is one more than the number of networks with a higher mean. Sets of
images are drawn, whose difficulty all networks share in part, and the ranks' intervals
are held against the true ranks: tied networks may be in any order, so the intervals
must cover all ranks that they could have. Prints for each case how often all eight are
covered, the mean width of the intervals, and which cells are significantly below 95 %.
Writes JSON into the folder `--output`.
"""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from absl import app, flags
from checks import of_comparisons
from common import define, files, intervals, startup
from scipy import special

from jaxrob import reporting

_CONFIDENCE = 0.95
# The accuracy at the middle of the range, for each of eight networks.
_MEANS = {
    "clear": [0.95, 0.90, 0.84, 0.77, 0.69, 0.60, 0.50, 0.39],
    "close": [0.80, 0.795, 0.79, 0.785, 0.78, 0.775, 0.77, 0.765],
    "tied": [0.80] * 8,
    "mixed": [0.95, 0.95, 0.80, 0.80, 0.795, 0.79, 0.60, 0.60],
    "nearly perfect": [0.998] * 4 + [0.99] * 4,
}
# The share of an image's difficulty that the networks share.
_SHARED = (0.2, 0.9)
_SLOPE = 0.3

_HELP = "Which cases, one flag each; by default all."
_NETWORKS = flags.DEFINE_multi_enum("networks", list(_MEANS), list(_MEANS), _HELP)
_NUM_IMAGES = flags.DEFINE_list("num_images", ["100", "400"], "Images in a set.")
_DRAWS = flags.DEFINE_integer("draws", 500, "Sets of images of each case.", 1)
_SEED = define.seed()
_OUTPUT = define.output("results/rank_coverage")


def main(argv: Sequence[str]) -> None:
    startup.start(argv)
    rows = []
    print(f"{'networks':16}{'shared':>7}{'images':>8}  covered  width")
    sizes = map(int, _NUM_IMAGES.value)
    for title, shared, number in itertools.product(_NETWORKS.value, _SHARED, sizes):
        rows.append(row := _cell(title, shared, number))
        covered = f"{row['covered']:9.1%}{row['width']:7.2f}"
        print(f"{title:16}{shared:7.1f}{number:8}{covered}", flush=True)
    name = "{networks}, {shared}, {num_images}"
    found = intervals.named(rows, "times_covered", _DRAWS.value, name)
    print(
        f"{len(rows)} cells: covered {min(row['covered'] for row in rows):.1%} at "
        f"least; significantly below 95 %: {found}"
    )
    files.save(_OUTPUT.value, "ranks.json", rows)


def _cell(title: str, shared: float, num_images: int) -> dict[str, Any]:
    # A stream for each cell, independent of the other cells.
    place = list(_MEANS).index(title)
    rng = np.random.default_rng([_SEED.value, num_images, place, round(10 * shared)])
    # The lowest and highest rank that each could have; they differ for ties. All curves
    # fall alike, so the means have the order of the middle level.
    means = np.array(_MEANS[title])
    low = 1 + (means > means[:, None]).sum(axis=1)
    high = len(means) - (means < means[:, None]).sum(axis=1)
    covered, widths = 0, []
    for _ in range(_DRAWS.value):
        least, most = _intervals(_MEANS[title], shared, num_images, rng)
        covered += bool((least <= low).all() and (high <= most).all())
        widths.append(np.mean(most - least + 1))
    row = {"networks": title, "shared": shared, "num_images": num_images}
    row |= {"times_covered": covered, "covered": covered / _DRAWS.value}
    return row | {"width": float(np.mean(widths))}


def _intervals(
    means: Sequence[float], shared: float, num_images: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    difficulty = rng.standard_normal(num_images)
    networks = {}
    for number, mean in enumerate(means):
        own = rng.standard_normal(num_images)
        strength = np.sqrt(shared) * difficulty + np.sqrt(1 - shared) * own
        limits = special.ndtri(mean) - _SLOPE * (of_comparisons.LEVELS - 0.5)
        wrong = strength >= limits[:, None]
        networks[str(number)] = [of_comparisons.assessment(wrong, threshold=0.5)]
    (found,) = reporting.ranks(networks, _CONFIDENCE)
    order = np.argsort([int(name) for name in found.networks])
    return found.low[order], found.high[order]


if __name__ == "__main__":
    app.run(main)
