r"""How right the estimators of RoMA are: probabilities from 1e-10 to 1/2, truth known.

    python experiments/roma_truth.py
    python experiments/roma_truth.py --benchmark=mnist --network=mlp --pairs=200

Chooses pairs of an input and an epsilon whose probabilities of a distinct
misclassification spread evenly over the powers of ten, finds the truth, runs every
estimator with another key, and prints how far each is off, how often its 95 % interval
covers, and what it costs. The truth is counted among direct draws where the probability
is above 1e-3; below, it is the mean of many runs of "auto", nearly always importance
sampling, which multilevel splitting, an estimator without gradients or weights, has to
agree with: pairs where the two differ by more than four standard errors are printed.
Writes JSON and a figure of estimate against truth into the folder `--output`.
"""

import json
import time
from typing import NamedTuple

import benchmarks
import hosts
import jax
import journals
import numpy as np
import startup
from absl import app, flags
from matplotlib import pyplot as plt
from scipy import special

import jaxrob

_PAIRS = flags.DEFINE_integer("pairs", 40, "Pairs of an input and an epsilon.", 1)
_EPSILONS = flags.DEFINE_list(
    "epsilons",
    ["0.05", "0.075", "0.1", "0.15", "0.2", "0.25", "0.3", "0.35", "0.4"],
    "Radii to choose from.",
)
_ESTIMATORS = flags.DEFINE_list(
    "estimators",
    ["roma", "count", "logit", "splitting", "auto"],
    "Estimators to compare; without splitting nothing checks the truth.",
)
_DELTA = flags.DEFINE_float("delta", 0.6, "Least confidence of a distinct answer.")
_NORM = flags.DEFINE_enum("norm", "linf", ("linf", "l2"), "Norm of the ball.")
_SAMPLES = flags.DEFINE_integer("num_samples", 1000, "Plain draws an input.", 8)
_RUNS = flags.DEFINE_integer("runs", 32, "Runs whose mean is the truth.", 2)
_DRAWS = flags.DEFINE_integer("draws", 1000000, "Direct draws at most.", 1000)

_RANGE = (-10.0, np.log10(0.5))
# A truth with a larger error of ln p than this judges no estimator.
_LARGEST_ERROR = 0.2
# Above this, the truth is counted.
_COUNTED = 1e-3
# What the JSON has of each estimate.
_FIELDS = ("log_p", "low", "high", "status", "evaluations")


class _Truth(NamedTuple):
    log_p: np.ndarray  # [P]
    error: np.ndarray  # [P], of log_p


def main(argv):
    startup.start(argv)
    benchmark = benchmarks.load()
    keys = jax.random.split(benchmarks.key(), 4)
    images = benchmark.test_set.images
    epsilons = np.array([float(epsilon) for epsilon in _EPSILONS.value])
    which, epsilon = _choose(benchmark.classifier, images, epsilons, keys[0])
    images = images[which]
    print(f"{len(which)} pairs, epsilon {epsilon.min():g} to {epsilon.max():g}")
    truth = _truth(benchmark.classifier, images, epsilon, keys)
    known = np.isfinite(truth.log_p) & (truth.error < _LARGEST_ERROR)
    print(f"the truth is known within {_LARGEST_ERROR:g} for {known.sum()} of them")
    if not known.any():
        raise app.UsageError("no truth is known: try more --runs or --draws")
    which, epsilon, images = which[known], epsilon[known], images[known]
    truth = _Truth(truth.log_p[known], truth.error[known])
    rows = {}
    for estimator in _ESTIMATORS.value:
        start = time.perf_counter()
        found = _by_epsilon(
            benchmark.classifier,
            images,
            epsilon,
            keys[3],
            estimator,
            _SAMPLES.value,
            "compared",
        )
        found["seconds"] = (time.perf_counter() - start) / len(which)
        rows[estimator] = found
    if "splitting" in rows:
        _check(truth, rows["splitting"], which, epsilon)
    summary = {name: _summary(found, truth) for name, found in rows.items()}
    _print(summary)
    if "auto" in rows:
        for stage, number in zip(
            *np.unique(rows["auto"]["status"], return_counts=True)
        ):
            print(f"auto, {stage}: {number} pairs")
    folder = benchmarks.output()
    name = f"roma_truth-{benchmarks.title()}-{_NORM.value}-{_DELTA.value:g}"
    document = {
        "input": which.tolist(),
        "epsilon": epsilon.tolist(),
        "log_truth": truth.log_p.tolist(),
        "truth_error": truth.error.tolist(),
        "estimates": {
            name: {field: np.asarray(found[field]).tolist() for field in _FIELDS}
            for name, found in rows.items()
        },
        "summary": summary,
    }
    (folder / f"{name}.json").write_text(json.dumps(document, indent=1))
    _figure(rows, truth).savefig(folder / f"{name}.png", dpi=110)
    print(f"wrote {folder / name}.json and .png")


