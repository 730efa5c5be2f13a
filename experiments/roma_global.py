r"""How often the intervals of RoMA's global robustness cover a known probability.

    python experiments/roma_global.py
    python experiments/roma_global.py --probabilities=1e-2 --num_inputs=300 --draws=64

Inputs are drawn from a known distribution: along one direction they are normal, with a
standard deviation of `--spreads` times that of the perturbation (in the L2 ball) in
that direction. Near them a linear classifier is distinctly wrong with a probability
that is a closed form of their position. Its mean over the distribution, the global
probability, is an integral. Each of `--runs` runs draws some inputs, and a few
perturbations of each. The script prints how often the 95 % interval of the
population covers the truth, its width beside Hoeffding's, and the draws' share of the
error. An exact one-sided test (5 % for all rows together, Holm) decides whether the
interval covers too rarely.

Up to `--network_inputs` inputs a run go through the network, all runs in one call. More
inputs are drawn from the closed form, which has the same distribution of hits.

It writes JSON into the folder `--output`, and takes 2 minutes on two CPU cores.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from absl import app, flags
from checks.of_intervals import counted
from common import define, files, hosts, intervals, known_modes, startup
from scipy import integrate, special, stats

import jaxrob

_PROBABILITIES = flags.DEFINE_list(
    "probabilities", ["1e-4", "1e-2", "0.3"], "Global probabilities, below 1/2."
)
_SPREADS = flags.DEFINE_list(
    "spreads", ["0.5", "2"], "Spread of the inputs, in that of their perturbations."
)
_NUM_INPUTS = flags.DEFINE_list("num_inputs", ["100", "1000", "10000"], "In a run.")
_DRAWS = flags.DEFINE_integer("draws", 8, "Perturbations of each input.", 8)
_NETWORK_INPUTS = flags.DEFINE_integer(
    "network_inputs", 1000, "Inputs of a run that go through the network, at most.", 0
)
_RUNS = flags.DEFINE_integer("runs", 500, "Runs of each.", 2)
_SEED = define.seed()
_OUTPUT = define.output("results/roma_global")

_DIM, _EPSILON, _DELTA = 20, 0.3, 0.6
# The perturbation's standard deviation along a direction; logits per deviation.
_DEVIATION = _EPSILON / np.sqrt(_DIM + 2)
_STEEPNESS = 6.0 / _DEVIATION
# The distribution of inputs is truncated at this many standard deviations, so that
# pixels stay in [0, 1].
_FARTHEST = 5.0
_CONFIDENCE = 0.95


@dataclasses.dataclass(frozen=True)
class Problem:
    """Inputs and a classifier whose global probability is known."""

    probability: float  # the probability of a distinct misclassification
    # The inputs' standard deviation along the direction, in perturbations'.
    spread: float
    boundary: float  # where the classifier's answer changes


def main(argv: Sequence[str]) -> None:
    startup.start(argv)
    problems, sizes = _checked()
    print(
        f"{'p':>7}{'spread':>7}{'inputs':>8}  {'through':8}{'covered':>8}{'width':>9}"
        f"{'Hoeffding':>10}{'wider':>6}{'draws share':>12}"
    )
    rows = []
    for problem in problems:
        few = [number for number in sizes if number <= _NETWORK_INPUTS.value]
        hits = _through_network(problem, few)
        for number in sizes:
            through = "network" if number in hits else "formula"
            found = hits[number] if number in hits else _by_formula(problem, number)
            rows.append(row := {"through": through, **_row(problem, found)})
            share = "-" if row["draws_share"] is None else f"{row['draws_share']:.0%}"
            print(
                f"{row['probability']:7g}{row['spread']:7g}{row['inputs']:8}  "
                f"{row['through']:8}{row['times_covered'] / row['runs']:8.1%}"
                f"{row['width']:9.5f}{row['hoeffding_width']:10.5f}{row['wider']:6}"
                f"{share:>12}",
                flush=True,
            )
    name = "p {probability:g}, {inputs}"
    found = intervals.named(rows, "times_covered", _RUNS.value, name)
    print(f"significantly below 95 %: {found}")
    print(f"wider than Hoeffding's: {sum(r['wider'] for r in rows)} intervals")
    files.save(_OUTPUT.value, "roma_global.json", rows)


def _checked() -> tuple[list[Problem], list[int]]:
    probabilities = define.probabilities(_PROBABILITIES.value)
    spreads = define.numbers("spreads", _SPREADS.value)
    sizes = define.numbers("num_inputs", _NUM_INPUTS.value, int)
    if any(not 0 < spread <= 5 for spread in spreads):
        raise app.UsageError(f"spreads must lie between 0 and 5; got {spreads}")
    if any(number < 2 for number in sizes):
        raise app.UsageError(f"num_inputs must be at least 2; got {sizes}")
    problems = []
    for spread in spreads:
        highest = _global_probability(spread, 0.0)
        for probability in probabilities:
            if probability < highest:
                boundary = _boundary(spread, probability)
                problems.append(Problem(probability, spread, boundary))
            else:
                # Most inputs lie too far from any boundary.
                print(f"spread {spread:g}: p is {highest:.2g} at most")
    if not problems:
        raise app.UsageError("none of the probabilities can be had with these spreads")
    return problems, sizes


def _local_probability(position: Any, boundary: float) -> Any:
    """Returns the probability at positions along the direction, for either class."""
    distance = np.abs(position - boundary) + special.logit(_DELTA) / _STEEPNESS
    # One coordinate s of a point in the unit ball: (1 + s) / 2 is Beta distributed.
    half = (_DIM + 1) / 2
    return special.betainc(half, half, (1 - np.minimum(distance / _EPSILON, 1)) / 2)


def _global_probability(spread: float, boundary: float) -> float:
    # Of inputs along the direction.
    positions = stats.truncnorm(-_FARTHEST, _FARTHEST, scale=spread * _DEVIATION)
    low, high = positions.support()
    kinks = [boundary - _EPSILON, boundary, boundary + _EPSILON]
    kinks = [kink for kink in kinks if low < kink < high]
    how = {"points": kinks, "limit": 500, "epsabs": 0, "epsrel": 1e-10}

    def density(z: float) -> Any:
        return positions.pdf(z) * _local_probability(z, boundary)

    return integrate.quad(density, low, high, **how)[0]


def _boundary(spread: float, probability: float) -> float:
    farthest = _EPSILON + _FARTHEST * spread * _DEVIATION
    return known_modes.threshold(
        lambda t: np.log(max(_global_probability(spread, t), 1e-300)),
        np.log(probability),
        0.95 * farthest,
    )


def _through_network(problem: Problem, sizes: Sequence[int]) -> dict[int, np.ndarray]:
    """Returns hits `[runs, n]` for each number n of inputs, in one call."""
    if not sizes:
        return {}
    number = _RUNS.value * sum(sizes)
    positions = _drawn(problem, number, np.random.default_rng(_SEED.value))
    direction = np.full(_DIM, _DIM**-0.5)
    images = 0.5 + positions[:, None] * direction
    variables = np.float32(direction), np.float32(problem.boundary)
    result = jaxrob.roma.assess(
        jaxrob.Classifier(_apply, variables),
        np.float32(images).reshape(number, _DIM, 1, 1),
        epsilon=_EPSILON, delta=_DELTA, norm="l2", num_samples=_DRAWS.value,
        estimator="count", key=jax.random.key(_SEED.value), mesh=hosts.mesh(),
    )  # fmt: skip
    ends = _RUNS.value * np.cumsum(sizes)
    parts = np.split(result.hits, ends[:-1])
    return {n: part.reshape(-1, n) for n, part in zip(sizes, parts)}


def _by_formula(problem: Problem, number: int) -> np.ndarray:
    """Returns hits `[runs, n]`, from the local probabilities."""
    rng = np.random.default_rng([_SEED.value, number])
    hits = np.empty((_RUNS.value, number), np.int32)
    for run in hits:
        positions = _drawn(problem, number, rng)
        local = _local_probability(positions, problem.boundary)
        run[:] = rng.binomial(_DRAWS.value, local)
    return hits


def _drawn(problem: Problem, number: int, rng: np.random.Generator) -> np.ndarray:
    least = special.ndtr(-_FARTHEST)
    chance = least + (1 - 2 * least) * rng.random(number)
    return problem.spread * _DEVIATION * special.ndtri(chance)


def _apply(variables: tuple[jax.Array, jax.Array], images: jax.Array) -> jax.Array:
    direction, boundary = variables
    flat = images.reshape(len(images), -1) - 0.5
    position = jnp.matmul(flat, direction, precision="highest")
    ahead = _STEEPNESS * (position - boundary)
    return jnp.stack([jnp.zeros_like(ahead), ahead], axis=-1)


def _row(problem: Problem, hits: np.ndarray) -> dict[str, Any]:
    how = {"by": "all", "confidence_level": _CONFIDENCE}
    found = [counted(one, _DRAWS.value).global_robustness(**how) for one in hits]
    low, high = np.array([one.population_interval[0] for one in found]).T
    mean = np.array([one.probability[0] for one in found])
    truth, number = problem.probability, hits.shape[1]
    half = np.sqrt(np.log(2 / (1 - _CONFIDENCE)) / (2 * number))
    hoeffding = np.minimum(mean + half, 1) - np.maximum(mean - half, 0)
    draws, all_of_it = (
        np.mean([getattr(one, name)[0] for one in found])
        for name in ("draws_variance", "variance")
    )
    row = {"probability": truth, "spread": problem.spread, "inputs": number}
    row |= {"draws": _DRAWS.value, "runs": len(hits)}
    return row | {
        "times_covered": int(((low <= truth) & (truth <= high)).sum()),
        "width": float(np.mean(high - low)),
        "hoeffding_width": float(np.mean(hoeffding)),
        "wider": int((high - low > hoeffding + 1e-12).sum()),
        "draws_share": float(draws / all_of_it) if all_of_it else None,
        "bias": float(mean.mean() / truth - 1),
    }


if __name__ == "__main__":
    app.run(main)
