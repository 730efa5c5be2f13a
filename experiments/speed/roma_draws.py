"""Draws per second of RoMA, beside its parts timed alone."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from common import datasets, timing

import jaxrob
from jaxrob import roma

# Perturbed images per step.
_CHUNK = 250


def measure(
    classifier: jaxrob.Classifier,
    images: np.ndarray,
    num_samples: int,
    key: jax.Array,
    forward_rate: tuple[Callable[[], None], int],
    repeats: int,
) -> dict[str, Any]:
    """Measures Algorithm 1's speed, and that of its parts together."""
    draws = len(images) * num_samples

    def assess() -> None:
        roma.assess(
            classifier, images, num_samples=num_samples, estimator="roma", key=key
        )

    forward, forward_rows = forward_rate
    image = jnp.asarray(datasets.unit_range(images[0]))
    parts = (
        forward,
        _random_numbers(image, draws, key),
        _statistics((len(images), num_samples), key),
        assess,
    )
    for part in parts:
        part()
    times = [[timing.seconds(part) for part in parts] for _ in range(repeats)]
    # Seconds a draw, of the three parts and of the whole.
    per_draw = np.array(times) / [forward_rows, draws, draws, draws]
    bare, random, statistics, whole = per_draw.T
    return {
        "num_inputs": len(images),
        "num_samples": num_samples,
        "draws_per_second": 1 / np.median(whole),
        "forward_per_second": 1 / np.median(bare),
        "random_per_second": 1 / np.median(random),
        "ratio_to_forward": np.median(bare / whole),
        "ratio_to_parts": np.median((bare + random) / whole),
        "statistics_share": np.median(statistics / whole),
    }


def in_words(result: dict[str, Any]) -> str:
    """Formats the result of `measure` in a line."""
    return (
        f"RoMA, {result['num_inputs']} inputs x {result['num_samples']} draws: "
        f"{result['draws_per_second']:,.0f} draws/s, "
        f"{result['ratio_to_forward']:.3f} of the forward pass, "
        f"{result['ratio_to_parts']:.3f} of what forward pass and random numbers "
        f"({result['random_per_second']:,.0f}/s) allow together; statistics "
        f"{result['statistics_share']:.1%} of the time"
    )


def _random_numbers(image: jax.Array, draws: int, key: jax.Array) -> Callable[[], None]:
    """Returns a function that perturbs an image this many times."""
    ball = roma.ball("linf", 0.04)
    some = min(draws, _CHUNK)

    @jax.jit
    def perturbed(key: jax.Array) -> jax.Array:
        keys = jax.random.split(key, some)
        return jax.vmap(lambda k: ball.perturbed(image, ball.draw(k, image)))(keys)

    def run() -> None:
        for _ in range(-(-draws // some)):
            perturbed(key).block_until_ready()

    return run


def _statistics(shape: tuple[int, int], key: jax.Array) -> Callable[[], None]:
    """Returns a function that tests confidences `[inputs, draws]` as Algorithm 1."""
    log_hic = jax.random.normal(key, shape) - 10

    @jax.jit
    def examine(log_hic: jax.Array) -> tuple[jax.Array, jax.Array]:
        ascending = jnp.sort(log_hic, axis=1)
        centred = ascending - ascending.mean(axis=1, keepdims=True)
        transformed = roma.boxcox(centred, roma.boxcox_lambda(ascending)[:, None])
        as_drawn = jnp.exp(ascending - ascending[:, -1:])
        return (
            roma.anderson_darling(as_drawn, ascending=True).statistic,
            roma.anderson_darling(transformed, ascending=True).statistic,
        )

    def run() -> None:
        jax.block_until_ready(examine(log_hic))

    return run
