"""Several processes: each runs the same command, except for `--process_id`.

All devices of all hosts share the work. Only the first process prints and writes.
"""

import io
import sys

import jax
import numpy as np
from jax.sharding import Mesh

from jaxrob._command.define import Values
from jaxrob._command.refused import Refused

_NAMES = ("coordinator_address", "num_processes", "process_id")


def start(values: Values) -> None:
    """Joins the other processes, and sets the folder of compiled programs."""
    # Must be called before anything uses a device.
    given = [getattr(values, name) for name in _NAMES]
    if any(value is not None for value in given):
        if any(value is None for value in given):
            raise Refused(f"--{', --'.join(_NAMES)} go together; got {given}")
        jax.distributed.initialize(
            values.coordinator_address, values.num_processes, values.process_id
        )
        if jax.process_index():
            sys.stdout = io.StringIO()
    if values.compilation_cache is not None:
        jax.config.update("jax_compilation_cache_dir", values.compilation_cache)
        # Compilation time is mostly hundreds of small programs of less than a second
        # each.
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)


def mesh() -> Mesh | None:
    """Returns a mesh of all devices of all processes; None for a single process."""
    if jax.process_count() == 1:
        return None
    return Mesh(np.array(jax.devices()), ("images",))
