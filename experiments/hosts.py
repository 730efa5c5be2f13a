r"""Scripts on several hosts: the same command on each, but for `--process_id`.

    python experiments/quickstart.py --coordinator_address=first-host:1234 \
        --num_processes=2 --process_id=0

All devices of all hosts share the work. The first process alone prints and writes.
"""

import atexit
import io
import pathlib
import sys
import tempfile

import jax
import numpy as np
from absl import app, flags
from jax.sharding import Mesh

_COORDINATOR = flags.DEFINE_string(
    "coordinator_address", None, "host:port of the first of several processes."
)
_NUM_PROCESSES = flags.DEFINE_integer("num_processes", None, "How many they are.", 1)
_PROCESS_ID = flags.DEFINE_integer("process_id", None, "Which this one is, from 0.", 0)


def join() -> None:
    """Joins the other processes, if the flags say that there are any.

    Nothing may touch a device before.
    """
    given = [_COORDINATOR.value, _NUM_PROCESSES.value, _PROCESS_ID.value]
    if all(value is None for value in given):
        return
    if any(value is None for value in given):
        raise app.UsageError(
            "coordinator_address, num_processes and process_id go together; got "
            f"{given}"
        )
    jax.distributed.initialize(*given)
    if not _is_first():
        sys.stdout = io.StringIO()


def mesh() -> Mesh | None:
    """All devices of all processes; None, its own, for a process that is alone."""
    if jax.process_count() == 1:
        return None
    return Mesh(np.array(jax.devices()), ("images",))


def output(folder: str) -> pathlib.Path:
    """The folder written to, made if need be; one to be forgotten in other processes.

    Not for what is read again by later runs, which all processes must find.
    """
    if not _is_first():
        scratch = tempfile.TemporaryDirectory()
        atexit.register(scratch.cleanup)
        folder = scratch.name
    path = pathlib.Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    return path


def _is_first():
    return jax.process_index() == 0
