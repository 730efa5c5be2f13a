r"""Scripts on several hosts: the same command on each, but for `--process_id`.

    python experiments/quickstart.py --coordinator_address=first-host:1234 \
        --num_processes=2 --process_id=0

All devices of all hosts share the work. The first process alone prints and writes, and
tells the others what it finds of earlier runs; only the checkpoints of trainings are
read by all, so that a script with such needs a folder `--output` that all hosts see.
"""

import atexit
import base64
import io
import pathlib
import sys
import tempfile

import jax
import numpy as np
from absl import app, flags
from jax.sharding import Mesh

from jaxrob._runtime.hosts import from_first, is_first

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
    if not is_first():
        sys.stdout = io.StringIO()


def refuse_several() -> None:
    """Refuses several processes, before they wait for each other."""
    if (_NUM_PROCESSES.value or 1) > 1:
        raise app.UsageError(
            "num_processes must be 1 here, what is timed is one process; got "
            f"{_NUM_PROCESSES.value}"
        )


def mesh() -> Mesh | None:
    """All devices of all processes; None, its own, for a process that is alone."""
    if jax.process_count() == 1:
        return None
    return Mesh(np.array(jax.devices()), ("images",))


def output(folder: str) -> pathlib.Path:
    """The folder written to, made if need be; one to be forgotten in other processes.

    For what later runs read again there are `read` and `write`.
    """
    if not is_first():
        scratch = tempfile.TemporaryDirectory()
        atexit.register(scratch.cleanup)
        folder = scratch.name
    path = pathlib.Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    return path


def read(path: pathlib.Path) -> bytes | None:
    """What the first process finds in a file; None if it is not there."""
    content = path.read_bytes() if is_first() and path.exists() else None
    if jax.process_count() == 1:
        return content
    text = None if content is None else base64.b64encode(content).decode()
    text = from_first(text, mesh())
    return None if text is None else base64.b64decode(text)


def write(path: pathlib.Path, content: bytes) -> None:
    """Writes a file, in the first process; whole or, if interrupted, not at all."""
    if not is_first():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(path.name + ".part")
    unfinished.write_bytes(content)
    unfinished.replace(path)
