"""What `accelerator.py` prints and writes: programs beside a forward pass."""

import json
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

from absl import app

from accelerators.compiling import Compiled
from accelerators.targets import Target

# A kernel takes no less than this, because the next one is not started faster.
_LAUNCH = 2e-6

Row = dict[str, Any]


def row(name: str, compiled: Compiled, measured: float | None = None) -> Row:
    """What is known of a program, for JSON."""
    cost = compiled.cost
    return {
        "program": name,
        "seconds": cost.seconds,
        "measured_seconds": measured,
        "bound": cost.bound,
        "cycles": cost.cycles,
        "kernel_seconds": cost.seconds_of("estimated") + cost.seconds_of("bytes"),
        "launched_seconds": sum(
            max(one.seconds, _LAUNCH) * one.times
            for one in cost.kernels
            if one.what != "copy-start"
        ),
        "bytes": cost.num_bytes,
        "bytes_once_by_xla": compiled.once_bytes,
        "temporary_bytes": compiled.temporary_bytes,
        "launches": cost.launches,
        "compile_seconds": compiled.seconds,
    }


def with_preparation(step: Row, prepared: Row) -> Row:
    """A step's row with the time of what is done once before it."""
    return step | {
        "prepare_seconds": prepared["seconds"],
        "measured_prepare_seconds": prepared["measured_seconds"],
    }


def with_best(found: Row, best: Row | None) -> Row:
    """A row with the best forward pass's time as a share of its own."""
    if best is None:
        return found
    shares = {"of_best": _whole(best, "") / _whole(found, "")}
    if _is_measured(found) and _is_measured(best):
        measured = _whole(best, "measured_") / _whole(found, "measured_")
        shares["measured_of_best"] = measured
    return found | shares


def with_kept(found: Row, before: Sequence[dict[str, Any]]) -> Row:
    """A row with what was measured before, if that was of today's forms."""
    for one in before:
        if "form" not in one:
            return found | {"measured_seconds": one["measured_us"] * 1e-6, "kept": True}
    return found


