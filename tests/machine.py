"""The machine that runs the tests, and the share of it that they take."""

import math
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys

# A process that compiles, including all that it has compiled.
BYTES_A_PROCESS = 3 * 2**30
_CONTROL_GROUPS = pathlib.Path("/sys/fs/cgroup")
_MEMBERSHIP = pathlib.Path("/proc/self/cgroup")


def processes() -> tuple[int, str]:
    """Returns the number of test processes, and the reason in words."""
    allowed, memory = cores(), memory_bytes()
    fitting = max(1, int(memory // BYTES_A_PROCESS))
    number = min(allowed, fitting)
    plural = "es" if number > 1 else ""
    return number, (
        f"{number} process{plural}: {allowed} cores, and {memory / 2**30:.1f} GiB of "
        f"memory for {fitting} of {BYTES_A_PROCESS / 2**30:.0f} GiB"
    )


def cores() -> int:
    number = os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        number = len(os.sched_getaffinity(0))
    shares = [number]
    for quota, period in (*_limits("cpu", "cpu.max"), *_limits_of_version_1()):
        if quota.isdecimal():  # Otherwise "max" or -1.
            shares.append(math.ceil(int(quota) / int(period)))
    return max(1, min(shares))


def memory_bytes() -> int:
    found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for name in ("memory.max", "memory.limit_in_bytes"):
        found += [int(text) for (text,) in _limits("memory", name) if text != "max"]
    # The limit of each process by `ulimit -v`.
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return min(*found, limit) if limit != resource.RLIM_INFINITY else min(found)


def bytes_used() -> int:
    """Returns the memory that this process takes at present; 0 if it is not told."""
    told = pathlib.Path("/proc/self/statm")
    pages = int(told.read_text().split()[1]) if told.exists() else 0
    return pages * resource.getpagesize()


def _limits(controller: str, name: str) -> list[list[str]]:
    """Yields the limits of this process's control group, and of its parents."""
    found = []
    for group in _groups(controller):
        for folder in (group, *group.parents):
            if folder.is_relative_to(_CONTROL_GROUPS) and (folder / name).is_file():
                found.append((folder / name).read_text().split())
    return found


def _limits_of_version_1() -> list[tuple[str, str]]:
    """Returns the quota and the period of processor time, two files in version 1."""
    one, other = (_limits("cpu", f"cpu.cfs_{name}_us") for name in ("quota", "period"))
    return [(quota, period) for (quota,), (period,) in zip(one, other)]


def _groups(controller: str) -> list[pathlib.Path]:
    """Returns folders of this process's control groups, of version 1 and 2."""
    if not _MEMBERSHIP.is_file():
        return []
    found = []
    for line in _MEMBERSHIP.read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers:
            found.append(_CONTROL_GROUPS / path.lstrip("/"))
        elif controller in controllers.split(","):
            found.append(_CONTROL_GROUPS / controller / path.lstrip("/"))
    return found


def known_flags(flags: list[str], kept: pathlib.Path) -> list[str]:
    """Returns those of XLA's flags that this jaxlib supports; kept in a file of it."""
    # An unsupported one ends the process, so a separate process tries them, once.
    asked = " ".join(flags)
    if kept.is_file():
        before, _, answer = kept.read_text().partition("\n")
        if before == asked:
            return answer.split()
    known = list(flags)
    while known:
        done = subprocess.run(
            [sys.executable, "-c", "import jax; jax.devices()"],
            env=os.environ | {"XLA_FLAGS": " ".join(known), "JAX_PLATFORMS": "cpu"},
            capture_output=True,
            text=True,
        )
        if done.returncode == 0:
            break
        named = set(re.findall(r"--\w+", done.stderr))
        left = [flag for flag in known if flag.split("=")[0] not in named]
        if len(left) == len(known):
            return []  # It failed for another reason: nothing to keep.
        known = left
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text(f"{asked}\n{' '.join(known)}")
    return known


def bound_size(folder: pathlib.Path, current: pathlib.Path, most: int) -> None:
    """Removes the oldest files below a folder until they take at most `most` bytes."""
    # Folders beside `current`, of other versions, go first and whole.
    others = [path for path in folder.glob("*") if path.is_dir() and path != current]
    for other in sorted(others, key=lambda path: path.stat().st_mtime):
        if _size(folder) > most:
            shutil.rmtree(other)
    files = [path for path in current.rglob("*") if path.is_file()]
    size = _size(folder)
    for path in sorted(files, key=lambda path: path.stat().st_mtime):
        if size <= most:
            return
        size -= path.stat().st_size
        path.unlink()


def _size(folder: pathlib.Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
