"""Runs scripts in forks of a process that has already imported their packages.

    python tests/fork_server.py FOLDER

An interpreter takes seconds to import JAX and the rest, a fork none. No device is
touched before the fork, so a script finds JAX as in a new process, with one exception:
apart from the optimisations, settings that JAX reads from the environment at its import
are the server's.

A request is a line of JSON, the script with its arguments and environment variables;
its answer is the exit status. The script's output is then in FOLDER.
"""

import contextlib
import importlib
import json
import os
import pathlib
import pkgutil
import runpy
import subprocess
import sys

IMPORTED = (
    "cv2 dm_pix flax.linen matplotlib.pyplot numpyro optax orbax.checkpoint PIL.Image "
    "scipy.stats sklearn.datasets tqdm"
).split()


@contextlib.contextmanager
def started(folder):
    """Yields a function that runs a script, and returns its status and output."""
    command = [sys.executable, __file__, folder]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as server:

        def run(script, *arguments, **environment):
            request = [str(script), *map(str, arguments)], environment
            print(json.dumps(request), file=server.stdin, flush=True)
            code = int(server.stdout.readline())
            return code, *((folder / name).read_text() for name in ("out", "err"))

        yield run


def main(folder):
    import deprecations  # Beside this script, which is not run as a module.

    deprecations.make_errors_of_ours()
    prepare()
    for line in sys.stdin:
        process = os.fork()
        if not process:
            become(folder, *json.loads(line))
            return
        _, status = os.waitpid(process, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def prepare():
    import jax

    import jaxrob

    for name in IMPORTED:
        importlib.import_module(name)
    for module in pkgutil.walk_packages(jaxrob.__path__, "jaxrob."):
        # Packages of extras that are not installed.
        with contextlib.suppress(ImportError):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)
    # JAX raises an error if a device has been touched.
    jax.config.update("jax_num_cpu_devices", jax.config.jax_num_cpu_devices)


def become(folder, command, environment):
    for descriptor, name in enumerate(("out", "err"), start=1):
        file = os.open(folder / name, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
        os.dup2(file, descriptor)
    os.environ.update(environment)
    if "JAX_DISABLE_MOST_OPTIMIZATIONS" in environment:
        import jax

        # Already read when JAX was imported.
        left_out = environment["JAX_DISABLE_MOST_OPTIMIZATIONS"] == "1"
        jax.config.update("jax_disable_most_optimizations", left_out)
    sys.argv[:] = command
    # As `python script` sets it.
    sys.path[0] = str(pathlib.Path(command[0]).parent)
    runpy.run_path(command[0], run_name="__main__")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