def in_other_forms(before: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Lines that say what was measured of a program in forms that have names."""
    for one in before:
        if "form" in one:
            yield f"    {one['measured_us']:9,} us measured in the form {one['form']!r}"


def times(found: Row, factor: float) -> Row:
    """The row of a program that runs `factor` times, to be compared with."""
    scaled = {
        name: value * factor
        for name, value in found.items()
        if name.endswith(("seconds", "cycles")) or name.startswith("bytes")
        if value is not None
    }
    return found | scaled


def heading(target: Target, measured: bool) -> str:
    """The first line of a table."""
    gpu = target.platform == "cuda"
    beside = (
        f"{'adds us':>10}{'of all':>8}{'of kernels':>12}" if gpu else f"{'ratio':>7}"
    )
    cycles = "" if gpu else f"{'Mcycles':>9}"
    truth = ""
    if measured:
        truth = (
            f"{'measured':>11}{'of est.':>8}{'adds us':>10}{'of est.':>8}{'of all':>8}"
        )
    return (
        f"{'program':24}{'us':>9}{cycles}{beside}{'of best':>8}{truth}"
        f"{'prepare':>9}{'GB':>7}{'times':>6}{'MiB':>7}{'times':>6}"
        f"{'kernels':>9}{'launched':>10}{'compile s':>10}"
    )


def line(found: Row, beside: Row | None, target: Target, measured: bool = False) -> str:
    """A line of the table: a program beside another, or nothing."""
    gpu = target.platform == "cuda"
    cells = [f"{found['program']:24}{found['seconds'] * 1e6:9,.0f}"]
    if not gpu:
        cells.append(f"{found['cycles'] / 1e6:9.2f}")
    cells.append(_estimate(found, beside, gpu))
    cells.append(f"{found['of_best']:8.3f}" if "of_best" in found else " " * 8)
    if measured:
        cells.append(_truth(found, beside))
    prepare = found.get("prepare_seconds")
    cells.append(f"{'' if prepare is None else format(prepare * 1e6, ',.0f'):>9}")
    cells.append(f"{_moved(found) / 1e9:7.2f}")
    cells.append(_ratio(_moved(found), beside and _moved(beside)))
    cells.append(f"{found['temporary_bytes'] / 2**20:7,.0f}")
    cells.append(_ratio(found["temporary_bytes"], beside and beside["temporary_bytes"]))
    cells.append(
        f"{found['launches']:9,}{found['launched_seconds'] * 1e6:10,.0f}"
        f"{found['compile_seconds']:10.1f}"
    )
    if found["bound"] == "bytes":
        cells.append("  bound by its bytes")
    return "".join(cells)


def read(path: str) -> dict[str, Any]:
    """An earlier run's JSON."""
    try:
        document = json.loads(pathlib.Path(path).read_text())
        _estimates(document)
    except OSError as error:
        raise app.UsageError(f"--compare: {path}: {error}") from error
    except (KeyError, TypeError, ValueError) as error:
        raise app.UsageError(
            f"--compare: {path} is not what this script writes: {error!r}"
        ) from error
    return document


def compared(now: dict[str, Any], before: dict[str, Any]) -> Iterator[str]:
    """Lines that say how each program's estimate and bytes have changed."""
    earlier = _estimates(before)
    both = {key: row for key, row in _estimates(now).items() if key in earlier}
    yield f"{'as a share of the earlier run':60}{'time':>7}{'bytes':>7}"
    for key, (time, moved) in both.items():
        old_time, old_moved = earlier[key]
        name = ", ".join(key[1:])
        yield f"{name:60}{time / old_time:7.2f}{moved / old_moved:7.2f}"
    if not both:
        yield "nothing: no program was compiled for the same target and size"


def _estimate(found: Row, beside: Row | None, gpu: bool) -> str:
    """How a program's estimate compares with the other's."""
    if beside is None:
        return " " * (30 if gpu else 7)
    whole = _whole(found, "")
    if not gpu:
        return f"{beside['seconds'] / whole:7.3f}"
    adds = whole - beside["seconds"]
    return (
        f"{adds * 1e6:10,.0f}{adds / beside['seconds']:8.1%}"
        f"{adds / beside['kernel_seconds']:12.1%}"
    )


def _truth(found: Row, beside: Row | None) -> str:
    """What was measured, and how far the estimate was off."""
    if not _is_measured(found):
        return " " * 45
    truth, estimate = _whole(found, "measured_"), _whole(found, "")
    cells = f"{truth * 1e6:11,.0f}{truth / estimate:8.2f}"
    if beside is None or not _is_measured(beside):
        return cells + " " * 26
    adds = truth - beside["measured_seconds"]
    estimate -= beside["seconds"]
    off = f"{adds / estimate:8.2f}" if estimate > 0 else " " * 8
    return cells + f"{adds * 1e6:10,.0f}{off}{adds / beside['measured_seconds']:8.1%}"


def _is_measured(found: Row) -> bool:
    return found["measured_seconds"] is not None


def _whole(found: Row, which: str) -> float:
    """The time estimated, or measured, with that of the preparation."""
    return found[f"{which}seconds"] + (found.get(f"{which}prepare_seconds") or 0.0)


def _ratio(one: float, other: float | None) -> str:
    return f"{one / other:6.2f}" if other else " " * 6


def _estimates(document: dict[str, Any]) -> dict[tuple[str, ...], tuple[float, float]]:
    """Time with preparation, and bytes, of each program of a target."""
    found = {}
    for result in document["results"]:
        where = (document["target"], result["network"], result["what"], result["size"])
        for one in result["programs"]:
            found[*where, one["program"]] = _whole(one, ""), _moved(one)
    return found


def _moved(found: Row) -> float:
    """Bytes, the larger of the two counts: XLA's has no loops, but memory on chip."""
    return max(found["bytes"], found["bytes_once_by_xla"] or 0.0)
