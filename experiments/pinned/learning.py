"""Training and retraining for a round or two, and Bayesian networks."""

from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import linen, nnx

from jaxrob import alterations, bayes, networks, retraining, strategies, training
from pinned import world
from pinned.world import evaluated

_BAYESIAN = {"epochs": 2, "batch_size": 20, "key": world.KEY}
_TRAINED = {"key": world.KEY, "epochs": 2, "batch_size": 16}
_MODULE = networks.MLP((4,), 3)
_ALTERATIONS = [world.BLUR, world.NOISE]


def _variational() -> Any:
    """Variational networks by guide and head."""
    found = {}
    for name, outputs, given in (
        ("mean field", 3, {}),
        ("heteroscedastic", 6, {"head": "heteroscedastic", "noise_draws": 3}),
        ("full rank", 3, {"guide": "full_rank"}),
        ("wide prior", 3, {"prior_scale": 3.0, "num_particles": 2}),
    ):
        module = networks.MLP((4,), outputs)
        posterior = bayes.svi(module, world.DATASET, **_BAYESIAN, **given)
        made = bayes.classifier(posterior, 3, key=jax.random.key(1))
        found[name] = {
            "posterior": posterior,
            "classifier": made,
            "answers": _answers(made),
        }
    return found


def _fitted_and_assessed() -> Any:
    """An assessment that may answer "unknown", at several alphas."""
    found = world.assessed(
        classifier=bayes.fit(_MODULE, world.DATASET, num_samples=3, **_BAYESIAN),
        threshold=0.4, measure="effectiveness", alpha=0.3,
        strategy=strategies.Uniform(4),
    )  # fmt: skip
    unknown = {alpha: found.curve.with_unknown(alpha) for alpha in (0.1, 0.5)}
    return {"assessment": found, "unknown": unknown}


def _ensemble() -> Any:
    made = bayes.ensemble(world.linear, [world.variables(seed) for seed in (3, 4, 5)])
    return {"answers": _answers(made), "curve": _with_curve(made)["curve"]}


def _with_curve(made: Any) -> Any:
    curve = evaluated(world.BLUR, [0.0, 2.0], classifier=made)
    return {"made": made, "curve": curve}


class _Dropping(linen.Module):
    @linen.compact
    def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
        x = linen.Dropout(0.5, deterministic=not train)(x.reshape(len(x), -1))
        return linen.Dense(3)(x)


def _dropout() -> Any:
    module = _Dropping()
    variables = module.init(jax.random.key(2), jnp.zeros((1, 8, 8, 1)))
    made = bayes.mc_dropout(module, variables, num_samples=4)
    given = {"key": world.KEY, "batch_size": 25}
    return evaluated(world.NOISE, [0.0, 0.2], classifier=made, **given)


def _saved() -> Any:
    posterior = bayes.svi(_MODULE, world.DATASET, **_BAYESIAN)
    bayes.save("posterior.npz", posterior)
    bayes.save("classifier.npz", bayes.classifier(posterior, 2, key=world.KEY))
    return {
        "posterior": bayes.load("posterior.npz", _MODULE),
        "answers": _answers(bayes.load("classifier.npz", _MODULE)),
    }


def _answers(classifier: Any) -> Any:
    """A classifier's answers on some images."""
    keys = jax.random.split(jax.random.key(5), 8) if classifier.stochastic else None
    return classifier.log_probabilities(jnp.asarray(world.GREY[:8]), keys)


def _fitted() -> Any:
    """Linen and NNX, and the state after each epoch."""
    epochs = []
    return {
        "linen": training.fit(
            _MODULE, world.DATASET, **_TRAINED,
            on_epoch=lambda number, one: epochs.append([number, one]),
        ),
        "epochs": epochs,
        "adam": training.fit(
            _MODULE, world.DATASET, key=world.KEY, images_seen=100,
            batch_size=16, optimizer=optax.adam(0.01),
        ),
        "nnx": training.fit(_Plain(nnx.Rngs(0)), world.DATASET, **_TRAINED),
    }  # fmt: skip


class _Plain(nnx.Module):
    def __init__(self, rngs: nnx.Rngs):
        self.layer = nnx.Linear(64, 3, rngs=rngs)

    def __call__(self, images: jax.Array) -> jax.Array:
        return self.layer(images.reshape(len(images), -1))


class _Statistics(linen.Module):
    """A network with batch statistics and dropout."""

    @linen.compact
    def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
        x = linen.Dense(6)(x.reshape(len(x), -1))
        x = linen.BatchNorm(use_running_average=not train)(x)
        return linen.Dense(3)(linen.Dropout(0.3, deterministic=not train)(x))


def _stop(number: int, _: Any) -> None:
    if number == 1:
        raise RuntimeError("the machine is taken away")


def _resumed() -> Any:
    """Training stopped after an epoch, and resumed from a checkpoint."""
    found = []
    for on_epoch, folder in ((None, None), (_stop, "here"), (None, "here")):
        settings = _TRAINED | {"epochs": 3, "on_epoch": on_epoch, "checkpoint": folder}
        try:
            found.append(training.fit(_Statistics(), world.DATASET, **settings))
        except RuntimeError as error:
            found.append(str(error))
    return found


def _retrained(method: str, **given: Any) -> Any:
    retrain = getattr(retraining, method)
    return retrain(_MODULE, world.DATASET, _ALTERATIONS, **_TRAINED, **given)


def _what_is_weak() -> Any:
    weak = retraining.weak_alterations(
        world.classifier(), world.DATASET, _ALTERATIONS, key=world.KEY, threshold=0.8,
        levels=5,
    )  # fmt: skip
    together = retraining.parallel(world.classifier(), world.classifier(9))
    return {
        "weak": [one.name for one in weak],
        "sizes": retraining.input_sizes(100, _ALTERATIONS, weak),
        "copies": [retraining.copies(one) for one in alterations.presets.cnn_2020()],
        "parallel": evaluated(world.BLUR, [0, 1], classifier=together),
    }


CASES = {
    "bayesian.variational": _variational,
    "bayesian.chain": lambda: bayes.nuts(
        _MODULE, world.DATASET, key=world.KEY, num_warmup=2, num_draws=3
    ),
    "bayesian.fitted_and_assessed": _fitted_and_assessed,
    "bayesian.ensemble": _ensemble,
    "bayesian.dropout": _dropout,
    "bayesian.saved": _saved,
    "training.fitted": _fitted,
    "training.resumed": _resumed,
    "training.data_augmentation": lambda: {
        levels: _retrained("data_augmentation", levels=levels)
        for levels in ("random", "grid")
    },
    "training.limited_data_augmentation": lambda: _retrained(
        "limited_data_augmentation", threshold=0.9, classifier=world.classifier(),
        validation=world.DATASET[:30],
    ),
    "training.network_parallelization": lambda: _with_curve(
        _retrained("network_parallelization", classifier=world.classifier())
    ),
    "training.limited_network_parallelization": lambda: _retrained(
        "limited_network_parallelization", classifier=world.classifier(),
        robustness=[0.3, 0.9], levels="grid",
    ),
    "training.worst_level": lambda: _retrained("worst_level", candidates=2),
    "training.what_is_weak": _what_is_weak,
}  # fmt: skip
