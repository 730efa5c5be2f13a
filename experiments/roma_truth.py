r"""The accuracy of RoMA's estimators: probabilities from 1e-10 to 1/2, truth known.

    python experiments/roma_truth.py
    python experiments/roma_truth.py --benchmark=mnist --network=mlp --pairs=200

Chooses pairs of an input and an epsilon whose probabilities of a distinct
misclassification spread evenly over the powers of ten, computes the truth, runs every
estimator with another key, and prints its error, the coverage of its 95 % interval, and
its cost. The truth is counted among direct draws if the probability is above 1e-4;
below, it is the mean of runs of multilevel splitting, an estimator without gradients or
weights, whose spread measures the truth's error.
Writes JSON and a figure of estimate against truth into the folder `--output`. On two
CPU cores it takes minutes with `--network=mlp`; with the default, a convolutional
network with pooling, it may take more than an hour.
"""

import itertools
import math
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from absl import app, flags
from common import benchmarks, define, files, hosts, journals, startup
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from scipy import special

import jaxrob
from jaxrob import roma

flags.adopt_module_key_flags(benchmarks)
flags.set_default(benchmarks.OUTPUT, "results/roma")
_PAIRS = flags.DEFINE_integer("pairs", 40, "Pairs of an input and an epsilon.", 1)
_EPSILONS = define.epsilons(
    ["0.05", "0.075", "0.1", "0.15", "0.2", "0.25", "0.3", "0.35", "0.4"],
    "Radii to choose from.",
)
_RAREST = flags.DEFINE_float("rarest", 1e-10, "Probabilities are not below this.")
_ESTIMATORS = define.estimators(
    ["roma", "count", "splitting", "auto"], help="Estimators to compare."
)
_BUDGET = define.budget()
_DELTA = define.delta()
_NORM = flags.DEFINE_enum("norm", "linf", ("linf", "l2"), "Norm of the ball.")
_SAMPLES = define.num_samples(1000)
_RUNS = flags.DEFINE_integer("runs", 12, "Runs whose mean is a rare truth.", 2)
_DRAWS = flags.DEFINE_integer("draws", 1000000, "Direct draws at most.", 1000)

_COMMON = 0.5
# A truth whose ln p has a larger error is no standard for estimators.
_LARGEST_ERROR = 0.2
# Above this p the truth is counted, if draws reach this error of ln p.
_COUNTED = 1e-4
_COUNTED_ERROR = 0.03


class _Pairs(NamedTuple):
    """Inputs `[P]`, each with the radius of its ball."""

    which: np.ndarray  # the input's number in the test set
    images: np.ndarray  # [P, H, W, C]
    epsilon: np.ndarray


class _Truth(NamedTuple):
    log_p: np.ndarray  # [P]
    error: np.ndarray  # [P], of log_p


class _Estimates(NamedTuple):
    """An estimator's results `[P]`; logarithms are natural."""

    log_p: np.ndarray
    low: np.ndarray  # of the 95 % interval, and
    high: np.ndarray
    status: np.ndarray
    evaluations: np.ndarray  # forward passes


def _some(values: Any, which: np.ndarray) -> Any:
    return type(values)(*(one[which] for one in values))


def main(argv: Sequence[str]) -> None:
    startup.start(argv)
    benchmark = benchmarks.load()
    classifier = benchmark.classifier
    keys = jax.random.split(benchmarks.key(), 4)
    pairs = _choose(classifier, benchmark.test_set.images, keys[0])
    epsilon = pairs.epsilon
    print(f"{len(epsilon)} pairs, epsilon {epsilon.min():g} to {epsilon.max():g}")
    truth = _truth(classifier, pairs, keys)
    known = np.isfinite(truth.log_p) & (truth.error < _LARGEST_ERROR)
    print(f"the truth is known within {_LARGEST_ERROR:g} for {known.sum()} of them")
    if not known.any():
        raise app.UsageError("no truth is known: try more --runs or --draws")
    pairs, truth = _some(pairs, known), _some(truth, known)
    found, seconds = {}, {}
    for estimator in _ESTIMATORS.value:
        start = time.perf_counter()
        found[estimator] = _estimate(classifier, pairs, keys[3], estimator, "compared")
        seconds[estimator] = (time.perf_counter() - start) / len(pairs.which)
    if "auto" in found:
        _check(truth, found["auto"], pairs)
    summary = {
        name: _summary(one, truth) | {"seconds": seconds[name]}
        for name, one in found.items()
    }
    _print(summary)
    if "auto" in found:
        for stage, number in zip(*np.unique(found["auto"].status, return_counts=True)):
            print(f"auto, {stage}: {number} pairs")
    _write(pairs, truth, found, summary)


