"""The scripts' start, and the flags that all of them have."""

from collections.abc import Sequence

import jax
from absl import app, flags, logging

from common import hosts

_COMPILATION_CACHE = flags.DEFINE_string(
    "compilation_cache",
    None,
    "Folder where compiled programs are kept, so that later runs start faster.",
)


def start(argv: Sequence[str]) -> None:
    """Rejects arguments that are not flags, and applies the shared flags."""
    if len(argv) > 1:
        raise app.UsageError(f"unknown arguments: {argv[1:]}")
    logging.set_verbosity(logging.WARNING)
    hosts.join()
    if _COMPILATION_CACHE.value is not None:
        jax.config.update("jax_compilation_cache_dir", _COMPILATION_CACHE.value)
        # Hundreds of small programs take most of the time, each less than a second.
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
