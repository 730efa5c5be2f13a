"""Descriptions of the machine, and the process's memory."""

import contextlib
import importlib.metadata
import os
import pathlib
import platform
import resource
import threading
from collections.abc import Iterator
from typing import Any

import jax

import jaxrob


def description() -> dict[str, Any]:
    """Describes the machine, the devices and the versions, as JSON values."""
    device = jax.devices()[0]
    versions = {
        name: importlib.metadata.version(name)
        for name in ("jax", "jaxlib", "numpy", "dm-pix", "opencv-python-headless")
    }
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
    """Returns the name of the processor's model."""
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
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
    """Formats the result of `memory`."""
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
