"""One of the processes that `elsewhere` starts.

python -m pinned.process NUM_PROCESSES PORT PROCESS
"""

import sys

import jax


def _main(num_processes: int, port: int, process: int) -> None:
    if num_processes > 1:
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        jax.distributed.initialize(f"localhost:{port}", num_processes, process)
    # This touches a device, which must wait until the processes have joined.
    from pinned import elsewhere

    elsewhere.in_process(process)


if __name__ == "__main__":
    _main(*map(int, sys.argv[1:]))
