"""Programs that one process has compiled serve the others, and the scripts they run."""

import os
import tempfile


def pytest_configure(config):
    if hasattr(config, "workerinput"):
        return  # The environment is the first process's.
    folder = tempfile.TemporaryDirectory(prefix="jaxrob-programs-")
    config.add_cleanup(folder.cleanup)
    # Read when JAX is imported. Small programs are most of them.
    os.environ |= {
        "JAX_COMPILATION_CACHE_DIR": folder.name,
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }
