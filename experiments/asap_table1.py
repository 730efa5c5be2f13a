r"""Tables I and II of the 2022 paper: ASAP beside an oracle and other samplers.

    python experiments/asap_table1.py
    python experiments/asap_table1.py --benchmark=mnist --data_dir=...

For each of the seven alterations: the robustness by Definition 3 on many levels and on
the grid that ASAP picks its levels from, by ASAP with the paper's concavity and with
the automatic one, by numerical integration, and by as many uniform levels as ASAP took.
Prints the tables and the answers to the paper's questions 1, 2.1, 2.2 and 5, and writes
them as JSON into the folder `--output`. What it computed for the oracle is kept there,
so that an interrupted run goes on where it was. `--require` is of what the library's
default strategy finds.
"""

import json
import math
import statistics
import time

import benchmarks
import gate
import hosts
import jax
import jax.numpy as jnp
import startup
import timing
from absl import app, flags

import jaxrob
from jaxrob.strategies import ASAP, Quadrature, Uniform

_N = flags.DEFINE_integer("n", 1024, "Levels of the oracle, and ASAP's n.", 2)
_requirements = gate.define_require("robustness", "robustness.low")

ORACLE, ALIGNED = "oracle", "aligned oracle"
PAPER, RERUN = "ASAP a=128", "ASAP a=256"
AUTO, STOPPING = "ASAP auto", "ASAP auto, stopping"
INTEGRATION, UNIFORM = "integration", "uniform"


def main(argv):
    startup.start(argv)
    if _N.value & (_N.value - 1):
        raise app.UsageError(f"n must be a power of 2; got {_N.value}")
    benchmark = benchmarks.load()
    print(
        f"{benchmarks.title()}: {len(benchmark.test_set)} images, on "
        f"{jax.devices()[0].device_kind}; accuracy >= {benchmarks.THRESHOLD.value:g}"
    )
    forward, _ = timing.best_forward(
        benchmark.classifier, jnp.asarray(benchmark.test_set.images, jnp.float32) / 255
    )
    forward_seconds = statistics.median(timing.seconds(forward) for _ in range(5))
    rows = []
    print(_line("alteration", "method", "points", "s", "rob", *_DIFFERENCES))
    for alteration in benchmark.alterations:
        some = _assess_all(benchmark, alteration, forward_seconds)
        for row in some:
            print(_text(row))
        rows += some
    answers = _answers(rows)
    print("\n".join(("", *answers)))
    document = {
        "benchmark": benchmarks.title(),
        "num_images": len(benchmark.test_set),
        "threshold": benchmarks.THRESHOLD.value,
        "n": _N.value,
        "rows": rows,
        "answers": answers,
    }
    path = benchmarks.output() / f"table1-{benchmarks.title()}.json"
    path.write_text(json.dumps(document, indent=1))
    print(f"wrote {path}")
    gate.require(
        _requirements(),
        {
            row["alteration"]: {
                "robustness": row["robustness"],
                "robustness.low": row["confidence_interval"][0],
            }
            for row in rows
            if row["method"] == STOPPING
        },
    )


_DIFFERENCES = ("d oracle", "d aligned", "bound", "interval")


def _assess_all(benchmark, alteration, forward_seconds):
    """A row for each method, the oracles first."""
    n = _N.value
    oracles = {
        name: benchmarks.dense(benchmark, alteration, levels, rule)
        for name, levels, rule in ((ORACLE, n, "count"), (ALIGNED, n + 1, "right"))
    }
    wall = {}

    def assess(strategy, name=None):
        start = time.perf_counter()
        assessment = jaxrob.assess(
            benchmark.classifier,
            benchmark.test_set,
            alteration,
            benchmarks.THRESHOLD.value,
            strategy=strategy,
            key=benchmarks.key(),
            mesh=hosts.mesh(),
            progress=benchmarks.PROGRESS.value,
        )
        wall[name] = time.perf_counter() - start
        return assessment

    # Oracles that an earlier run left leave the step to be compiled.
    assess(Uniform(2))

    found = dict(oracles)
    found[PAPER] = assess(ASAP(n, benchmarks.concavity(alteration, 128)), PAPER)
    if alteration.name == "zoom":
        found[RERUN] = assess(ASAP(n, benchmarks.concavity(alteration, 256)), RERUN)
    found[AUTO] = assess(ASAP(n, statistical_stopping=False), AUTO)
    found[STOPPING] = assess(ASAP(n), STOPPING)
    found[INTEGRATION] = assess(Quadrature(), INTEGRATION)
    found[UNIFORM] = assess(Uniform(found[PAPER].diagnostics.points), UNIFORM)
    exact, aligned = found[ORACLE].robustness, found[ALIGNED].robustness
    return [
        {
            "alteration": alteration.name,
            "range": [alteration.lower, alteration.upper],
            "method": name,
            "points": assessment.diagnostics.points,
            "rounds": assessment.diagnostics.rounds,
            "seconds": assessment.seconds,
            "wall_seconds": wall.get(name, assessment.seconds),
            "forward_seconds": assessment.diagnostics.points * forward_seconds,
            # JSON knows no NaN, which an integration that fails gives.
            "robustness": _number(assessment.robustness),
            "difference": _number(assessment.robustness - exact),
            "aligned_difference": _number(assessment.robustness - aligned),
            "error_bound": assessment.error_bound,
            "confidence_interval": list(assessment.confidence_interval),
            "warnings": assessment.diagnostics.warnings,
        }
        for name, assessment in found.items()
    ]


