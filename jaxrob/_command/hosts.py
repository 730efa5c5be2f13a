"""Several processes: the same command on each, except for `--process_id`.

All devices of all hosts share the work. The first process alone prints and writes.
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
    """Joins the other processes, and says where compiled programs are kept.

    Nothing may touch a device before.

    Raises:
      Refused: if some of the flags are missing.
    """
    given = [getattr(values, name) for name in _NAMES]
    if any(value is not None for value in given):
        if any(value is None for value in given):
            raise Refused(f"--{', --'.join(_NAMES)} go together; got {given}")
        jax.distributed.initialize(*given)
        if jax.process_index():
            sys.stdout = io.StringIO()
    if values.compilation_cache is not None:
        jax.config.update("jax_compilation_cache_dir", values.compilation_cache)
        # Hundreds of small programs take most of the time, none of them a second.
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)


def mesh() -> Mesh | None:
    """All devices of all processes; None, its own, for a process that is alone."""
    if jax.process_count() == 1:
        return None
    return Mesh(np.array(jax.devices()), ("images",))
