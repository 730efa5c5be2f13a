"""The files that the scripts write, and read again in later runs.

On several hosts only the first process writes, and broadcasts what it reads.
"""

import atexit
import json
import math
import pathlib
import re
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import jaxrob
from common import hosts


def output_folder(folder: str) -> pathlib.Path:
    """Makes the folder for results; in other processes a temporary one."""
    if not hosts.is_first():
        scratch = tempfile.TemporaryDirectory()
        atexit.register(scratch.cleanup)
        folder = scratch.name
    path = pathlib.Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    return path


def write_json(path: pathlib.Path, document: Any) -> None:
    text = json.dumps(document, indent=1, default=lambda array: array.tolist())
    path.write_text(text)


def save(folder: str, name: str, document: Any) -> None:
    """Writes a script's result into the folder that its flag names, and says where."""
    path = output_folder(folder) / name
    write_json(path, document)
    print(f"wrote {path}")


def kept(
    path: pathlib.Path, settings: dict[str, Any], measure: Callable[[], dict[str, Any]]
) -> dict[str, Any]:
    """The result of `measure`, from its file if that has the same settings."""
    if (content := read(path)) is not None:
        known = json.loads(content)
        if known["settings"] == settings:
            return known["found"]
    found = measure()
    write(path, json.dumps({"settings": settings, "found": found}).encode())
    return found


def read(path: pathlib.Path) -> bytes | None:
    """Returns the content that the first process reads; None if there is no file."""
    there = hosts.is_first() and path.exists()
    return hosts.from_first(path.read_bytes() if there else None)


def write(path: pathlib.Path, content: bytes) -> None:
    """Writes a file, in the first process; atomically, so never in part."""
    if not hosts.is_first():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(path.name + ".part")
    unfinished.write_bytes(content)
    unfinished.replace(path)


def without_nan(value: Any) -> Any:
    """Replaces NaN and infinity by None, because JSON has neither."""
    if isinstance(value, dict):
        return {name: without_nan(one) for name, one in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [without_nan(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def assessment_name(alteration: str) -> str:
    return re.sub(r"\W+", "_", alteration)


def write_assessments(
    folder: pathlib.Path, assessments: Sequence[jaxrob.Assessment]
) -> None:
    """Writes assessments into an existing folder, a file for each alteration."""
    for one in assessments:
        path = folder / f"{assessment_name(one.alteration)}.json"
        path.write_text(one.to_json())
