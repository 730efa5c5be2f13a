"""Makes room for compiled programs in a process that compiles many."""

import pathlib
import time

import jax

# A compiled program takes tens of memory maps on a CPU. Linux allows a process 65,530,
# and ends it when XLA asks for more: after a few hundred classifiers, for instance.
_MAPS = pathlib.Path("/proc/self/maps")
_LIMIT = pathlib.Path("/proc/sys/vm/max_map_count")
_LARGEST_SHARE = 0.4
# Counting takes up to 30 ms, and no process can fill the rest within a second.
_SECONDS = 1.0
_counted_at = -_SECONDS


def make_room() -> None:
    """Drops all compiled programs if the process holds many memory maps."""
    # The next call of a program recompiles it. It does nothing except on Linux.
    global _counted_at
    if time.monotonic() - _counted_at < _SECONDS:
        return
    _counted_at = time.monotonic()
    try:
        with _MAPS.open("rb") as maps:
            number = sum(1 for _ in maps)
        limit = int(_LIMIT.read_text())
    except OSError:
        return
    if number > _LARGEST_SHARE * limit:
        jax.clear_caches()
