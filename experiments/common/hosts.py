r"""Scripts on several hosts: the same command on each, except for `--process_id`.

    python experiments/quickstart.py --coordinator_address=first-host:1234 \
        --num_processes=2 --process_id=0

All devices of all hosts share the work. Only the first process prints and writes; it
broadcasts the results of earlier runs. Only checkpoints of trainings are read by all
processes, so a script with checkpoints needs a folder `--output` that all hosts see.
"""

import io
import sys

import jax
import numpy as np
from absl import app, flags
from jax.experimental import multihost_utils
from jax.sharding import Mesh

_COORDINATOR = flags.DEFINE_string(
    "coordinator_address", None, "host:port of the first of several processes."
)
_NUM_PROCESSES = flags.DEFINE_integer("num_processes", None, "How many they are.", 1)
_PROCESS_ID = flags.DEFINE_integer("process_id", None, "Which this one is, from 0.", 0)


def join() -> None:
    """Joins the other processes, if flags name any; before a device is touched."""
    given = [_COORDINATOR.value, _NUM_PROCESSES.value, _PROCESS_ID.value]
    if all(value is None for value in given):
        return
    if any(value is None for value in given):
        raise app.UsageError(
            "coordinator_address, num_processes and process_id go together; got "
            f"{given}"
        )
    jax.distributed.initialize(
        _COORDINATOR.value, _NUM_PROCESSES.value, _PROCESS_ID.value
    )
    if not is_first():
        sys.stdout = io.StringIO()


def refuse_several() -> None:
    """Rejects several processes, before they wait for each other."""
    if (_NUM_PROCESSES.value or 1) > 1:
        raise app.UsageError(
            "num_processes must be 1 here, since what is timed is one process; got "
            f"{_NUM_PROCESSES.value}"
        )


def mesh() -> Mesh | None:
    """Returns all devices of all processes; None, its own, for a single process."""
    if jax.process_count() == 1:
        return None
    return Mesh(np.array(jax.devices()), ("images",))


def is_first() -> bool:
    """Whether this is the process that prints and writes."""
    return jax.process_index() == 0


def from_first(content: bytes | None) -> bytes | None:
    """Broadcasts the first process's value; all processes call it."""
    if jax.process_count() == 1:
        return content
    own = np.frombuffer(content or b"", np.uint8)
    # A length of -1 stands for None.
    length = np.int32(-1 if content is None else len(own))
    length = int(multihost_utils.broadcast_one_to_all(length))
    if length < 1:
        return None if length < 0 else b""
    if not is_first():
        own = np.zeros(length, np.uint8)
    return np.asarray(multihost_utils.broadcast_one_to_all(own)).tobytes()
