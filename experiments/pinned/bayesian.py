"""Bayesian networks, ensembles and dropout."""

from typing import Any

import jax
import jax.numpy as jnp
from flax import linen

import jaxrob
from jaxrob import bayes, networks, strategies
from pinned import world

SETTINGS = {"epochs": 2, "batch_size": 20, "key": world.KEY}


def variational() -> Any:
    """Variational networks by guide and head."""
    found = {}
    many = {"head": "heteroscedastic", "noise_draws": 3}
    for name, given in (
        ("mean field", {}),
        ("heteroscedastic", many),
        ("full rank", {"guide": "full_rank"}),
        ("wide prior", {"prior_scale": 3.0, "num_particles": 2}),
    ):
        posterior = bayes.svi(
            _module(6 if "head" in given else 3), world.dataset(), **SETTINGS, **given
        )
        made = bayes.classifier(posterior, 3, key=jax.random.key(1))
        found[name] = {
            "posterior": posterior,
            "classifier": made,
            "answers": _answers(made),
        }
    return found


def chain() -> Any:
    return bayes.nuts(
        _module(), world.dataset(), key=world.KEY, num_warmup=2, num_draws=3
    )


def fitted_and_assessed() -> Any:
    """An assessment that may answer "unknown", at several alphas."""
    made = bayes.fit(_module(), world.dataset(), num_samples=3, **SETTINGS)
    found = jaxrob.assess(
        made, world.dataset(), world.blur(), 0.4, "effectiveness", alpha=0.3,
        strategy=strategies.Uniform(4), key=world.KEY,
    )  # fmt: skip
    assert isinstance(found, jaxrob.Assessment)
    assert isinstance(found.curve, jaxrob.Curve)
    curve = found.curve
    unknown = {alpha: curve.with_unknown(alpha) for alpha in (0.1, 0.5)}
    return {"assessment": found, "unknown": unknown}


def ensemble() -> Any:
    made = bayes.ensemble(world.linear, [world.variables(seed) for seed in (3, 4, 5)])
    return {
        "answers": _answers(made),
        "curve": jaxrob.evaluate(made, world.dataset(), world.blur(), [0.0, 2.0]),
    }


class _Dropping(linen.Module):
    @linen.compact
    def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
        x = linen.Dropout(0.5, deterministic=not train)(x.reshape(len(x), -1))
        return linen.Dense(3)(x)


def dropout() -> Any:
    module = _Dropping()
    variables = module.init(jax.random.key(2), jnp.zeros((1, 8, 8, 1)))
    made = bayes.mc_dropout(module, variables, num_samples=4)
    return jaxrob.evaluate(
        made, world.dataset(), world.noise(), [0.0, 0.2], key=world.KEY, batch_size=25
    )


def saved() -> Any:
    posterior = bayes.svi(_module(), world.dataset(), **SETTINGS)
    bayes.save("posterior.npz", posterior)
    bayes.save("classifier.npz", bayes.classifier(posterior, 2, key=world.KEY))
    return {
        "posterior": bayes.load("posterior.npz", _module()),
        "answers": _answers(bayes.load("classifier.npz", _module())),
    }


def _answers(classifier: Any) -> Any:
    """Returns a classifier's answers on some images."""
    keys = jax.random.split(jax.random.key(5), 8) if classifier.stochastic else None
    return classifier.log_probabilities(jnp.asarray(world.grey()[:8]), keys)


def _module(outputs: int = 3) -> linen.Module:
    return networks.MLP((4,), outputs)
