"""One of the processes that `on_devices` starts.

    python -m pinned.process NUM_PROCESSES PORT PROCESS

keeps the results of its calls, on all devices of all processes, in
`found-PROCESS.json`.
"""

import json
import pathlib
import sys
import warnings

import jax
import numpy as np
from jax.sharding import Mesh


def _main(num_processes: int, port: int, process: int) -> None:
    if num_processes > 1:
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        jax.distributed.initialize(f"localhost:{port}", num_processes, process)
    # These touch a device, which must wait until the processes have joined.
    from pinned.everywhere import measured
    from pinned.kept import kept

    mesh = Mesh(np.array(jax.devices()).reshape(2, -1), ("a", "b"))
    # Only the first process touches the file: the others have a path that fails.
    journal = "journal" if process == 0 else "nowhere/journal"
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = kept(measured(mesh, journal))
    messages = [
        f"{one.message}" for one in said if issubclass(one.category, UserWarning)
    ]
    document = {"value": found, "warnings": messages}
    pathlib.Path(f"found-{process}.json").write_text(json.dumps(document))


if __name__ == "__main__":
    _main(*map(int, sys.argv[1:]))
