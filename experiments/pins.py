"""Keeps the results of calls of the whole package, to compare them after a refactoring.

    python pins.py --keep=/tmp/before.json       # on the code before
    python pins.py --compare=/tmp/before.json    # on the code after

Numbers and arrays are kept to the bit, documents as parsed values, warnings and reports
as text, results by their public names. Differences are printed by case and path. The
file is valid for one machine, one set of versions and one way to compile.
"""

import fnmatch
import time
from collections.abc import Sequence

import jax
import matplotlib
from absl import app, flags
from common import startup
from pinned import kept
from pinned.differences import Intended, compared, report

_KEEP = flags.DEFINE_string("keep", None, "File to be written.")
_COMPARE = flags.DEFINE_string("compare", None, "File that was kept before.")
_ONLY = flags.DEFINE_string("only", "*", 'Cases whose names fit, as "probable.*".')
_MOST = flags.DEFINE_integer("most", 10, "Differences printed of a case.", 1)

#: Intended differences from the file: patterns of cases and of paths within them, and
#: the reason. An entry that covers nothing is reported.
INTENDED: tuple[Intended, ...] = ()


def main(argv: Sequence[str]) -> int | None:
    """Keeps or compares; exits with status 1 on a difference that is not intended."""
    startup.start(argv)
    if (_KEEP.value is None) == (_COMPARE.value is None):
        raise app.UsageError("give either --keep or --compare")
    cases = kept.cases(_ONLY.value)
    if not cases:
        raise app.UsageError(f"--only: no case fits {_ONLY.value!r}")
    matplotlib.use("Agg")
    # Most of the time is compilation, and less fusion makes rounding more stable.
    jax.config.update("jax_disable_most_optimizations", True)
    before = {} if _COMPARE.value is None else kept.read(_COMPARE.value)
    now, start = {}, time.perf_counter()
    for name, case in cases.items():
        begun = time.perf_counter()
        now[name] = kept.result(case)
        print(f"{name}: {time.perf_counter() - begun:.1f} s", flush=True)
    print(f"{len(now)} cases in {time.perf_counter() - start:.0f} s")
    failed = [name for name, one in now.items() if kept.RAISED in one]
    if _KEEP.value is not None:
        kept.write(_KEEP.value, {name: now[name] for name in now if name not in failed})
        print(f"not kept, since they fail: {', '.join(failed)}" if failed else "kept")
        return 1 if failed else None
    asked = {
        name: one
        for name, one in before.items()
        if fnmatch.fnmatchcase(name, _ONLY.value)
    }
    verdict = compared(asked, now, INTENDED)
    if _ONLY.value != "*":  # An entry may cover cases that were not run.
        verdict = verdict._replace(unused=[])
    print(report(verdict, _MOST.value))
    return 1 if verdict.found or verdict.unused else None


if __name__ == "__main__":
    app.run(main)
