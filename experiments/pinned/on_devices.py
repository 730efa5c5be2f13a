"""Eight devices, and two processes of two devices each."""

import json
import os
import pathlib
import socket
import subprocess
import sys
from typing import Any

import jax

from pinned import everywhere


def one_device() -> Any:
    """The same calls on one device, for comparison."""
    return everywhere.measured(None, "journal")


def eight_devices() -> Any:
    return _started(1, 8)[0]


def two_processes() -> Any:
    return _started(2, 2)


def _started(num_processes: int, num_devices: int) -> list[Any]:
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    optimised = not jax.config.read("jax_disable_most_optimizations")
    environment = os.environ | {
        "JAX_NUM_CPU_DEVICES": f"{num_devices}",
        "JAX_DISABLE_MOST_OPTIMIZATIONS": f"{int(not optimised)}",
        # This checkout, whichever is installed.
        "PYTHONPATH": os.pathsep.join(map(str, pathlib.Path(__file__).parents[1:3])),
    }
    if jax.config.jax_compilation_cache_dir is not None:
        environment["JAX_COMPILATION_CACHE_DIR"] = jax.config.jax_compilation_cache_dir
    command = [sys.executable, "-m", "pinned.process", f"{num_processes}", f"{port}"]
    processes = [
        subprocess.Popen(
            [*command, f"{number}"],
            env=environment,
            # Messages of Gloo's connections.
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(num_processes)
    ]
    try:
        for one in processes:
            _, said = one.communicate(timeout=500)
            if one.returncode:
                raise RuntimeError(f"a process ended with {one.returncode}: {said}")
    finally:
        for one in processes:
            one.kill()
    paths = (pathlib.Path(f"found-{number}.json") for number in range(num_processes))
    return [json.loads(path.read_text()) for path in paths]
