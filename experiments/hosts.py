r"""Scripts on several hosts: the same command on each, but for `--process_id`.

    python experiments/quickstart.py --coordinator_address=first-host:1234 \
        --num_processes=2 --process_id=0

All devices of all hosts share the work. The first process alone prints and writes.
"""

import atexit
import contextlib
import io
import pathlib
import tempfile
from collections.abc import Callable

import jax
import numpy as np
from absl import app, flags
from jax.sharding import Mesh

_COORDINATOR = flags.DEFINE_string(
    "coordinator_address", None, "host:port of the first of several processes."
)
_NUM_PROCESSES = flags.DEFINE_integer("num_processes", None, "How many they are.", 1)
_PROCESS_ID = flags.DEFINE_integer("process_id", None, "Which this one is, from 0.", 0)


def run(main: Callable[[list[str]], None]) -> None:
    """`absl.app.run`, after joining the other processes, if there are any.

    Called in place of it, for nothing may touch a device before they are joined.
    """

    def joined(argv):
        given = [_COORDINATOR.value, _NUM_PROCESSES.value, _PROCESS_ID.value]
        if all(value is None for value in given):
            return main(argv)
        if any(value is None for value in given):
            raise app.UsageError(
                "coordinator_address, num_processes and process_id go together; got "
                f"{given}"
            )
        jax.distributed.initialize(*given)
        if _is_first():
            return main(argv)
        with contextlib.redirect_stdout(io.StringIO()):
            return main(argv)

    app.run(joined)


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
