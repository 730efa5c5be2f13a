r"""Tables I and II of the 2022 paper: ASAP beside an oracle and other samplers.

    python experiments/asap_table1.py
    python experiments/asap_table1.py --benchmark=mnist --data_dir=...

For each of the seven alterations: the robustness by Definition 3 on many levels and on
the grid from which ASAP picks its levels, by ASAP with the paper's concavity and with
the automatic one, by numerical integration, and by as many uniform levels as ASAP took.
Prints the tables and the answers to the paper's questions 1, 2.1, 2.2 and 5, and writes
them as JSON into the folder `--output`. The oracle's results are kept there, so an
interrupted run resumes. `--require` refers to the results of the library's default
strategy. On MNIST it takes 15 minutes on two CPU cores.
"""

import statistics
import time
from collections.abc import Sequence
from typing import Any

import jax
from absl import app, flags
from common import benchmarks, define, files, gate, hosts, startup, timing
from common.quadrature import Quadrature, robustness_by_quad

import jaxrob
from jaxrob.strategies import ASAP, Strategy, Uniform

flags.adopt_module_key_flags(benchmarks)
_N = define.n()
_requirements = gate.define_require("robustness", "robustness.low")

ORACLE, ALIGNED = "oracle", "aligned oracle"
PAPER, RERUN = "ASAP a=128", "ASAP a=256"
AUTO, STOPPING = "ASAP auto", "ASAP auto, stopping"
INTEGRATION, UNIFORM = "integration", "uniform"

# A method's results, one for each alteration.
_Rows = list[dict[str, Any]]


def main(argv: Sequence[str]) -> None:
    startup.start(argv)
    benchmark = benchmarks.load()
    print(
        f"{benchmarks.title()}: {len(benchmark.test_set)} images, on "
        f"{jax.devices()[0].device_kind}; accuracy >= {benchmarks.THRESHOLD.value:g}"
    )
    classifier, test_set, _ = benchmark
    forward_seconds = timing.forward_seconds(classifier, test_set.images)
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
    name = f"table1-{benchmarks.title()}.json"
    files.save(benchmarks.OUTPUT.value, name, document)
    found = {}
    for row in rows:
        if row["method"] == STOPPING:
            low = {"robustness.low": row["confidence_interval"][0]}
            found[row["alteration"]] = low | {"robustness": row["robustness"]}
    gate.require(_requirements(), found)


def _assess_all(
    benchmark: benchmarks.Benchmark,
    alteration: jaxrob.Alteration,
    forward_seconds: float,
) -> _Rows:
    """Returns a row for each method, the oracles first."""
    n = _N.value
    found = {
        name: benchmarks.dense(benchmark, alteration, levels, rule)
        for name, levels, rule in ((ORACLE, n, "count"), (ALIGNED, n + 1, "right"))
    }
    wall = {name: oracle.seconds for name, oracle in found.items()}

    def assess(strategy: Strategy) -> jaxrob.Assessment:
        given = *benchmark[:2], alteration, benchmarks.THRESHOLD.value
        how = {"mesh": hosts.mesh(), "progress": benchmarks.PROGRESS.value}
        return jaxrob.assess(*given, strategy=strategy, key=benchmarks.key(), **how)

    def add(name: str, strategy: Strategy) -> None:
        start = time.perf_counter()
        found[name] = assess(strategy)
        wall[name] = time.perf_counter() - start

    # If an earlier run left the oracles, the step is not yet compiled.
    assess(Uniform(2))
    add(PAPER, ASAP(n, benchmarks.concavity(alteration, 128)))
    if alteration.name == "zoom":
        add(RERUN, ASAP(n, benchmarks.concavity(alteration, 256)))
    add(AUTO, ASAP(n, statistical_stopping=False))
    add(STOPPING, ASAP(n))
    add(INTEGRATION, Quadrature())
    add(UNIFORM, Uniform(found[PAPER].diagnostics.points))
    robustness = {name: assessment.robustness for name, assessment in found.items()}
    by_quad = found[INTEGRATION]
    curve = by_quad.levels, by_quad.values, by_quad.threshold
    bounds = alteration.lower, alteration.upper
    robustness[INTEGRATION] = robustness_by_quad(*curve, bounds)
    exact, aligned = robustness[ORACLE], robustness[ALIGNED]
    return [
        {
            "alteration": alteration.name,
            "range": [alteration.lower, alteration.upper],
            "method": name,
            "points": assessment.diagnostics.points,
            "rounds": assessment.diagnostics.rounds,
            "seconds": assessment.seconds,
            "wall_seconds": wall[name],
            "forward_seconds": assessment.diagnostics.points * forward_seconds,
            # JSON has no NaN, which a failed integration gives.
            **files.without_nan(
                {
                    "robustness": robustness[name],
                    "difference": robustness[name] - exact,
                    "aligned_difference": robustness[name] - aligned,
                }
            ),
            "error_bound": assessment.error_bound,
            "confidence_interval": list(assessment.confidence_interval),
            "warnings": assessment.diagnostics.warnings,
        }
        for name, assessment in found.items()
    ]