def _choose(classifier, images, epsilons, key):
    """Pairs whose probabilities, as the cheap "logit" has them, spread evenly."""
    log_p = [
        _assess(
            classifier, images, epsilon, key, "logit", _SAMPLES.value, "choice"
        ).log_adversarial_probability
        for epsilon in epsilons
    ]
    log_p = np.array(log_p) / np.log(10)
    random = np.random.default_rng(benchmarks.SEED.value)
    edges = np.linspace(*_RANGE, 22)
    bins = [
        random.permutation(np.argwhere((log_p >= low) & (log_p < high)))
        for low, high in zip(edges, edges[1:])
    ]
    # One of each bin in turn, until there are enough.
    in_turn = [
        pairs[turn]
        for turn in range(max(map(len, bins)))
        for pairs in bins
        if turn < len(pairs)
    ]
    chosen = np.array(in_turn[: _PAIRS.value])
    if not len(chosen):
        raise app.UsageError("no probability lies in the range: try other epsilons")
    return chosen[:, 1], epsilons[chosen[:, 0]]


def _truth(classifier, images, epsilon, keys):
    """Direct draws where there are enough hits, else the mean of many runs."""
    runs = _RUNS.value
    log_p = np.empty(len(images))
    error = np.empty(len(images))
    many = _by_epsilon(
        classifier,
        np.repeat(images, runs, axis=0),
        np.repeat(epsilon, runs),
        keys[1],
        "auto",
        _SAMPLES.value,
        "truth",
    )["log_p"].reshape(-1, runs)
    log_p = special.logsumexp(many, axis=1) - np.log(runs)
    error = np.std(np.exp(many - log_p[:, None]), axis=1, ddof=1) / np.sqrt(runs)
    often = ~(np.isfinite(log_p) & (log_p < np.log(_COUNTED)))
    if often.any():
        draws = _DRAWS.value
        counted = _by_epsilon(
            classifier, images[often], epsilon[often], keys[2], "count", draws, "truth"
        )["log_p"]
        log_p[often] = counted
        error[often] = np.sqrt((np.exp(-counted) - 1) / draws)
    return _Truth(log_p, error)


def _by_epsilon(classifier, images, epsilon, key, estimator, num_samples, stage):
    """The estimates of pairs, `[P]` each, one call for each epsilon."""
    found = {}
    for radius in np.unique(epsilon):
        mine = np.flatnonzero(epsilon == radius)
        result = _assess(
            classifier, images[mine], radius, key, estimator, num_samples, stage
        )
        for name, values in (
            ("log_p", result.log_adversarial_probability),
            ("low", result.log_low),
            ("high", result.log_high),
            ("status", result.status.astype("U16")),
            ("evaluations", result.evaluations),
        ):
            found.setdefault(name, np.empty(len(images), values.dtype))[mine] = values
    return found


def _assess(classifier, images, epsilon, key, estimator, num_samples, stage):
    name = f"{benchmarks.title()}-{_NORM.value}"
    return jaxrob.roma.assess(
        classifier,
        images,
        epsilon=float(epsilon),
        delta=_DELTA.value,
        norm=_NORM.value,
        num_samples=num_samples,
        estimator=estimator,
        key=key,
        journal=journals.path(f"{name}-{stage}-{estimator}-{epsilon:g}"),
        mesh=hosts.mesh(),
        progress=benchmarks.PROGRESS.value,
    )


