r"""How often RoMA's intervals cover a probability that is known exactly.

    python experiments/roma_linear.py
    python experiments/roma_linear.py --dims=784 --estimators=splitting --runs=50
    python experiments/roma_linear.py --norms=gaussian,l2 --probabilities=1e-6 \
      --estimators=auto

A classifier with linear logits is distinctly wrong in a part of the ball whose volume
has a closed form (L2, the Beta distribution) or is an integral (L-infinity). With
normal noise, which has no ball and no tilt, the truth is the normal tail. Every
estimator is run `--runs` times, with other random numbers, for each dimension, norm and
probability; the script prints the share of the 95 % intervals that cover the truth,
bias and spread of ln p, the mean relative error of p, and the cost, and writes JSON
into the folder `--output`. It takes 6 minutes on two CPU cores.
"""

import itertools
import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from absl import app, flags
from common import define, files, hosts, known_modes, startup
from scipy import special

import jaxrob

_DIMS = flags.DEFINE_list("dims", ["20", "784"], "Pixels of an image.")
_KINDS = ("linf", "l2", "gaussian")
_NORMS = define.choices(
    "norms", list(_KINDS[:2]), _KINDS, "Norms of the ball, or normal noise"
)
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
# Logits per standard deviation of their linear part.
_STEEPNESS = 6.0


def main(argv: Sequence[str]) -> None:
    startup.start(argv)
    dims = define.numbers("dims", _DIMS.value, int)
    if any(dim < 3 for dim in dims):
        raise app.UsageError(f"dims must be at least 3; got {dims}")
    if "gaussian" in _NORMS.value and "importance" in _ESTIMATORS.value:
        raise app.UsageError(
            "importance needs a ball; with --norms=gaussian take --estimators=splitting"
        )
    probabilities = define.probabilities(_PROBABILITIES.value)
    print(
        f"{'estimator':11}{'pixels':>7}{'norm':>10}{'p':>8}{'answered':>10}"
        f"{'covered':>9}{'bias':>8}{'spread':>8}{'relative':>10}{'passes':>9}"
    )
    rows = []
    cases = _ESTIMATORS.value, dims, _NORMS.value, probabilities
    for estimator, dim, norm, probability in itertools.product(*cases):
        rows.append(row := _measure(estimator, dim, norm, probability))
        print(
            f"{estimator:11}{dim:7}{norm:>10}{probability:8.0e}"
            f"{row['answered']:10.1%}{row['covered']:9.1%}"
            f"{row['bias']:+8.3f}{row['spread']:8.3f}"
            f"{row['relative_error']:10.3f}{row['evaluations']:9,.0f}",
            flush=True,
        )
    print("bias and spread: mean and standard deviation of the error of ln p")
    files.save(_OUTPUT.value, "roma_linear.json", rows)


def _measure(estimator: str, dim: int, norm: str, probability: float) -> dict[str, Any]:
    log_p = np.log(probability)
    of_kind = {"perturbation": _NOISE} if norm == "gaussian" else {"norm": norm}
    # The image at many indices gives as many independent runs in one call.
    result = jaxrob.roma.assess(
        _classifier(dim, norm, log_p),
        np.full((_RUNS.value, dim, 1, 1), 0.5, np.float32),
        epsilon=_EPSILON, delta=_DELTA, estimator=estimator, budget=math.inf,
        key=jax.random.key(_SEED.value), mesh=hosts.mesh(), **of_kind,
    )  # fmt: skip
    off = result.log_adversarial_probability - log_p
    covers = (result.log_low <= log_p) & (log_p <= result.log_high)
    answered = np.isfinite(off)
    row = {"estimator": estimator, "dim": dim, "norm": norm, "runs": len(off)}
    return row | {
        "probability": probability,
        "answered": float(answered.mean()),
        "covered": float(covers.mean()),
        "bias": float(off[answered].mean()),
        "spread": float(off[answered].std()),
        "relative_error": float(np.abs(np.expm1(off[answered])).mean()),
        "evaluations": float(result.evaluations.mean()),
    }


def _classifier(dim: int, norm: str, log_p: float) -> jaxrob.Classifier:
    """Returns two classes, distinctly wrong around 1/2 with this probability."""
    weights = np.random.default_rng(_SEED.value).standard_normal(dim)
    length = float(np.linalg.norm(weights))
    deviation = length / np.sqrt({"linf": 3, "l2": dim + 2, "gaussian": 1}[norm])
    highest = float(np.abs(weights).sum()) if norm == "linf" else length

    def log_probability(t: float) -> float:
        return known_modes.linear_log_probability(weights, t, norm)

    if norm == "gaussian":
        far = -length * special.ndtri_exp(log_p)
    else:
        far = known_modes.threshold(log_probability, log_p, 0.999 * highest)
    scale = _STEEPNESS / deviation
    offset = special.logit(_DELTA) - scale * far
    return jaxrob.Classifier(_apply, (np.float32(scale * weights), np.float32(offset)))


def _apply(variables: tuple[jax.Array, jax.Array], images: jax.Array) -> jax.Array:
    weights, offset = variables
    u = (images.reshape(len(images), -1) - 0.5) / _EPSILON
    wrong = jnp.matmul(u, weights, precision="highest") + offset
    return jnp.stack([jnp.zeros_like(wrong), wrong], axis=-1)


def _draw_noise(key: jax.Array, image: jax.Array) -> jax.Array:
    return jax.random.normal(key, image.shape)


def _add_noise(image: jax.Array, latent: jax.Array, size: Any) -> jax.Array:
    return image + size * latent


def _move_noise(key: jax.Array, latent: jax.Array, share: jax.Array) -> jax.Array:
    fresh = jax.random.normal(key, latent.shape)
    return jnp.sqrt(1 - share) * latent + jnp.sqrt(share) * fresh


_NOISE = jaxrob.roma.Perturbation(
    "normal noise", _draw_noise, _add_noise, _move_noise, size=_EPSILON
)


if __name__ == "__main__":
    app.run(main)
