"""What the scripts time: the bare forward pass, seconds, programs compiled."""

import contextlib
import statistics
import time
from collections.abc import Callable, Iterator, Sequence

import jax
from jax import monitoring

import jaxrob


def best_forward(
    classifier: jaxrob.Classifier,
    images: jax.Array,
    batch_sizes: Sequence[int] = (100, 250, 500, 1000, 4000),
    passes: int = 1,
) -> tuple[Callable[[], None], int]:
    """A function that passes all images `passes` times, in batches of the best size.

    Args:
      classifier: the classifier.
      images: float32 `[N, H, W, C]`, on the device.
      batch_sizes: the sizes to choose from.
      passes: how often the function passes the images.

    Returns:
      The function and the batch size.
    """
    forward = jax.jit(classifier.apply_fn)
    sizes = sorted({min(size, len(images)) for size in batch_sizes})

    def in_batches(size, passes):
        batches = [images[i : i + size] for i in range(0, len(images), size)]

        def run():
            for _ in range(passes):
                results = [forward(classifier.variables, batch) for batch in batches]
            jax.block_until_ready(results)

        return run

    def median_seconds(size):
        run = in_batches(size, 4)
        run()
        return statistics.median(seconds(run) for _ in range(5))

    best = min(sizes, key=median_seconds)
    return in_batches(best, passes), best


def seconds(run: Callable[[], None]) -> float:
    """The time that `run()` takes."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


@contextlib.contextmanager
def compilations() -> Iterator[list[float]]:
    """A list that gets, while entered, the seconds of each program that is compiled."""
    found = []

    def listen(event, seconds, **_):
        if event == "/jax/core/compile/backend_compile_duration":
            found.append(seconds)

    monitoring.register_event_duration_secs_listener(listen)
    try:
        yield found
    finally:
        monitoring.unregister_event_duration_listener(listen)