def _check(truth, splitting, which, epsilon):
    """Prints where two independent estimators disagree."""
    error = np.maximum((splitting["high"] - splitting["low"]) / (2 * 1.96), 1e-9)
    score = (splitting["log_p"] - truth.log_p) / np.hypot(error, truth.error)
    used = splitting["status"] == "splitting"
    print(
        f"splitting less truth: mean {np.mean(score[used]):+.2f}, rms "
        f"{np.sqrt(np.mean(score[used] ** 2)):.2f} of {used.sum()} scores; the truth's "
        f"own error: median {np.median(truth.error):.3f}, largest "
        f"{truth.error.max():.3f}"
    )
    for i in np.flatnonzero(used & (np.abs(score) > 4)):
        print(
            f"  disagree: input {which[i]}, epsilon {epsilon[i]:g}: ln p "
            f"{splitting['log_p'][i]:.2f} against {truth.log_p[i]:.2f}"
        )


def _summary(found, truth):
    with np.errstate(invalid="ignore"):
        off = np.abs(found["log_p"] - truth.log_p)
        answered = np.isfinite(found["log_p"])
        off = off[answered]
        # An interval of the difference: the truth has an error of its own.
        slack = 1.96 * truth.error
        below = np.hypot(found["log_p"] - found["low"], slack)
        above = np.hypot(found["high"] - found["log_p"], slack)
        covers = (found["log_p"] - below <= truth.log_p) & (
            truth.log_p <= found["log_p"] + above
        )
    known = answered & ~np.isnan(found["high"])
    return {
        "answered": float(answered.mean()),
        "median_error": float(np.median(off)) if len(off) else None,
        "largest_factor": float(np.exp(off.max())) if len(off) else None,
        "within_2": float(np.mean(off <= np.log(2))) if len(off) else None,
        "within_3": float(np.mean(off <= np.log(3))) if len(off) else None,
        "within_10": float(np.mean(off <= np.log(10))) if len(off) else None,
        "overestimates": float(
            np.mean((found["log_p"] > truth.log_p)[answered]) if len(off) else 0
        ),
        "covered": float(covers[known].mean()) if known.any() else None,
        "evaluations": float(found["evaluations"].mean()),
        "seconds": found["seconds"],
    }


def _print(summary):
    print(
        f"\n{'':10}{'answered':>9}{'median':>8}{'largest':>9}{'within 2':>9}{'3':>6}"
        f"{'10':>6}{'above':>7}{'covered':>9}{'passes':>9}{'s/pair':>8}"
    )
    for name, row in summary.items():
        shown = {k: np.nan if v is None else v for k, v in row.items()}
        print(
            f"{name:10}{shown['answered']:9.1%}{shown['median_error']:8.3f}"
            f"{shown['largest_factor']:9.3g}{shown['within_2']:9.0%}"
            f"{shown['within_3']:6.0%}{shown['within_10']:6.0%}"
            f"{shown['overestimates']:7.0%}{shown['covered']:9.1%}"
            f"{shown['evaluations']:9,.0f}{shown['seconds']:8.3f}"
        )
    print(
        "median: of the absolute error of ln p; above: share of overestimates; "
        "covered: by the 95 % interval, the truth's error in quadrature; passes: "
        "forward passes, a gradient is three\n"
    )


def _figure(rows, truth):
    figure, panels = plt.subplots(
        1,
        len(rows),
        figsize=(3 * len(rows), 3.6),
        sharex=True,
        sharey=True,
        layout="constrained",
        squeeze=False,
    )
    panels = panels[0]
    x = truth.log_p / np.log(10)
    for (name, found), axes in zip(rows.items(), panels):
        y = found["log_p"] / np.log(10)
        low = found["low"] / np.log(10)
        high = found["high"] / np.log(10)
        shown = np.isfinite(y)
        if not np.isnan(high).all():
            finite = shown & np.isfinite(low)
            axes.vlines(x[finite], low[finite], high[finite], color="0.7", linewidth=1)
        axes.plot([-12, 0], [-12, 0], color="0.5", linewidth=0.8)
        axes.plot(x[shown], y[shown], ".", markersize=4)
        axes.set_title(f"{name}: {shown.mean():.0%} answered", fontsize=10)
        axes.set_xlabel("truth, log10 p")
        axes.set_xlim(-10.5, 0.2)
        axes.set_ylim(-12.5, 0.2)
    panels[0].set_ylabel("estimate, log10 p")
    return figure


if __name__ == "__main__":
    flags.FLAGS.set_default("output", "results/roma")
    app.run(main)