def _answers(rows: _Rows) -> list[str]:
    of: dict[str, _Rows] = {}
    for row in rows:
        of.setdefault(row["method"], []).append(row)
    lines = [
        f"RQ1   {name}: {_saved(of[name], of[ORACLE])}"
        for name in (PAPER, AUTO, STOPPING)
    ]
    for name in (PAPER, AUTO, STOPPING):
        ratios = [row["wall_seconds"] / row["forward_seconds"] for row in of[name]]
        lines.append(
            f"time  {name}: {statistics.median(ratios):.2f} times the forward passes "
            f"of its points in the median, {max(ratios):.2f} at most"
        )
    wall = {name: sum(one["wall_seconds"] for one in some) for name, some in of.items()}
    oracle, aligned = wall.pop(ORACLE), wall.pop(ALIGNED)
    lines.append(
        f"time  all alterations: {oracle:.0f} s for the oracle, {aligned:.0f} s for "
        f"the aligned one, {sum(wall.values()):.0f} s for the rest"
    )
    lines.append(f"RQ2.1 {INTEGRATION}: {_timeouts(of[INTEGRATION])}")
    lines += [
        f"RQ2.2 {name} against {UNIFORM} at the points of {PAPER}: "
        + _nearer(of[name], of[UNIFORM])
        for name in (PAPER, AUTO)
    ]
    lines += [
        f"RQ5   {name}: {_bounds_held(of[name])}"
        for name in (PAPER, RERUN, AUTO, STOPPING)
    ]
    return lines


def _saved(rows: _Rows, oracles: _Rows) -> str:
    points = [row["points"] for row in rows]
    spent = zip(rows, oracles)
    saved = [1 - row["seconds"] / oracle["seconds"] for row, oracle in spent]
    return (
        f"{statistics.mean(points):.1f} points on average, {max(points)} at most; "
        f"{min(saved):.1%} to {max(saved):.1%} of the oracle's time saved; off the "
        f"oracle by at most {_worst(rows, 'difference'):.2%}, off the aligned oracle "
        f"by {_worst(rows, 'aligned_difference'):.2%}"
    )


def _timeouts(rows: _Rows) -> str:
    done = [row for row in rows if row["robustness"] is not None]
    points = [row["points"] for row in done] or [0]
    return (
        f"{len(rows) - len(done)} of {len(rows)} time out; the others take "
        f"{min(points)} to {max(points)} points and are off the oracle by at most "
        f"{_worst(done, 'difference'):.2%}"
    )


def _nearer(rows: _Rows, others: _Rows) -> str:
    off = ([abs(row["difference"]) for row in some] for some in (rows, others))
    pairs = list(zip(*off))
    better = sum(one < other for one, other in pairs)
    equal = sum(one == other for one, other in pairs)
    return f"nearer to the oracle for {better}, as near for {equal} of {len(pairs)}"


def _bounds_held(rows: _Rows) -> str:
    # Up to rounding: both are multiples of 1 / n of the range.
    broken = [
        row["alteration"]
        for row in rows
        if abs(row["aligned_difference"]) > row["error_bound"] + 1e-9
    ]
    return (
        f"the bound holds on the aligned grid for {len(rows) - len(broken)} of "
        f"{len(rows)}{' (not: ' + ', '.join(broken) + ')' if broken else ''}; "
        f"{max(row['error_bound'] for row in rows):.2%} at most"
    )


def _worst(rows: _Rows, name: str) -> float:
    return max((abs(row[name]) for row in rows), default=0.0)


_DIFFERENCES = ("d oracle", "d aligned", "bound", "interval")


def _text(row: dict[str, Any]) -> str:
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


def _line(alteration: str, method: str, *cells: str) -> str:
    widths = (6, 7, 8, 9, 9, 7, 17)
    right = (cell.rjust(width) for cell, width in zip(cells, widths))
    return f"{alteration:22} {method:20}" + " ".join(right)


if __name__ == "__main__":
    app.run(main)