def _choose(
    classifier: jaxrob.Classifier, images: np.ndarray, key: jax.Array
) -> _Pairs:
    epsilons = np.array([float(epsilon) for epsilon in _EPSILONS.value])
    log_p = [
        _normal_tail(_assess(classifier, images, epsilon, key, "roma", "choice"))
        for epsilon in epsilons
    ]
    log_p = np.array(log_p) / np.log(10)
    random = np.random.default_rng(benchmarks.SEED.value)
    edges = np.linspace(np.log10(_RAREST.value), np.log10(_COMMON), 22)
    bins = [
        random.permutation(np.argwhere((log_p >= low) & (log_p < high)))
        for low, high in zip(edges, edges[1:])
    ]
    # One of each bin per round, until there are enough.
    turns = itertools.zip_longest(*bins)
    in_turn = [pair for turn in turns for pair in turn if pair is not None]
    if not in_turn:
        raise app.UsageError("no probability lies in the range: try other epsilons")
    radius, which = np.array(in_turn[: _PAIRS.value]).T
    return _Pairs(which, images[which], epsilons[radius])


def _normal_tail(found: roma.RomaResult) -> np.ndarray:
    """Algorithm 1's ln p, also where its test of normality fails."""
    assert found.boxcox_lambda is not None
    lmbda, delta = found.boxcox_lambda, found.delta
    bound = np.where(np.isnan(lmbda), delta, special.boxcox(delta, lmbda))
    return special.log_ndtr((found.mean - bound) / found.std)


def _truth(classifier: jaxrob.Classifier, pairs: _Pairs, keys: jax.Array) -> _Truth:
    runs = _RUNS.value
    log_p, error = _counted(classifier, pairs, keys[2])
    rare = np.flatnonzero(~(log_p >= np.log(_COUNTED)))
    if not len(rare):
        return _Truth(log_p, error)
    repeated = _some(pairs, np.repeat(rare, runs))
    many = _estimate(classifier, repeated, keys[1], "splitting", "truth").log_p
    many = many.reshape(-1, runs)
    mean = special.logsumexp(many, axis=1) - np.log(runs)
    spread = np.std(np.exp(many - mean[:, None]), axis=1, ddof=1)
    log_p[rare], error[rare] = mean, spread / np.sqrt(runs)
    return _Truth(log_p, error)


def _counted(
    classifier: jaxrob.Classifier, pairs: _Pairs, key: jax.Array
) -> tuple[np.ndarray, np.ndarray]:
    """Log-probabilities by direct draws, and their errors."""
    # Each round draws ten times as many, for the pairs that had too few hits.
    log_p, error = np.full((2, len(pairs.which)), np.inf)
    left, draws = np.arange(len(log_p)), min(10000, _DRAWS.value)
    while len(left):
        given = classifier, _some(pairs, left), key, "count", "truth", draws
        found = _estimate(*given).log_p
        log_p[left] = found
        with np.errstate(over="ignore"):
            error[left] = np.sqrt((np.exp(-found) - 1) / draws)
        left = left[(error[left] > _COUNTED_ERROR) & (draws < _DRAWS.value)]
        draws = min(10 * draws, _DRAWS.value)
    return log_p, error


def _estimate(
    classifier: jaxrob.Classifier,
    pairs: _Pairs,
    key: jax.Array,
    estimator: str,
    stage: str,
    num_samples: int | None = None,
) -> _Estimates:
    found, order = [], []
    for radius in np.unique(pairs.epsilon):
        mine = np.flatnonzero(pairs.epsilon == radius)
        how = radius, key, estimator, stage, num_samples
        one = _assess(classifier, pairs.images[mine], *how)
        log_p = one.log_adversarial_probability
        values = log_p, one.log_low, one.log_high, one.status, one.evaluations
        found.append(values)
        order.append(mine)
    whole = _Estimates(*map(np.concatenate, zip(*found)))
    return _some(whole, np.argsort(np.concatenate(order)))


def _assess(
    classifier: jaxrob.Classifier,
    images: np.ndarray,
    epsilon: float,
    key: jax.Array,
    estimator: str,
    stage: str,
    num_samples: int | None = None,
) -> roma.RomaResult:
    budget = _BUDGET.value if estimator == "auto" else 0
    name = f"{benchmarks.title()}-{_NORM.value}" + (f"-{budget}" if budget else "")
    return roma.assess(
        classifier,
        images,
        epsilon=float(epsilon),
        delta=_DELTA.value,
        norm=_NORM.value,
        num_samples=num_samples or _SAMPLES.value,
        estimator=estimator,
        budget=budget or math.inf,
        key=key,
        journal=journals.path(f"{name}-{stage}-{estimator}-{epsilon:g}"),
        mesh=hosts.mesh(),
        progress=benchmarks.PROGRESS.value,
    )


