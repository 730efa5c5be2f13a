"""Programs compiled, and perhaps run, and the lines of the table that they make."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from jax.sharding import Mesh

from accelerators import (
    compiling,
    measured,
    measuring,
    others,
    programs,
    tables,
    targets,
)
from accelerators.networks import Network
from jaxrob.alterations import Alteration

_SAMPLES = 10


class Bench(NamedTuple):
    """Where programs are compiled for a network.

    Attributes:
      target: what for.
      mesh: its devices.
      network_name: the network's name.
      network: the network, and the size of a step.
      alterations: by the names that lines show.
      measure: whether programs are run, too.
      lines: lines of code shown of each program.
      kept: what was measured on such a device before; None: nothing.
      kind: which of `KINDS` is printed.
    """

    target: targets.Target
    mesh: Mesh
    network_name: str
    network: Network
    alterations: Mapping[str, Alteration]
    measure: bool
    lines: int
    kept: measured.Figures | None = None
    kind: str = "steps"

    def table(self, kind: str) -> list[tables.Row]:
        """Prints the table of one of `KINDS`, and returns its rows and more."""
        print(tables.heading(self.target, self.has_measured()))
        return list(_TABLES[kind](self._replace(kind=kind)))

    def has_measured(self) -> bool:
        """Whether the table has columns for what was measured, now or before."""
        return self.measure or self.kept is not None

    def row(self, program: programs.Program, prepared: Any = None) -> tables.Row:
        """What is known of a program.

        Args:
          program: the program.
          prepared: what the preparation gave, if the program is run and takes that.
        """
        return self._row(program, self._compiled(program), prepared)

    def preparation(self, alteration: Alteration) -> tuple[tables.Row, Any]:
        """What is known of a preparation, and what it gives if it is run."""
        program = programs.preparation(self.network, alteration, self.mesh)
        compiled, prepared = self._compiled(program), None
        if self.measure:
            prepared = compiled.executable(*measuring.arguments(program))
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
            seconds = measuring.seconds(program, compiled.executable, prepared)
        return tables.row(program.name, compiled, self.target, seconds)

    def shown(
        self,
        found: tables.Row,
        beside: tables.Row | None = None,
        best: tables.Row | None = None,
    ) -> tables.Row:
        """Prints a row, beside what was measured before, and returns both.

        Args:
          found: the row.
          beside: the forward pass that it is compared with.
          best: the best forward pass over as many images.
        """
        before = []
        if not self.measure:
            where = self.network_name, self.kind, self.network.size
            before = list(measured.of_program(self.kept, *where, found["program"]))
        found = tables.with_best(tables.with_kept(found, before), best)
        print(tables.line(found, beside, self.target, self.has_measured()), flush=True)
        for line in tables.in_other_forms(before):
            print(line)
        for line in tables.dearest(found, beside, self.lines if beside else 0):
            print(line)
        return found

    def forward(self) -> tables.Row:
        """The forward pass over as many images as a step has."""
        network = self.network
        return self.row(programs.forward(network, network.rows, self.mesh))

    def best_forward(self, at_once: tables.Row) -> tables.Row:
        """The fastest forward pass over the images of a step, in batches of any size.

        On a GPU that is all of them at once. A TPU may take batches in turn whose
        arrays stay on the chip: as many images as `evaluate` takes of many, half and
        twice as many, and so on as long as it gets faster.

        Args:
          at_once: the forward pass over all images at once.
        """
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


def _roma(bench: Bench) -> Iterator[tables.Row]:
    network, mesh = bench.network, bench.mesh
    yield (forward := bench.shown(bench.forward()))
    yield (best := bench.best_forward(forward))
    for make in (
        others.roma_draws,
        others.roma_count,
        others.roma_tilts,
        others.roma_splitting,
    ):
        program = make(network, mesh)
        share = program.passes / network.rows
        beside, least = tables.times(forward, share), tables.times(best, share)
        yield bench.shown(bench.row(program), beside, least)


def _bayesian(bench: Bench) -> Iterator[tables.Row]:
    yield (forward := bench.shown(bench.forward()))
    yield (best := bench.best_forward(forward))
    alteration = next(iter(bench.alterations.values()))
    program = others.bayesian(bench.network, alteration, _SAMPLES, bench.mesh)
    beside, least = tables.times(forward, _SAMPLES), tables.times(best, _SAMPLES)
    before, prepared = bench.preparation(alteration)
    step = tables.with_preparation(bench.row(program, prepared), before)
    yield bench.shown(step, beside, least)


def _lbfgs(bench: Bench) -> Iterator[tables.Row]:
    network, mesh = bench.network, bench.mesh
    bare = bench.row(others.gradient(network, network.num_images, mesh))
    yield bench.shown(bare)
    yield bench.shown(bench.row(others.lbfgs(network, mesh)), bare)


def _training(bench: Bench) -> Iterator[tables.Row]:
    network, mesh = bench.network, bench.mesh
    plain = bench.row(others.training(network, [], "training", mesh))
    yield bench.shown(plain)
    altered = list(bench.alterations.values())
    program = others.training(network, altered, "data augmentation", mesh)
    yield bench.shown(bench.row(program), plain)


def _sizes(bench: Bench) -> Iterator[tables.Row]:
    """Steps of other sizes, each beside the forward pass over as many images."""
    usual = bench.network
    levels = [(usual.num_images, number) for number in (1, 4, 16)]
    images = [(max(usual.num_images // n, 1), usual.num_levels) for n in (2, 4, 16)]
    for num_images, num_levels in dict.fromkeys(levels + images):
        network = usual._replace(num_images=num_images, num_levels=num_levels)
        one = bench._replace(network=network)
        size = f"{num_images} x {num_levels}"
        yield (forward := one.shown(one.forward() | {"program": f"forward, {size}"}))
        for name in bench.alterations:
            _, step = one.step(name)
            yield one.shown(step | {"program": f"{name}, {size}"}, forward)


_TABLES: dict[str, Callable[[Bench], Iterator[tables.Row]]] = {
    "steps": _steps,
    "alter": _alter,
    "roma": _roma,
    "bayesian": _bayesian,
    "lbfgs": _lbfgs,
    "training": _training,
    "sizes": _sizes,
}

#: The tables that there are.
KINDS = tuple(_TABLES)
