"""Tasks done as long as there is time, and the file of what they found.

A machine with a GPU is lent for minutes, and a call may be cut off. So the file is
written after every task, a task that fails does not end the run, and the same command
goes on where an earlier one ended.
"""

import json
import pathlib
import time
import traceback
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from absl import app
from common import files

# Seconds that a part may take whatever its programs.
_FIXED = 20.0

Rows = dict[str, dict[str, Any]]
# What is printed of a row, and what is kept.
Found = tuple[str, dict[str, Any]]


class Task(NamedTuple):
    """One row of a part."""

    name: str  # the row's, in its part
    programs: int  # how many it compiles, about: the measure of its time
    # Returns what is printed and what is kept, from the part's rows so far.
    run: Callable[[Rows], Found]


def opened(path: pathlib.Path, about: Mapping[str, Any]) -> dict[str, Any]:
    """An earlier call's document, which must be of the same machine, or a new one."""
    if not path.exists():
        return {"about": dict(about), "parts": {}}
    document = json.loads(path.read_text())
    if document["about"] != about:
        raise app.UsageError(
            f"{path} is of {document['about']}, and this would be of {dict(about)}: "
            "name another folder with --output"
        )
    return document


def work(
    parts: Mapping[str, Iterable[Task]],
    document: dict[str, Any],
    path: pathlib.Path,
    seconds: float,
    pace: float,
) -> bool:
    """Does tasks that the document lacks or that failed; returns whether none did."""
    start = time.monotonic()
    spent, programs, failed = min(pace, 2.0), 1, 0
    for part, given in parts.items():
        tasks = list(given)
        rows = document["parts"].setdefault(part, {})
        wanted = [one for one in tasks if "failed" in rows.get(one.name, {"failed": 0})]
        # A part that takes far longer than it should leaves the others their time.
        limit = _FIXED + pace * sum(one.programs for one in wanted)
        begun, left_out = time.monotonic(), []
        number = f"{len(wanted)} of {len(tasks)} rows to do"
        print(f"\n{part}: {number}, at most {min(limit, seconds):.0f} s", flush=True)
        for task in wanted:
            now = time.monotonic()
            left = min(start + seconds, begun + limit) - now
            if left < max(task.programs, 1) * spent / programs:
                left_out.append(task.name)
                continue
            try:
                words, row = task.run(rows)
            except Exception as error:
                words = f"FAILED: {type(error).__name__}: {error}".split("\n")[0]
                row = {"failed": traceback.format_exc()}
                failed += 1
            took = time.monotonic() - now
            spent, programs = spent + took, programs + task.programs
            rows[task.name] = row | {"took_seconds": round(took, 1)}
            files.write(path, json.dumps(document, indent=1).encode())
            print(f"  {task.name:44}{words}  [{took:.1f} s]", flush=True)
        if left_out:
            print(
                f"  the time is over: {len(left_out)} rows left out, from "
                f"{left_out[0]!r} on; the same command goes on with them"
            )
    print(
        f"\n{time.monotonic() - start:.0f} s; "
        + (f"{failed} rows FAILED, see {path}" if failed else f"kept in {path}")
    )
    return not failed
