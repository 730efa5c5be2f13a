r"""The accuracy of RoMA with several modes and in few dimensions, where truth is known.

    python experiments/roma_modes.py
    python experiments/roma_modes.py --what=few --estimators=auto,splitting --runs=24
    python experiments/roma_modes.py --what=networks --estimators=auto,splitting
    python experiments/roma_modes.py --what=regions,others --dims=100 --runs=20

The cases are twelve families of half-spaces, of one class and of several, opposite and
orthogonal, equally likely or up to a hundred times less so, some steep behind shallow
ones; corners, islands and slabs of a box of 2 to 10 dimensions; trained networks of as
few inputs, with the truth counted among up to 1e8 draws; regions formed by few of many
coordinates; and more of these, on which nothing was tuned. Each is assessed `--runs`
times, with other random numbers. The script prints the coverage of the 95 % intervals,
the error of the answers, the intervals' width against 3.92 times the actual error, the
passes, and the silent misses: answers off by more than a factor 2 whose interval
excludes the truth. JSON goes into the folder `--output`. The default takes about half
an hour on two CPU cores.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import numpy as np
from absl import app, flags
from checks import rare_regions
from common import define, files, hosts, known_modes, small_networks, startup
from scipy import stats

import jaxrob

_KINDS = ("modes", "few", "networks", "regions", "others")
_WHAT = define.choices("what", list(_KINDS[:3]), _KINDS, "Kinds of cases")
_DIMS = flags.DEFINE_list(
    "dims", ["20", "50", "784"], "Dimensions of modes and regions."
)
_NORMS = define.choices(
    "norms", ["linf", "l2"], ("linf", "l2"), "Norms of the ball, of several modes"
)
_PROBABILITIES = flags.DEFINE_list(
    "probabilities", ["1e-3", "1e-5", "1e-7", "1e-9"], "Probabilities, at most 1e-3."
)
_ESTIMATORS = define.estimators(
    ["auto"], ("auto", "importance", "splitting"), "Estimators with an interval"
)
_BUDGET = define.budget()
_FEW = flags.DEFINE_list("few", ["2", "5", "10"], "Dimensions of networks' inputs.")
_PAIRS = flags.DEFINE_integer("pairs", 36, "Networks' inputs for each dimension.", 4)
_DRAWS = flags.DEFINE_integer(
    "draws", 100_000_000, "Draws among which a network's truth is counted.", 10_000
)
_RUNS = flags.DEFINE_integer("runs", 12, "Runs of each.", 2)
_SEED = define.seed()
_OUTPUT = define.output("results/roma_modes")

_REGIONS = {"regions": rare_regions.FOUND_WITH, "others": rare_regions.LEFT_ASIDE}

# A silent miss is off by more than this factor.
_FACTOR = 2.0


def main(argv: Sequence[str]) -> None:
    startup.start(argv)
    cases = list(_cases())
    print(
        f"{'estimator':11}{'case':22}{'dim':>4}{'norm':>6}{'p':>9}{'trusted':>9}"
        f"{'covered':>9}{'rms':>7}{'width':>7}{'missed':>8}{'passes':>9}"
    )
    path = files.output_folder(_OUTPUT.value) / "roma_modes.json"
    rows = []
    for estimator in _ESTIMATORS.value:
        for number, case in enumerate(cases):
            # With the same draws for all cases, one unlucky draw would count many
            # times.
            key = jax.random.fold_in(jax.random.key(_SEED.value), number)
            rows.append(_measured(case, estimator, key))
            files.write_json(path, rows)
        _print_total(estimator, rows[-len(cases) :])
    print(
        "covered: of the trusted; rms: of the error of ln p; width: the median "
        "interval's over 3.92 rms; missed: silently"
    )
    print(f"wrote {path}")


def _cases() -> Iterator[known_modes.Case]:
    dims = define.numbers("dims", _DIMS.value, int)
    few = define.numbers("few", _FEW.value, int)
    probabilities = define.probabilities(_PROBABILITIES.value)
    if any(dim < 2 for dim in few):
        raise app.UsageError(f"few must be at least 2; got {few}")
    if "modes" in _WHAT.value and any(dim < 20 for dim in dims):
        raise app.UsageError(f"dims must be at least 20; got {dims}")
    if max(probabilities) > 1e-3:
        raise app.UsageError(f"probabilities must be at most 1e-3; got {probabilities}")
    for p in probabilities:
        if "modes" in _WHAT.value:
            for dim in dims:
                for norm in _NORMS.value:
                    yield from known_modes.several_modes(dim, norm, p, _SEED.value)
        if "few" in _WHAT.value:
            yield from known_modes.few_dimensions(p, _SEED.value)
        for kind, regions in _REGIONS.items():
            if kind in _WHAT.value:
                for dim in dims:
                    yield from rare_regions.cases(regions, dim, p, _SEED.value)
    if "networks" in _WHAT.value:
        for dim in few:
            yield from small_networks.small_networks(
                dim, _PAIRS.value, _DRAWS.value, _SEED.value
            )


def _measured(case: known_modes.Case, estimator: str, key: jax.Array) -> dict[str, Any]:
    image = np.full(case.dim, 0.5) if case.image is None else case.image
    # The image at many indices gives as many independent runs in one call.
    result = jaxrob.roma.assess(
        case.classifier,
        np.tile(np.float32(image)[:, None, None], (_RUNS.value, 1, 1, 1)),
        epsilon=case.epsilon, delta=known_modes.DELTA, norm=case.norm,
        estimator=estimator, key=key, mesh=hosts.mesh(),
        budget=(estimator == "auto" and _BUDGET.value) or math.inf,
    )  # fmt: skip
    truth = case.log_probability
    off = (result.log_adversarial_probability - truth)[result.answered]
    low, high = result.log_low[result.answered], result.log_high[result.answered]
    # The truth itself may have an error.
    slack = 1.96 * case.error
    above, below = np.hypot(off - (low - truth), slack), high - truth - off
    covers = (off <= above) & (-off <= np.hypot(below, slack))
    rms = float(np.sqrt(np.mean(off**2))) if len(off) else None
    row = {
        "estimator": estimator,
        "case": case.name,
        "dim": case.dim,
        "norm": case.norm,
        "log_probability": truth,
        "runs": len(result.status),
        "trusted": len(off),
        "covered": int(covers.sum()),
        "rms": rms,
        "width": float(np.median(high - low) / 3.92 / rms) if rms else None,
        "missed": int((~covers & (np.abs(off) > np.log(_FACTOR))).sum()),
        "evaluations": float(result.evaluations.mean()),
    }
    print(
        f"{estimator:11}{case.name:22}{case.dim:4}{case.norm:>6}{np.exp(truth):9.1e}"
        f"{row['trusted']:9}{row['covered']:9}{rms or np.nan:7.3f}"
        f"{row['width'] or np.nan:7.2f}{row['missed']:8}{row['evaluations']:9,.0f}",
        flush=True,
    )
    return row


def _print_total(estimator: str, rows: list[dict[str, Any]]) -> None:
    """Prints all cases, and apart those with a steep mode behind a shallow one."""
    for name, steep in (("all others", False), ("steep behind shallow", True)):
        mine = [row for row in rows if row["case"].startswith("steep") == steep]
        if not mine:
            continue
        runs, trusted, covered, missed = (
            sum(row[field] for row in mine)
            for field in ("runs", "trusted", "covered", "missed")
        )
        p = stats.binomtest(covered, max(trusted, 1), 0.95, "less").pvalue
        widths = [row["width"] for row in mine if row["width"]]
        print(
            f"{estimator}, {name}: {trusted} of {runs} trusted, "
            f"{covered / max(trusted, 1):.1%}"
            f" of these covered (p = {p:.2g} for at least 95 %), {missed} missed, "
            f"median width {np.median(widths) if widths else np.nan:.2f}, "
            f"{np.mean([row['evaluations'] for row in mine]):,.0f} passes"
        )


if __name__ == "__main__":
    app.run(main)
