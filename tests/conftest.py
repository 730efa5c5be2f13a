"""The tests' use of the machine and of time.

There are as many processes as cores and memory allow. `pytest` skips slow tests that
add little; `--all` runs them.

Most of the time is compilation. The programs that one process has compiled are cached
for the others, for the scripts that they run, and for the next run: in a folder of
`.pytest_cache`, or in JAX_COMPILATION_CACHE_DIR. XLA's optimisations are turned off,
which saves a third of the time, and so are its slower ways of emitting code if the
installed version has others; JAX_DISABLE_MOST_OPTIMIZATIONS=0 turns both on, as
`.ci/run` does for the tests of pixels and outputs.
"""

import functools
import gc
import os
import pathlib
from importlib import metadata

import pytest

from . import cost, deprecations, machine

# Minutes each, in processes of their own.
LONGEST = ("test_scripts.py", "test_devices.py")

# Neither fused loops through MLIR nor 32 modules a program, for as many cores; where a
# test needs optimisations, the first of three levels, whose programs are about as fast.
QUICK_TO_COMPILE = [
    "--xla_backend_optimization_level=1",
    "--xla_cpu_use_fusion_emitters=false",
    "--xla_cpu_parallel_codegen_split_count=1",
]
# Four times the programs of a whole run.
MOST_BYTES_OF_PROGRAMS = 2**30
# Of a process, above which it forgets its programs, which the folder keeps.
MOST_BYTES_USED = 2**30

STARTED = pytest.StashKey[float]()
UNIT = pytest.StashKey[float]()
# The CPU seconds of each test, and the programs of each process.
took: dict[str, float] = {}
compiled: list[int] = []


def pytest_addoption(parser):
    parser.addoption(
        "--all",
        action="store_true",
        help="The tests marked slow, too. One that is named by itself always runs.",
    )
    parser.addoption(
        "--cases",
        type=int,
        help="Random cases of each property test, 40 by default and 200 of all tests; "
        "thousands take minutes.",
    )
    parser.addoption(
        "--reference",
        help="ImageNet-C/create_c of github.com/hendrycks/robustness at 8190fe3, with "
        "which the common corruptions are compared; without it these tests skip.",
    )


@pytest.fixture(autouse=True, scope="module")
def room_for_programs():
    """Makes room, because most tests compile without an assessment that would."""
    import jax  # Reads the settings below.

    from jaxrob._devices.blocks import make_room

    make_room()
    if machine.bytes_used() > MOST_BYTES_USED:
        jax.clear_caches()


@pytest.fixture
def optimised():
    """Enables XLA's optimisations, for tests that compute longer than they compile."""
    import jax

    jax.config.update("jax_disable_most_optimizations", False)
    yield
    left_out = os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] == "1"
    jax.config.update("jax_disable_most_optimizations", left_out)


@pytest.fixture(scope="session")
def reference(pytestconfig):
    folder = pytestconfig.getoption("reference")
    if folder is None:
        pytest.skip(
            "needs --reference=FOLDER, ImageNet-C/create_c of hendrycks/robustness"
        )
    return pathlib.Path(folder)


@pytest.fixture
def real_folder():
    def folder(name: str) -> pathlib.Path:
        path = pathlib.Path(os.environ.get("JAXROB_DATA_DIR", ""), name)
        if not os.environ.get("JAXROB_DATA_DIR") or not path.is_dir():
            pytest.skip(f"needs JAXROB_DATA_DIR with the folder {name}")
        return path

    return folder


@pytest.fixture(scope="session")
def cases(pytestconfig):
    given = pytestconfig.getoption("cases")
    return given or (200 if pytestconfig.getoption("all") else 40)


def pytest_xdist_auto_num_workers():
    number, _ = machine.processes()
    return 0 if number == 1 else number


def pytest_report_header(config):
    left_out = "" if config.getoption("all") else "; --all runs the slow tests too"
    return f"{machine.processes()[1]}{left_out}"


def pytest_configure(config):
    deprecations.make_errors_of_ours()
    if hasattr(config, "workerinput"):
        return  # The first process sets the environment.
    # Programs of another jaxlib are never read.
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
    # torch: the threads of two processes on two cores mostly wait for each other.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    # Most programs are small.
    os.environ |= {
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }
    # Of all rooms' tests alone, since the fixed piece of work takes seconds.
    if config.args_source is pytest.Config.ArgsSource.TESTPATHS:
        config.stash[UNIT] = cost.unit()


def pytest_collection_finish():
    cost.count_programs()
    # What the modules hold stays; JAX's traces make many objects, few in circles.
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    item.stash[STARTED] = cost.cpu_seconds()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if call.when == "teardown":
        seconds = cost.cpu_seconds() - item.stash[STARTED]
        report.user_properties.append(("cpu_seconds", seconds))
    return report


def pytest_runtest_logreport(report):
    seconds = dict(report.user_properties).get("cpu_seconds")
    if seconds is not None:
        took[report.nodeid] = seconds


def pytest_sessionfinish(session):
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["programs"] = cost.programs()
    # pytest collects garbage five times, JAX's caches included.
    gc.collect()
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    compiled.append(getattr(node, "workeroutput", {}).get("programs", 0))


def pytest_terminal_summary(terminalreporter, config):
    if UNIT in config.stash:
        number = cost.programs() + sum(compiled)
        terminalreporter.write_line(cost.report(took, number, config.stash[UNIT]))


def pytest_collection_modifyitems(config, items):
    # First, because otherwise a process would wait for another at the end.
    items.sort(key=lambda item: item.path.name not in LONGEST)
    named = any("::" in argument for argument in config.args)
    if not config.getoption("all") and not named:
        slow = [item for item in items if item.get_closest_marker("slow")]
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if item not in set(slow)]
