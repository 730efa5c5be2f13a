"""Room for compiled programs in a process that compiles many."""

import pathlib

import jax

# A compiled program takes tens of memory maps on a CPU. Linux allows a process 65,530,
# and ends it when XLA asks for more: after a few hundred classifiers, for instance.
_MAPS = pathlib.Path("/proc/self/maps")
_LIMIT = pathlib.Path("/proc/sys/vm/max_map_count")
_LARGEST_SHARE = 0.4


def make_room() -> None:
    """Drops all compiled programs where the process holds many memory maps.

    They are compiled anew when they are called next. Elsewhere than on Linux it does
    nothing.
    """
    try:
        with _MAPS.open("rb") as maps:
            number = sum(1 for _ in maps)
        limit = int(_LIMIT.read_text())
    except OSError:
        return
    if number > _LARGEST_SHARE * limit:
        jax.clear_caches()
