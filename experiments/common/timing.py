"""Timings of the scripts, and the machine and memory that they describe."""

import contextlib
import importlib.metadata
import os
import pathlib
import platform
import resource
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
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
    forward, _ = best_forward(classifier, images)
    return statistics.median(seconds(forward) for _ in range(5))


def seconds(run: Callable[[], object]) -> float:
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


def side_by_side(
    runs: Mapping[str, Callable[[], None]], rows: int, repeats: int
) -> dict[str, Any]:
    """Each run's speed, and its ratio to "evaluate": medians of runs side by side."""
    first, *times = (
        {name: seconds(run) for name, run in runs.items()} for _ in range(1 + repeats)
    )
    found = {}
    for name in runs:
        steady = statistics.median(one[name] for one in times)
        found[name] = {
            "images_per_second": rows / steady,
            "seconds": [one[name] for one in times],
            "first_seconds": first[name],
            "ratio": statistics.median(one[name] / one["evaluate"] for one in times),
        }
    return found


def heading(others: Mapping[str, str]) -> str:
    columns = (f"{words + '/s':>12}{'ratio':>7}" for words in others.values())
    return f"{'alteration':24}{'images/s':>10}{'first':>8}" + "".join(columns)


def row(name: str, found: Mapping[str, Any], others: Mapping[str, str]) -> str:
    evaluate = found["evaluate"]
    cells = [
        f"{name:24}{evaluate['images_per_second']:10,.0f}"
        f"{evaluate['first_seconds']:7.1f}s"
    ]
    for one in map(found.get, others):
        known = one and f"{one['images_per_second']:12,.0f}{one['ratio']:7.2f}"
        cells.append(known or f"{'-':>12}{'-':>7}")
    return "".join(cells)


def description() -> dict[str, Any]:
    device = jax.devices()[0]
    packages = ("jax", "jaxlib", "numpy", "dm-pix", "opencv-python-headless")
    versions = {name: importlib.metadata.version(name) for name in packages}
    return {
        "platform": device.platform,
        "device": device.device_kind,
        "num_devices": jax.device_count(),
        "cores": os.cpu_count(),
        "processor": processor(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "jaxrob": jaxrob.__version__,
    } | versions


def processor() -> str:
    path = pathlib.Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if "model name" in line]
    return names[0] if names else platform.processor()


def memory() -> dict[str, Any]:
    """Returns the peak memory so far, of the host and of each device, in bytes."""
    try:
        # getrusage would include the process that started this one.
        peak = _in_status("VmHWM")
    except OSError:
        # Without /proc: macOS, which counts in bytes.
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # A CPU keeps no statistics.
    of_devices = [device.memory_stats() or {} for device in jax.local_devices()]
    return {
        "host_bytes": peak,
        "device_bytes": [one.get("peak_bytes_in_use") for one in of_devices],
    }


def in_words(memory: dict[str, Any]) -> str:
    host = f"{memory['host_bytes'] / 2**20:,.0f} MiB of the host's"
    known = [some for some in memory["device_bytes"] if some is not None]
    if not known:
        return host
    return f"{host}, {max(known) / 2**20:,.0f} MiB of a device's"


@contextlib.contextmanager
def anonymous_peak() -> Iterator[list[int]]:
    """The peak of anonymous memory in bytes (no pages of files), set on exit."""
    largest, ended = [_in_status("RssAnon")], threading.Event()

    def watch() -> None:
        while not ended.wait(0.02):
            largest[0] = max(largest[0], _in_status("RssAnon"))

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        yield largest
    finally:
        ended.set()
        watching.join()


def _in_status(name: str) -> int:
    """Returns a field of this process's /proc status, in bytes."""
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    (kilobytes,) = (line.split()[1] for line in lines if line.startswith(name))
    return 1024 * int(kilobytes)