def _check(truth: _Truth, auto: _Estimates, pairs: _Pairs) -> None:
    error = np.maximum((auto.high - auto.low) / (2 * 1.96), 1e-9)
    score = (auto.log_p - truth.log_p) / np.hypot(error, truth.error)
    used = np.isfinite(auto.log_p)
    print(
        f"auto less truth: mean {np.mean(score[used]):+.2f}, rms "
        f"{np.sqrt(np.mean(score[used] ** 2)):.2f} of {used.sum()} scores; the truth's "
        f"own error: median {np.median(truth.error):.3f}, largest "
        f"{truth.error.max():.3f}"
    )
    for i in np.flatnonzero(used & (np.abs(score) > 3)):
        print(
            f"  disagree: input {pairs.which[i]}, epsilon {pairs.epsilon[i]:g}: ln p "
            f"{auto.log_p[i]:.2f} against {truth.log_p[i]:.2f}"
        )


def _summary(found: _Estimates, truth: _Truth) -> dict[str, float | None]:
    with np.errstate(invalid="ignore"):
        off = np.abs(found.log_p - truth.log_p)
        answered = np.isfinite(found.log_p)
        off, above = off[answered], (found.log_p > truth.log_p)[answered]
        # An interval of the difference, because the truth itself has an error.
        slack = 1.96 * truth.error
        low = found.log_p - np.hypot(found.log_p - found.low, slack)
        high = found.log_p + np.hypot(found.high - found.log_p, slack)
        covers = (low <= truth.log_p) & (truth.log_p <= high)
    known = answered & ~np.isnan(found.high)
    return {
        "answered": float(answered.mean()),
        "median_error": float(np.median(off)) if len(off) else None,
        "largest_factor": float(np.exp(off.max())) if len(off) else None,
        **{
            f"within_{factor}": float(np.mean(off <= np.log(factor)))
            if len(off)
            else None
            for factor in (2, 3, 10)
        },
        "overestimates": float(np.mean(above)) if len(off) else 0.0,
        "covered": float(covers[known].mean()) if known.any() else None,
        "evaluations": float(found.evaluations.mean()),
    }


def _print(summary: Mapping[str, Mapping[str, float | None]]) -> None:
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


def _write(
    pairs: _Pairs, truth: _Truth, found: Mapping[str, _Estimates], summary: Any
) -> None:
    folder = benchmarks.output()
    name = f"roma_truth-{benchmarks.title()}-{_NORM.value}-{_DELTA.value:g}"
    document = {
        "input": pairs.which,
        "epsilon": pairs.epsilon,
        "log_truth": truth.log_p,
        "truth_error": truth.error,
        "estimates": {name: one._asdict() for name, one in found.items()},
        "summary": summary,
    }
    files.write_json(folder / f"{name}.json", document)
    _figure(found, truth).savefig(folder / f"{name}.png", dpi=110)
    print(f"wrote {folder / name}.json and .png")


def _figure(found: Mapping[str, _Estimates], truth: _Truth) -> Figure:
    how = {"sharex": True, "sharey": True, "layout": "constrained", "squeeze": False}
    size = 3 * len(found), 3.6
    figure, (panels,) = plt.subplots(1, len(found), figsize=size, **how)
    x = truth.log_p / np.log(10)
    for (name, one), axes in zip(found.items(), panels):
        y, low, high = (
            values / np.log(10) for values in (one.log_p, one.low, one.high)
        )
        shown = np.isfinite(y)
        if not np.isnan(high).all():
            finite = shown & np.isfinite(low)
            axes.vlines(x[finite], low[finite], high[finite], color="0.7", linewidth=1)
        axes.plot([-12, 0], [-12, 0], color="0.5", linewidth=0.8)
        axes.plot(x[shown], y[shown], ".", markersize=4)
        axes.set_title(f"{name}: {shown.mean():.0%} answered", fontsize=10)
        limits = {"xlim": (-10.5, 0.2), "ylim": (-12.5, 0.2)}
        axes.set(xlabel="truth, log10 p", **limits)
    panels[0].set_ylabel("estimate, log10 p")
    return figure


if __name__ == "__main__":
    app.run(main)
