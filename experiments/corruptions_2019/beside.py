"""The benchmark's own pictures beside jaxrob's: a network's answers, and the cost.

Its code draws its own random numbers, so pictures differ and accuracies should not.
"""

import concurrent.futures
import functools
import multiprocessing
import pathlib
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from common import holm, hosts
from scipy import stats

import jaxrob
from corruptions_2019 import benchmark_code
from corruptions_2019.cells import CORRUPTIONS, SEVERITIES, at_severities
from jaxrob import alterations

# Images per call of a process.
_AT_ONCE = 100
_SIZE = 32
_BY_IMAGEMAGICK = ("motion_blur", "snow")


class Made(NamedTuple):
    """Pictures of one corruption."""

    pictures: np.ndarray  # bytes `[5, N, H, W, C]`, by severity
    seconds: float  # the seconds of all processes together


def possible(names: Sequence[str], folder: pathlib.Path) -> list[str]:
    """Returns the corruptions that the benchmark's code can make; prints the others."""
    namespace = benchmark_code.load(folder, _SIZE)
    if "MotionImage" in namespace:
        return list(names)
    left_out = [name for name in names if name in _BY_IMAGEMAGICK]
    if left_out:
        print(f"left out without Wand and ImageMagick: {', '.join(left_out)}")
    return [name for name in names if name not in left_out]


def make(
    names: Sequence[str],
    images: np.ndarray,
    folder: pathlib.Path,
    seed: int,
    processes: int,
) -> dict[str, Made]:
    """Makes the benchmark's pictures, by corruption."""
    starts = range(0, len(images), _AT_ONCE)
    jobs = [
        (name, severity, at)
        for name in names
        for severity in SEVERITIES
        for at in starts
    ]
    one = functools.partial(_some, folder=folder, seed=seed)
    # Forked processes would share the devices' threads.
    spawned = multiprocessing.get_context("spawn")
    made = {name: np.empty((5, *images.shape), np.uint8) for name in names}
    seconds = dict.fromkeys(names, 0.0)
    with concurrent.futures.ProcessPoolExecutor(processes, spawned) as pool:
        blocks = [images[at : at + _AT_ONCE] for _, _, at in jobs]
        for (name, severity, at), (pictures, took) in zip(
            jobs, pool.map(one, jobs, blocks)
        ):
            made[name][severity - 1, at : at + _AT_ONCE] = pictures
            seconds[name] += took
    return {name: Made(made[name], seconds[name]) for name in names}


def _some(
    job: tuple[str, int, int], images: np.ndarray, folder: pathlib.Path, seed: int
) -> tuple[np.ndarray, float]:
    """Returns pictures of some images, and the seconds that they took."""
    from PIL import Image

    name, severity, start = job
    place = CORRUPTIONS.index(name), severity, start
    of_skimage, of_numpy = np.random.SeedSequence((seed, *place)).spawn(2)
    chance = np.random.RandomState(np.random.MT19937(of_numpy))
    functions = benchmark_code.load(
        folder,
        _SIZE,
        normal=chance.normal,
        uniform=chance.uniform,
        randint=chance.randint,
        poisson=chance.poisson,
        rng=np.random.default_rng(of_skimage),
    )
    begin = time.perf_counter()
    # The benchmark truncates to bytes.
    pictures = [
        np.uint8(functions[name](Image.fromarray(image), severity)) for image in images
    ]
    return np.stack(pictures), time.perf_counter() - begin


def compare(
    classifier: jaxrob.Classifier,
    assessments: Mapping[str, jaxrob.Assessment],
    chosen: np.ndarray,
    made: Mapping[str, Made],
    labels: np.ndarray,
) -> dict[str, Any]:
    """Compares accuracies on the benchmark's pictures and on ours."""
    begin = time.perf_counter()
    differences, cells = [], []
    for name, one in made.items():
        curve = assessments[name].curve
        at = at_severities(curve.levels)
        our_right = curve.predicted[at][:, chosen] == labels
        their_right = _right(classifier, one.pictures, labels)
        differences += list(our_right.astype(int) - their_right)
        for severity, ours, theirs in zip(SEVERITIES, our_right, their_right):
            cells.append(
                {
                    "corruption": name,
                    "severity": severity,
                    "ours": float(ours.mean()),
                    "theirs": float(theirs.mean()),
                    "p": _mcnemar(ours, theirs),
                }
            )
    for cell, p_value in zip(cells, holm.adjusted([one["p"] for one in cells])):
        cell["p, Holm"] = float(p_value)
    # `[N]`, each image's mean over the cells: images are sampled, cells are fixed.
    of_image = np.mean(differences, axis=0)
    return {
        "cells": cells,
        "mean difference": float(of_image.mean()),
        "standard error": float(stats.sem(of_image)),
        "seconds to classify": time.perf_counter() - begin,
        "seconds to make": {name: one.seconds for name, one in made.items()},
    }


def _right(
    classifier: jaxrob.Classifier, pictures: np.ndarray, labels: np.ndarray
) -> np.ndarray:
    """Returns which pictures are classified correctly, bool `[5, N]`."""
    every = jaxrob.Dataset(
        pictures.reshape(-1, *pictures.shape[2:]), np.tile(labels, len(pictures))
    )
    curve = jaxrob.evaluate(
        classifier, every, alterations.brightness(), [0.0], mesh=hosts.mesh()
    )
    return (curve.predicted[0] == every.labels).reshape(len(pictures), -1)


def _mcnemar(ours: np.ndarray, theirs: np.ndarray) -> float:
    """Tests paired shares exactly (McNemar, 1947)."""
    only_ours, only_theirs = (ours & ~theirs).sum(), (theirs & ~ours).sum()
    if only_ours + only_theirs == 0:
        return 1.0
    return float(stats.binomtest(only_ours, only_ours + only_theirs).pvalue)


def lines(found: dict[str, Any]) -> list[str]:
    """Formats the comparison for the screen."""
    cells = found["cells"]
    text = [
        f"{'accuracy [%]: ours, theirs':28}" + "".join(f"{s:15d}" for s in SEVERITIES)
    ]
    for name in dict.fromkeys(cell["corruption"] for cell in cells):
        row = [cell for cell in cells if cell["corruption"] == name]
        text.append(
            f"{name:28}"
            + "".join(f"{100 * c['ours']:8.2f} {100 * c['theirs']:6.2f}" for c in row)
            + f"   {found['seconds to make'][name]:.1f} s"
        )
    lowest = min(cells, key=lambda cell: cell["p, Holm"])
    differ = sum(cell["p, Holm"] < 0.05 for cell in cells)
    text.append(
        f"{differ} of {len(cells)} cells differ at 5 % after Holm's correction; the "
        f"lowest p {lowest['p, Holm']:.3g} ({lowest['corruption']}, severity "
        f"{lowest['severity']})"
    )
    mean, error = 100 * found["mean difference"], 100 * found["standard error"]
    text.append(
        f"ours less theirs, mean over the cells: {mean:+.3f} points, 95 % interval "
        f"[{mean - 1.96 * error:+.3f}, {mean + 1.96 * error:+.3f}]"
    )
    return text
