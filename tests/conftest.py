"""How the tests share the time: what is compiled, and which files come first.

Programs that one process has compiled serve the others, and the scripts they run. The
folder that JAX_COMPILATION_CACHE_DIR names keeps them for the next run.

Most of the time is compilation. XLA's optimisations are left out, which saves a third
of it, and its slower ways of emitting code, which saves up to half of the rest;
JAX_DISABLE_MOST_OPTIMIZATIONS=0 brings both back, as `.ci/run` does for the tests of
pixels and outputs.
"""

import os
import pathlib
import tempfile

import pytest

# Minutes each, of processes of their own.
LONGEST = ("test_scripts.py", "test_devices.py")

# Neither fused loops through MLIR nor 32 modules a program, for as many cores; where a
# test has optimisations, the first of three levels, whose programs are about as fast.
QUICK_TO_COMPILE = (
    "--xla_backend_optimization_level=1 --xla_cpu_use_fusion_emitters=false "
    "--xla_cpu_parallel_codegen_split_count=1"
)


def pytest_addoption(parser):
    parser.addoption(
        "--cases",
        type=int,
        default=300,
        help="Random cases of each property test; thousands take minutes.",
    )
    parser.addoption(
        "--reference",
        help="ImageNet-C/create_c of github.com/hendrycks/robustness at 8190fe3, with "
        "which the common corruptions are compared; without it these tests skip.",
    )


@pytest.fixture(autouse=True, scope="module")
def room_for_programs():
    """Most tests compile without an assessment, which would make room itself."""
    from jaxrob._runtime.memory_maps import make_room  # JAX reads what is set below.

    make_room()


@pytest.fixture
def optimised():
    """XLA's optimisations, where computing takes longer than compiling."""
    import jax

    before = jax.config.values["jax_disable_most_optimizations"]
    jax.config.update("jax_disable_most_optimizations", False)
    yield
    jax.config.update("jax_disable_most_optimizations", before)


@pytest.fixture(scope="session")
def reference(pytestconfig):
    """The folder of the benchmark's own code."""
    folder = pytestconfig.getoption("reference")
    if folder is None:
        pytest.skip(
            "needs --reference=FOLDER, ImageNet-C/create_c of hendrycks/robustness"
        )
    return pathlib.Path(folder)


@pytest.fixture
def cases(pytestconfig):
    """How many random cases a test tries."""
    return pytestconfig.getoption("cases")


def pytest_configure(config):
    if hasattr(config, "workerinput"):
        return  # The environment is the first process's.
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        folder = tempfile.TemporaryDirectory(prefix="jaxrob-programs-")
        config.add_cleanup(folder.cleanup)
        os.environ["JAX_COMPILATION_CACHE_DIR"] = folder.name
    # Read when JAX is imported.
    if os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1") == "1":
        given = os.environ.get("XLA_FLAGS", "")
        os.environ["XLA_FLAGS"] = f"{QUICK_TO_COMPILE} {given}".strip()
    # Of torch: threads of two processes on two cores mostly wait for each other.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    # Small programs are most of them.
    os.environ |= {
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }


def pytest_collection_modifyitems(items):
    # First, or one of the two processes would wait for the other at the end.
    items.sort(key=lambda item: item.path.name not in LONGEST)
