"""Compiled programs, kept for later runs in the user's cache folder."""

import os
import pathlib
import warnings
from typing import Any

import jax
import jaxlib.version
from jax.experimental.compilation_cache import compilation_cache

from jaxrob._command.ending import say

# Of all programs that are kept: tens of kilobytes each on a CPU.
_MOST_BYTES = 2**30
# What JAX warns of then.
_UNREAD = "Error reading persistent compilation cache"
_UNWRITTEN = "Error writing persistent compilation cache"


def keep_programs(wanted: str | None = None) -> None:
    """Keeps programs in a folder: by default the user's own; none if "false"."""
    if wanted == "false":
        return
    if wanted in (None, "true"):
        if _in_use() is not None or "JAX_COMPILATION_CACHE_DIR" in os.environ:
            return
        try:
            wanted = str(_own_folder())
        except (OSError, RuntimeError):  # Not there, and not to be made; no home.
            return
    jax.config.update("jax_compilation_cache_dir", wanted)
    # Compilation time is mostly dozens of small programs of less than a second each.
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    warnings.filterwarnings("ignore", _UNWRITTEN)
    shown = warnings.showwarning

    def show(message: Any, *about: Any, **more: Any) -> None:
        if not str(message).startswith(_UNREAD):
            shown(message, *about, **more)
        elif _in_use() is not None:
            jax.config.update("jax_compilation_cache_dir", None)
            compilation_cache.reset_cache()
            say(
                "warning: a program that an earlier run compiled cannot be loaded, so "
                f"all are compiled again: delete {wanted}, or pass "
                "--nocompilation_cache"
            )

    warnings.showwarning = show


def _in_use() -> str | None:
    return getattr(jax.config, "jax_compilation_cache_dir", None)


def _own_folder() -> pathlib.Path:
    """Makes the folder of this jaxlib's programs, and drops the longest unused."""
    # A newer jaxlib's may end the process. Who can write there can have code run.
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    parent = pathlib.Path(base).expanduser() / "jaxrob"
    folder = parent / f"jaxlib-{jaxlib.version.__version__}"
    for one in (parent, folder):
        one.mkdir(0o700, parents=True, exist_ok=True)
        about = one.stat()
        if os.name == "posix" and (about.st_uid != os.getuid() or about.st_mode & 0o22):
            raise PermissionError(f"{one} may be written by others")
    entries = [(one, one.stat()) for one in parent.glob("*/*") if one.is_file()]
    entries.sort(key=lambda entry: max(entry[1].st_atime, entry[1].st_mtime))
    excess = sum(about.st_size for _, about in entries) - _MOST_BYTES
    for one, about in entries:
        if excess <= 0:
            break
        one.unlink(missing_ok=True)
        excess -= about.st_size
    return folder
