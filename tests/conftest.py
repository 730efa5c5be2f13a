"""How the tests share the machine and the time.

There are as many processes as cores and memory allow. `pytest` leaves out what takes
long and tells little more; `--all` brings it.

Most of the time is compilation. Programs that one process has compiled serve the
others, the scripts that they run, and the next run: a folder of `.pytest_cache`, or the
one that JAX_COMPILATION_CACHE_DIR names, keeps them. XLA's optimisations are left out,
which saves a third of the time, and its slower ways of emitting code where the
installed version has others; JAX_DISABLE_MOST_OPTIMIZATIONS=0 brings both back, as
`.ci/run` does for the tests of pixels and outputs.
"""

import functools
import gc
import os
import pathlib
from importlib import metadata

import pytest

from . import deprecations, machine

# Minutes each, of processes of their own.
LONGEST = ("test_scripts.py", "test_devices.py")

# Neither fused loops through MLIR nor 32 modules a program, for as many cores; where a
# test has optimisations, the first of three levels, whose programs are about as fast.
QUICK_TO_COMPILE = [
    "--xla_backend_optimization_level=1",
    "--xla_cpu_use_fusion_emitters=false",
    "--xla_cpu_parallel_codegen_split_count=1",
]
# All of a whole run's, four times.
MOST_BYTES_OF_PROGRAMS = 2**30


def pytest_addoption(parser):
    parser.addoption(
        "--all",
        action="store_true",
        help="The tests marked slow, too. One that is named by itself always runs.",
    )
    parser.addoption(
        "--cases",
        type=int,
        help="Random cases of each property test, 40 by default and 300 of all tests; "
        "thousands take minutes.",
    )
    parser.addoption(
        "--reference",
        help="ImageNet-C/create_c of github.com/hendrycks/robustness at 8190fe3, with "
        "which the common corruptions are compared; without it these tests skip.",
    )


@pytest.fixture(autouse=True, scope="module")
def room_for_programs():
    """Most tests compile without an assessment, which would make room itself."""
    from jaxrob._devices.memory_maps import make_room  # JAX reads what is set below.

    make_room()


@pytest.fixture
def optimised():
    """XLA's optimisations, where computing takes longer than compiling."""
    import jax

    jax.config.update("jax_disable_most_optimizations", False)
    yield
    left_out = os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] == "1"
    jax.config.update("jax_disable_most_optimizations", left_out)


@pytest.fixture(scope="session")
def reference(pytestconfig):
    """The folder of the benchmark's own code."""
    folder = pytestconfig.getoption("reference")
    if folder is None:
        pytest.skip(
            "needs --reference=FOLDER, ImageNet-C/create_c of hendrycks/robustness"
        )
    return pathlib.Path(folder)


@pytest.fixture(scope="session")
def cases(pytestconfig):
    """How many random cases a test tries."""
    given = pytestconfig.getoption("cases")
    return given or (300 if pytestconfig.getoption("all") else 40)


def pytest_xdist_auto_num_workers():
    number, _ = machine.processes()
    return 0 if number == 1 else number


def pytest_report_header(config):
    left_out = "" if config.getoption("all") else "; --all runs the slow tests too"
    return f"{machine.processes()[1]}{left_out}"


def pytest_configure(config):
    deprecations.make_errors_of_ours()
    if hasattr(config, "workerinput"):
        return  # The environment is the first process's.
    # Nothing that another jaxlib compiled is read.
    folder = config.rootpath / ".pytest_cache" / "programs"
    kept = folder / f"jaxlib-{metadata.version('jaxlib')}"
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        os.environ["JAX_COMPILATION_CACHE_DIR"] = str(kept)
        bound = machine.bound_size, folder, kept, MOST_BYTES_OF_PROGRAMS
        config.add_cleanup(functools.partial(*bound))
    # Read when JAX is imported.
    if os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1") == "1":
        given = os.environ.get("XLA_FLAGS", "")
        quick = machine.known_flags(QUICK_TO_COMPILE, kept / "flags")
        os.environ["XLA_FLAGS"] = " ".join([*quick, given]).strip()
    # Of torch: threads of two processes on two cores mostly wait for each other.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    # Small programs are most of them.
    os.environ |= {
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }


def pytest_sessionfinish():
    # pytest looks for what tests left behind five times, JAX's caches included.
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(config, items):
    # First, or one of the processes would wait for the other at the end.
    items.sort(key=lambda item: item.path.name not in LONGEST)
    named = any("::" in argument for argument in config.args)
    if not config.getoption("all") and not named:
        slow = [item for item in items if item.get_closest_marker("slow")]
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if item not in set(slow)]
