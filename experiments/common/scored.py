"""What assessments by a score leave open, and what a score costs."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from scipy import special

import jaxrob
from jaxrob import metrics


def widths(result: jaxrob.Assessment) -> dict[str, Any]:
    """Returns the interval, and its width beside the normal approximation's.

    The widths are of intervals at each level, averaged, and of the robustness, both
    between bands that are joined by straight lines.

    Args:
      result: an assessment by a score, of all images.
    """
    scores, levels = result.curve.scores, result.levels
    bounded = metrics.bands(result.counts, result.measure, result.confidence_level)
    factor = special.ndtri((1 + result.confidence_level) / 2)
    half = factor * scores.std(axis=1, ddof=1) / np.sqrt(scores.shape[1])
    normal = [(result.values + side * half).clip(0, 1) for side in (-1, 1)]
    found: dict[str, Any] = {
        "robustness": result.robustness,
        "interval": list(result.confidence_interval),
        "evaluations": result.evaluations,
    }
    for name, (low, high) in (("bounded", bounded), ("normal", normal)):
        about = result.threshold, (result.lower, result.upper)
        ends = metrics.robustness_interval(levels, low, high, *about)
        found[f"{name}: width at a level"] = float(np.mean(high - low))
        found[f"{name}: width"] = ends.high - ends.low
    print(
        f"{result.alteration}: intervals by bounded means are "
        f"{found['bounded: width at a level']:.4f} wide at a level, "
        f"{found['bounded: width']:.4f} of the robustness; by the normal approximation "
        f"{found['normal: width at a level']:.4f} and {found['normal: width']:.4f}"
    )
    return found


def few(result: jaxrob.Assessment) -> dict[str, Any]:
    """Returns what an assessment of few images found.

    Args:
      result: the assessment.
    """
    low, high = result.dataset_interval
    print(
        f"{result.alteration}: {result.evaluations:,} evaluations leave "
        f"{low:.1%} to {high:.1%}"
    )
    return {"few: interval": [low, high], "few: evaluations": result.evaluations}


def preparation(alteration: jaxrob.Alteration) -> Callable[[Any, jax.Array], Any]:
    """Returns what is done once for all levels to images of bytes `[N, ...]`."""

    @jax.jit
    def prepare(images: jax.Array, keys: jax.Array) -> Any:
        pixels = images.astype(np.float32) / 255
        if not alteration.stochastic:
            return jax.vmap(alteration.prepared)(pixels)
        return jax.vmap(alteration.prepared)(pixels, keys)

    return prepare


def network_alone(
    classifier: jaxrob.Classifier,
    dataset: jaxrob.Dataset,
    alteration: jaxrob.Alteration,
    levels: np.ndarray,
) -> Callable[[], None]:
    """Returns a function that alters all images to each level and runs the network.

    Nothing is done with its outputs, which stay on the device.
    """
    keys = jax.random.split(jax.random.key(0), len(dataset))

    prepare = preparation(alteration)

    @jax.jit
    def outputs(variables: Any, prepared: Any, level: jax.Array) -> Any:
        images = jax.vmap(lambda image: alteration.at_level(image, level))(prepared)
        return classifier.apply_fn(variables, images)

    def run() -> None:
        prepared = prepare(dataset.images, keys)
        for level in np.float32(levels):
            jax.block_until_ready(outputs(classifier.variables, prepared, level))

    return run
