"""Programs compiled, and perhaps run, and the lines of the table that they make."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from jax.sharding import Mesh

from accelerators import compiling, measured, programs, tables, targets
from accelerators.networks import Network
from jaxrob.alterations import Alteration


class Bench(NamedTuple):
    """Where programs are compiled for a network, and perhaps run."""

    target: targets.Target
    mesh: Mesh
    network_name: str
    network: Network
    alterations: Mapping[str, Alteration]
    measure: bool
    kept: measured.Figures | None = None  # what such a device was measured to do
    kind: str = "steps"  # of `KINDS`

    def table(self, kind: str) -> list[tables.Row]:
        """Prints the table of one of `KINDS`, and returns its rows and more."""
        print(tables.heading(self.target, self.has_measured()))
        return list(_TABLES[kind](self._replace(kind=kind)))

    def has_measured(self) -> bool:
        """Whether the table has columns for what was measured, now or before."""
        return self.measure or self.kept is not None

    def row(self, program: programs.Program, prepared: Any = None) -> tables.Row:
        """What is known of a program, and of its run if what was prepared is given."""
        return self._row(program, self._compiled(program), prepared)

    def preparation(self, alteration: Alteration) -> tuple[tables.Row, Any]:
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
    ) -> tables.Row:
        seconds = None
        if self.measure:
            seconds = compiling.seconds(program, compiled.executable, prepared)
        return tables.row(program.name, compiled, seconds)

    def shown(
        self,
        found: tables.Row,
        beside: tables.Row | None = None,
        best: tables.Row | None = None,
    ) -> tables.Row:
        """Prints a row beside a forward pass and the best one, and returns it."""
        before = []
        if not self.measure:
            where = self.network_name, self.kind, self.network.size
            before = list(measured.of_program(self.kept, *where, found["program"]))
        found = tables.with_best(tables.with_kept(found, before), best)
        print(tables.line(found, beside, self.target, self.has_measured()), flush=True)
        for line in tables.in_other_forms(before):
            print(line)
        return found

    def forward(self) -> tables.Row:
        """The forward pass over as many images as a step has."""
        network = self.network
        return self.row(programs.forward(network, network.rows, self.mesh))

    def best_forward(self, at_once: tables.Row) -> tables.Row:
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

    def _as_long_as_faster(self, best: tables.Row, factor: float) -> tables.Row:
        """The fastest of batches that grow or shrink by a factor."""
        while 1 <= (number := int(best["batch"] * factor)) < self.network.rows:
            if _truest(other := self._in_batches(number)) >= _truest(best):
                break
            best = other
        return best

    def _in_batches(self, number: int) -> tables.Row:
        """The forward pass over the images of a step, so many at a time."""
        one = self.row(programs.forward(self.network, number, self.mesh))
        return tables.times(one, self.network.rows / number) | {"batch": number}

    def step(self, name: str) -> Iterator[tables.Row]:
        """The preparation's row, and the step's."""
        alteration = self.alterations[name]
        before, prepared = self.preparation(alteration)
        yield before
        program = programs.step(self.network, alteration, self.mesh)
        # Those of one effect in other units are called the same.
        program = program._replace(name=name.replace("_", " "))
        yield tables.with_preparation(self.row(program, prepared), before)


def _truest(found: tables.Row) -> float:
    """The time measured, or else the estimate."""
    return found["measured_seconds"] or found["seconds"]


def _steps(bench: Bench) -> Iterator[tables.Row]:
    yield (forward := bench.shown(bench.forward()))
    yield (best := bench.best_forward(forward))
    for name in bench.alterations:
        prepared, step = bench.step(name)
        yield from (prepared, bench.shown(step, forward, best))


def _alter(bench: Bench) -> Iterator[tables.Row]:
    once = bench.row(programs.read_and_write(bench.network, bench.mesh))
    yield bench.shown(once)
    bench = bench._replace(network=bench.network.alone())
    for name in bench.alterations:
        prepared, step = bench.step(name)
        yield from (prepared, bench.shown(step, once))
        whole = step["seconds"] + step["prepare_seconds"]
        print(f"    {whole / once['seconds']:9.1f} times reading and writing once")


_TABLES: dict[str, Callable[[Bench], Iterator[tables.Row]]] = {
    "steps": _steps,
    "alter": _alter,
}

#: The tables that there are.
KINDS = tuple(_TABLES)