def _number(value):
    return None if math.isnan(value) else value


def _answers(rows):
    """What the rows say to the paper's questions, a line each."""
    of = {
        name: [row for row in rows if row["method"] == name] for name in _methods(rows)
    }
    lines = []
    for name in (PAPER, AUTO, STOPPING):
        points = [row["points"] for row in of[name]]
        saved = [
            1 - row["seconds"] / oracle["seconds"]
            for row, oracle in zip(of[name], of[ORACLE])
        ]
        lines.append(
            f"RQ1   {name}: {statistics.mean(points):.1f} points on average, "
            f"{max(points)} at most; {min(saved):.1%} to {max(saved):.1%} of the "
            f"oracle's time saved; off the oracle by at most "
            f"{_worst(of[name], 'difference'):.2%}, off the aligned oracle by "
            f"{_worst(of[name], 'aligned_difference'):.2%}"
        )
    for name in (PAPER, AUTO, STOPPING):
        ratios = [row["wall_seconds"] / row["forward_seconds"] for row in of[name]]
        lines.append(
            f"time  {name}: {statistics.median(ratios):.2f} times the forward passes "
            f"of its points in the median, {max(ratios):.2f} at most"
        )
    spent = {
        name: sum(row["wall_seconds"] for row in some) for name, some in of.items()
    }
    lines.append(
        f"time  all alterations: {spent[ORACLE]:.0f} s for the oracle, "
        f"{spent[ALIGNED]:.0f} s for the aligned one, "
        f"{sum(spent.values()) - spent[ORACLE] - spent[ALIGNED]:.0f} s for the rest"
    )
    done = [row for row in of[INTEGRATION] if row["robustness"] is not None]
    lines.append(
        f"RQ2.1 {INTEGRATION}: {len(of[INTEGRATION]) - len(done)} of "
        f"{len(of[INTEGRATION])} time out; the others take "
        f"{min((row['points'] for row in done), default=0)} to "
        f"{max((row['points'] for row in done), default=0)} points and are off the "
        f"oracle by at most {_worst(done, 'difference'):.2%}"
    )
    for name in (PAPER, AUTO):
        pairs = [
            (abs(a["difference"]), abs(b["difference"]))
            for a, b in zip(of[name], of[UNIFORM])
        ]
        better = sum(a < b for a, b in pairs)
        equal = sum(a == b for a, b in pairs)
        lines.append(
            f"RQ2.2 {name} against {UNIFORM} at the points of {PAPER}: nearer to the "
            f"oracle for {better}, as near for {equal} of {len(pairs)}"
        )
    for name in (PAPER, RERUN, AUTO, STOPPING):
        held = [_holds(row) for row in of[name]]
        broken = [row["alteration"] for row, ok in zip(of[name], held) if not ok]
        bounds = [row["error_bound"] for row in of[name]]
        lines.append(
            f"RQ5   {name}: the bound holds on the aligned grid for {sum(held)} of "
            f"{len(held)}{' (not: ' + ', '.join(broken) + ')' if broken else ''}; "
            f"{max(bounds):.2%} at most"
        )
    return lines


def _methods(rows):
    return dict.fromkeys(row["method"] for row in rows)


def _holds(row):
    # Up to rounding: both are multiples of a part in n.
    return abs(row["aligned_difference"]) <= row["error_bound"] + 1e-9


def _worst(rows, name):
    return max((abs(row[name]) for row in rows), default=0.0)


def _text(row):
    low, high = row["confidence_interval"]
    timeout = row["robustness"] is None
    bound = row["error_bound"]
    return _line(
        row["alteration"],
        row["method"],
        str(row["points"]),
        f"{row['seconds']:.1f}",
        "timeout" if timeout else f"{row['robustness']:.2%}",
        "-" if timeout else f"{row['difference']:+.2%}",
        "-" if timeout else f"{row['aligned_difference']:+.2%}",
        "-" if bound is None else f"{bound:.2%}",
        f"{low:.1%} to {high:.1%}",
    )


def _line(alteration, method, *cells):
    widths = (6, 7, 8, 9, 9, 7, 17)
    right = (cell.rjust(width) for cell, width in zip(cells, widths))
    return f"{alteration:22} {method:20}" + " ".join(right)


if __name__ == "__main__":
    app.run(main)
