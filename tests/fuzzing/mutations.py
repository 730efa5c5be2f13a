"""How readers are tried: mutated files, and little memory and time."""

import contextlib
import copy
import pathlib
import resource
import signal
from collections.abc import Callable
from typing import Any, NamedTuple

EXTREMES = (0, 1, 2**7 - 1, 2**8 - 1, 2**15, 2**16 - 1, 2**31 - 1, 2**32 - 1, 2**63)
ODD_VALUES = (
    *(None, True, False, "", "x", [], {}, [[]], {"x": 1}, 0, 1, -1, 0.5, 2, 2**31),
    *(2**63, 10**30, -(10**400), 1e308, -0.0, "1", "NaN", "é\ud800", "x" * 5000, [0]),
    *("float32", "object", "|O", "<f8", ">f4", "<U5", "<M8[s]", "int16", "V4"),
)


class Seed(NamedTuple):
    """A file to begin with: bytes, or a value of JSON."""

    content: Any
    # From mutated content to a whole file, with checksums that fit.
    wrap: Callable[[Any], bytes] = bytes
    # Whether checksums guard all that matters: then what is read is what was written.
    is_protected: bool = False


class Target(NamedTuple):
    """A reader of paths; `check` raises if what it read is not valid."""

    seeds: list[Seed]
    read: Callable[[pathlib.Path], Any]
    check: Callable[[Any], None]
    same: Callable[[Any, Any], bool] = lambda one, other: True
    # Whether errors name the file.
    names_file: bool = True


def mutated(content, rng):
    """One to three changes, of bytes or of a value of JSON."""
    change = _mutated_bytes if isinstance(content, bytes) else _mutated_json
    if not isinstance(content, bytes):
        content = copy.deepcopy(content)
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        content = change(content, rng)
    return content


def _mutated_bytes(data, rng):
    if not data:
        return rng.randbytes(rng.randrange(40))
    size = len(data)
    at, to = sorted((rng.randrange(size), rng.randrange(size)))
    what = rng.randrange(10)
    if what <= 2:  # a flipped bit
        return data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :]
    if what == 3:
        return data[: rng.randrange(size)]
    if what <= 5:  # a field of a size, at an extreme
        width, order = rng.choice([1, 2, 4, 8]), rng.choice(["big", "little"])
        field = (rng.choice(EXTREMES) % 256**width).to_bytes(width, order)
        place = rng.choice([at, rng.randrange(min(64, size))])
        return data[:place] + field + data[place + width :]
    if what == 6:  # a part twice, or elsewhere
        return data[:at] + data[at:to] + data[at:]
    if what == 7:
        middle = (at + to) // 2
        return data[:at] + data[middle:to] + data[at:middle] + data[to:]
    if what == 8:
        return data[:at] + data[to:]
    return data[:at] + rng.randbytes(rng.randrange(1, 20)) + data[to:]


def _mutated_json(value, rng):
    places = list(_places(value))
    if not places:
        return copy.deepcopy(rng.choice(ODD_VALUES))
    parent, key = rng.choice(places)
    what = rng.randrange(6)
    if what <= 2:
        parent[key] = copy.deepcopy(rng.choice(ODD_VALUES))
    elif what == 3:
        del parent[key]
    elif what == 4:
        other, place = rng.choice(places)
        parent[key] = copy.deepcopy(other[place])
    elif isinstance(parent, list):
        parent.insert(key, copy.deepcopy(parent[key]))
    elif isinstance(parent[key], int | float):
        parent[key] *= rng.choice([-1, 1.001, 2, 10**6])
    else:
        parent[f"{key}x"] = parent.pop(key)
    return value


def _places(value):
    """Every entry, as the object or list that holds it and its key."""
    entries = ()
    if isinstance(value, dict):
        entries = value.items()
    elif isinstance(value, list):
        entries = enumerate(value)
    for key, entry in list(entries):
        yield value, key
        yield from _places(entry)


# What a reader may take above what the process has.
ROOM = 700 << 20
# Milliseconds are enough, but other processes may keep all cores.
SECONDS = 120


class Hang(BaseException):
    """Something took too long."""


@contextlib.contextmanager
def limited():
    """Limits the memory that the process may allocate, and the time."""
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[0])
    _, most = before = resource.getrlimit(resource.RLIMIT_AS)
    handler = signal.signal(signal.SIGALRM, _stop)
    resource.setrlimit(
        resource.RLIMIT_AS, (pages * resource.getpagesize() + ROOM, most)
    )
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        resource.setrlimit(resource.RLIMIT_AS, before)
        signal.signal(signal.SIGALRM, handler)


def ran_out(error):
    while error is not None:
        if isinstance(error, MemoryError):
            return True
        error = error.__cause__ or error.__context__
    return False


def _stop(*_):
    raise Hang(f"more than {SECONDS} s")
