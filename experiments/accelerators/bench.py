"""Programs compiled, and perhaps run, and the lines of the tables that they make."""

import json
import pathlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from absl import app
from jax.sharding import Mesh

from accelerators import compiling, measured, programs, targets
from jaxrob.alterations import Alteration

# A kernel takes no less than this, because the next one is not started faster.
_LAUNCH = 2e-6

Row = dict[str, Any]


class Bench(NamedTuple):
    """Where programs are compiled for a network, and perhaps run."""

    target: targets.Target
    mesh: Mesh
    network_name: str
    network: programs.Network
    alterations: Mapping[str, Alteration]
    measure: bool
    kept: measured.Figures | None = None  # what such a device was measured to do
    kind: str = "steps"  # of `KINDS`

    def table(self, kind: str) -> list[Row]:
        """Prints the table of one of `KINDS`, and returns its rows and more."""
        print(_heading(self.target, self.has_measured()))
        return list(_TABLES[kind](self._replace(kind=kind)))

    def has_measured(self) -> bool:
        """Whether the table has columns for what was measured, now or before."""
        return self.measure or self.kept is not None

    def row(self, program: programs.Program, prepared: Any = None) -> Row:
        """What is known of a program, and of its run if what was prepared is given."""
        return self._row(program, self._compiled(program), prepared)

    def preparation(self, alteration: Alteration) -> tuple[Row, Any]:
        """What is known of a preparation, and what it gives if it is run."""
        program = programs.preparation(self.network, alteration, self.mesh)
        compiled, prepared = self._compiled(program), None
        if self.measure:
            prepared = compiled.executable(*compiling.arguments(program))
        return self._row(program, compiled), prepared

    def _compiled(self, program: programs.Program) -> compiling.Compiled:
        return compiling.compile_for(program, self.target, self.mesh)

    def _row(
        self,
        program: programs.Program,
        compiled: compiling.Compiled,
        prepared: Any = None,
    ) -> Row:
        seconds = None
        if self.measure:
            seconds = compiling.seconds(program, compiled.executable, prepared)
        return _row(program.name, compiled, seconds)

    def shown(
        self, found: Row, beside: Row | None = None, best: Row | None = None
    ) -> Row:
        """Prints a row beside a forward pass and the best one, and returns it."""
        before = []
        if not self.measure:
            where = self.network_name, self.kind, self.network.size
            before = list(measured.of_program(self.kept, *where, found["program"]))
        for one in before:
            if "form" not in one:
                now = {"measured_seconds": one["measured_us"] * 1e-6, "kept": True}
                found = found | now
                break
        found = _with_best(found, best)
        print(_line(found, beside, self.target, self.has_measured()), flush=True)
        for one in before:
            if "form" in one:
                known = f"measured in the form {one['form']!r}"
                print(f"    {one['measured_us']:9,} us {known}")
        return found

    def forward(self) -> Row:
        """The forward pass over as many images as a step has."""
        network = self.network
        return self.row(programs.forward(network, network.rows, self.mesh))

    def best_forward(self, at_once: Row) -> Row:
        """The fastest forward pass over a step's images, in batches of any size."""
        # A TPU may take batches in turn whose arrays stay on the chip.
        best = at_once | {"batch": self.network.rows}
        if self.target.platform == "tpu":
            first = self._in_batches(programs.usual_rows(self.network, self.mesh))
            for factor in (0.5, 2):
                best = min(best, self._as_long_as_faster(first, factor), key=_truest)
        best = best | {"program": "best forward"}
        print(f"    the best forward pass takes {best['batch']:,} images at a time")
        return self.shown(best)

    def _as_long_as_faster(self, best: Row, factor: float) -> Row:
        """The fastest of batches that grow or shrink by a factor."""
        while 1 <= (number := int(best["batch"] * factor)) < self.network.rows:
            if _truest(other := self._in_batches(number)) >= _truest(best):
                break
            best = other
        return best

    def _in_batches(self, number: int) -> Row:
        """The forward pass over the images of a step, so many at a time."""
        one = self.row(programs.forward(self.network, number, self.mesh))
        return _times(one, self.network.rows / number) | {"batch": number}

    def step(self, name: str) -> Iterator[Row]:
        """The preparation's row, and the step's."""
        alteration = self.alterations[name]
        before, prepared = self.preparation(alteration)
        yield before
        program = programs.step(self.network, alteration, self.mesh)
        # Those of one effect in other units are called the same.
        program = program._replace(name=name.replace("_", " "))
        yield self.row(program, prepared) | {
            "prepare_seconds": before["seconds"],
            "measured_prepare_seconds": before["measured_seconds"],
        }


def _truest(found: Row) -> float:
    return found["measured_seconds"] or found["seconds"]


def _steps(bench: Bench) -> Iterator[Row]:
    yield (forward := bench.shown(bench.forward()))
    yield (best := bench.best_forward(forward))
    for name in bench.alterations:
        prepared, step = bench.step(name)
        yield from (prepared, bench.shown(step, forward, best))


def _alter(bench: Bench) -> Iterator[Row]:
    once = bench.row(programs.read_and_write(bench.network, bench.mesh))
    yield bench.shown(once)
    bench = bench._replace(network=bench.network.alone())
    for name in bench.alterations:
        prepared, step = bench.step(name)
        yield from (prepared, bench.shown(step, once))
        whole = step["seconds"] + step["prepare_seconds"]
        print(f"    {whole / once['seconds']:9.1f} times reading and writing once")


_TABLES: dict[str, Callable[[Bench], Iterator[Row]]] = {
    "steps": _steps,
    "alter": _alter,
}

#: The tables that there are.
KINDS = tuple(_TABLES)


def _row(name: str, compiled: compiling.Compiled, measured: float | None = None) -> Row:
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


def _with_best(found: Row, best: Row | None) -> Row:
    if best is None:
        return found
    shares = {"of_best": _whole(best, "") / _whole(found, "")}
    if _is_measured(found) and _is_measured(best):
        measured = _whole(best, "measured_") / _whole(found, "measured_")
        shares["measured_of_best"] = measured
    return found | shares


def _times(found: Row, factor: float) -> Row:
    """The row of a program that runs `factor` times, to be compared with."""
    scaled = {
        name: value * factor
        for name, value in found.items()
        if name.endswith(("seconds", "cycles")) or name.startswith("bytes")
        if value is not None
    }
    return found | scaled


def _heading(target: targets.Target, measured: bool) -> str:
    gpu = target.platform == "cuda"
    columns = [("us", 9)]
    if gpu:
        columns += [("adds us", 10), ("of all", 8), ("of kernels", 12)]
    else:
        columns += [("Mcycles", 9), ("ratio", 7)]
    columns.append(("of best", 8))
    if measured:
        columns += [("measured", 11), ("of est.", 8), ("adds us", 10)]
        columns += [("of est.", 8), ("of all", 8)]
    columns += [("prepare", 9), ("GB", 7), ("times", 6), ("MiB", 7), ("times", 6)]
    columns += [("kernels", 9), ("launched", 10), ("compile s", 10)]
    return f"{'program':24}" + "".join(f"{name:>{width}}" for name, width in columns)


def _line(
    found: Row, beside: Row | None, target: targets.Target, measured: bool = False
) -> str:
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
