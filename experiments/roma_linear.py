r"""How often RoMA's intervals cover a probability that is known exactly.

    python experiments/roma_linear.py
    python experiments/roma_linear.py --dims=784 --estimators=splitting --runs=50

A classifier with linear logits is distinctly wrong in a part of the ball whose volume
has a closed form (L2, the Beta distribution) or is an integral (L-infinity). Every
estimator is run `--runs` times, with other random numbers, for each dimension, norm and
probability; the script prints the share of the 95 % intervals that cover the truth,
bias and spread of ln p, and the cost, and writes JSON into the folder `--output`. It
takes 6 minutes on two CPU cores.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from absl import app, flags
from common import define, files, hosts, linear_truth, startup
from scipy import special

import jaxrob

_DIMS = flags.DEFINE_list("dims", ["20", "784"], "Pixels of an image.")
_NORMS = define.choices("norms", ["linf", "l2"], ("linf", "l2"), "Norms of the ball")
_PROBABILITIES = flags.DEFINE_list(
    "probabilities", ["1e-2", "1e-6", "1e-10"], "Probabilities, below 1/2."
)
_ESTIMATORS = define.estimators(
    ["importance", "splitting"],
    ("importance", "splitting", "auto", "count"),
    "Estimators with an interval",
)
_RUNS = flags.DEFINE_integer("runs", 200, "Runs of each.", 2)
_SEED = define.seed()
_OUTPUT = define.output("results/roma_linear")

_EPSILON, _DELTA = 0.1, 0.6
# Logits in a standard deviation of their linear part.
_STEEPNESS = 6.0


def main(argv: Sequence[str]) -> None:
    startup.start(argv)
    dims, probabilities = _checked()
    print(
        f"{'estimator':11}{'pixels':>7}{'norm':>6}{'p':>8}{'answered':>10}"
        f"{'covered':>9}{'bias':>8}{'spread':>8}{'passes':>9}"
    )
    rows = []
    for estimator in _ESTIMATORS.value:
        for dim in dims:
            for norm in _NORMS.value:
                for probability in probabilities:
                    row = _measure(estimator, dim, norm, probability)
                    rows.append(row)
                    print(
                        f"{estimator:11}{dim:7}{norm:>6}{probability:8.0e}"
                        f"{row['answered']:10.1%}{row['covered']:9.1%}"
                        f"{row['bias']:+8.3f}{row['spread']:8.3f}"
                        f"{row['evaluations']:9,.0f}",
                        flush=True,
                    )
    print("bias and spread: mean and standard deviation of the error of ln p")
    path = files.output_folder(_OUTPUT.value) / "roma_linear.json"
    files.write_json(path, rows)
    print(f"wrote {path}")


def _checked() -> tuple[list[int], list[float]]:
    """The dimensions and probabilities as numbers."""
    try:
        dims = [int(dim) for dim in _DIMS.value]
        probabilities = [float(p) for p in _PROBABILITIES.value]
    except ValueError as error:
        raise app.UsageError(
            f"dims and probabilities must be numbers: {error}"
        ) from None
    if any(dim < 3 for dim in dims):
        raise app.UsageError(f"dims must be at least 3; got {dims}")
    if any(not 0 < p < 0.5 for p in probabilities):
        raise app.UsageError(
            f"probabilities must lie between 0 and 1/2; got {probabilities}"
        )
    return dims, probabilities


def _measure(estimator: str, dim: int, norm: str, probability: float) -> dict[str, Any]:
    log_p = np.log(probability)
    # One image at many indices: as many independent runs, in one call.
    result = jaxrob.roma.assess(
        _classifier(dim, norm, log_p),
        np.full((_RUNS.value, dim, 1, 1), 0.5, np.float32),
        epsilon=_EPSILON,
        delta=_DELTA,
        norm=norm,
        estimator=estimator,
        key=jax.random.key(_SEED.value),
        mesh=hosts.mesh(),
    )
    off = result.log_adversarial_probability - log_p
    covers = (result.log_low <= log_p) & (log_p <= result.log_high)
    answered = np.isfinite(off)
    return {
        "estimator": estimator,
        "dim": dim,
        "norm": norm,
        "probability": probability,
        "runs": len(off),
        "answered": float(answered.mean()),
        "covered": float(covers.mean()),
        "bias": float(off[answered].mean()),
        "spread": float(off[answered].std()),
        "evaluations": float(result.evaluations.mean()),
    }


def _classifier(dim: int, norm: str, log_p: float) -> jaxrob.Classifier:
    """Two classes, distinctly wrong around 1/2 with the probability given."""
    weights = np.random.default_rng(_SEED.value).standard_normal(dim)
    if norm == "linf":
        deviation = np.sqrt((weights**2).sum() / 3)
        highest = float(np.abs(weights).sum())
    else:
        highest = float(np.linalg.norm(weights))
        deviation = highest / np.sqrt(dim + 2)

    def log_probability(t: float) -> float:
        if norm == "linf":
            return linear_truth.linear_linf_log_probability(weights, t)
        return linear_truth.linear_l2_log_probability(highest, dim, t)

    far = linear_truth.threshold(log_probability, log_p, 0.999 * highest)
    scale = _STEEPNESS / deviation
    offset = special.logit(_DELTA) - scale * far
    return jaxrob.Classifier(_apply, (np.float32(scale * weights), np.float32(offset)))


def _apply(variables: tuple[jax.Array, jax.Array], images: jax.Array) -> jax.Array:
    weights, offset = variables
    u = (images.reshape(len(images), -1) - 0.5) / _EPSILON
    wrong = jnp.matmul(u, weights, precision="highest") + offset
    return jnp.stack([jnp.zeros_like(wrong), wrong], axis=-1)


if __name__ == "__main__":
    app.run(main)
