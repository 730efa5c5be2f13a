"""Timings of the scripts: the bare forward pass, seconds, programs compiled."""

import contextlib
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import monitoring

import jaxrob
from common import datasets


def best_forward(
    classifier: jaxrob.Classifier,
    images: np.ndarray,
    batch_sizes: Sequence[int] = (100, 250, 500, 1000, 4000),
    passes: int = 1,
) -> tuple[Callable[[], None], int]:
    """A function that passes all images `passes` times, and the best batch size."""
    forward = jax.jit(classifier.apply_fn)
    on_device = jnp.asarray(datasets.unit_range(images))
    sizes = sorted({min(size, len(images)) for size in batch_sizes})

    def in_batches(size: int, passes: int) -> Callable[[], None]:
        batches = [on_device[i : i + size] for i in range(0, len(images), size)]

        def run() -> None:
            results = []
            for _ in range(passes):
                results = [forward(classifier.variables, batch) for batch in batches]
            jax.block_until_ready(results)

        return run

    def median_seconds(size: int) -> float:
        run = in_batches(size, 4)
        run()
        return statistics.median(seconds(run) for _ in range(5))

    best = min(sizes, key=median_seconds)
    return in_batches(best, passes), best


def forward_seconds(classifier: jaxrob.Classifier, images: np.ndarray) -> float:
    """Returns the best time of the bare forward pass over bytes `[N, H, W, C]`."""
    forward, _ = best_forward(classifier, images)
    return statistics.median(seconds(forward) for _ in range(5))


def seconds(run: Callable[[], object]) -> float:
    """Returns the seconds of `run()`."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


@contextlib.contextmanager
def compilations() -> Iterator[list[float]]:
    """Collects the seconds of each program compiled inside the context, in a list."""
    found = []

    def listen(event: str, duration_secs: float, **_: Any) -> None:
        if event == "/jax/core/compile/backend_compile_duration":
            found.append(duration_secs)

    monitoring.register_event_duration_secs_listener(listen)
    try:
        yield found
    finally:
        monitoring.unregister_event_duration_listener(listen)
