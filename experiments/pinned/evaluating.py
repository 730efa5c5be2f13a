"""`evaluate`, data sets, classifiers and provenance."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen, nnx

import jaxrob
from jaxrob import alterations, networks
from pinned import world

LEVELS = [0.0, 0.4, 1.5, 3.0, 0.4]


def plain() -> Any:
    return _blurred()


def reduced() -> Any:
    return _blurred(reduced=True)


def in_small_blocks() -> Any:
    return _blurred(batch_size=7)


def without_labels() -> Any:
    return _blurred(data=jaxrob.Dataset(world.grey()))


def from_batches() -> Any:
    return {
        "curve": _blurred(data=world.batches()),
        "counts": _blurred(data=world.batches(), reduced=True),
    }


def resumed() -> Any:
    """Answers in a journal are not recomputed, whatever the levels."""
    calls = []

    def network(images: np.ndarray) -> np.ndarray:
        calls.append(len(images))
        return world.on_host(images)

    host = jaxrob.Classifier.from_host(network, 3, name="by hand", version="1")
    settings = {"classifier": host, "journal": "journal", "batch_size": 20}
    first = _blurred(**settings)
    some = [_blurred(**settings), sum(calls)]
    finer = jaxrob.evaluate(
        host, world.dataset(), world.blur(), [0.4, 2.0, 3.0],
        batch_size=20, journal="journal",
    )  # fmt: skip
    return {"first": first, "again": some, "other levels": [finer, sum(calls)]}


def random_alterations() -> Any:
    found = {}
    for one in (world.noise(), world.sprinkling(), alterations.shot_noise()):
        found[one.name] = jaxrob.evaluate(
            world.classifier(), world.dataset(), one,
            np.linspace(one.lower, one.upper, 4), key=world.KEY,
        )  # fmt: skip
    return found


def random_classifier() -> Any:
    curve = jaxrob.evaluate(
        world.stochastic(), world.dataset(), world.noise(), [0.0, 0.1, 0.3],
        key=world.KEY, batch_size=25,
    )  # fmt: skip
    assert isinstance(curve, jaxrob.Curve)
    return {"curve": curve, "unknown": curve.with_unknown(0.5)}


def made_of_others() -> Any:
    """Composed, rescaled, followed by a function, and a user's own alteration."""
    blur, noise = world.blur(), world.noise()
    some = (
        alterations.compose([blur, noise], 0.0, 2.0),
        alterations.rescale(noise, 0.0, 1.0, "share"),
        alterations.followed_by(blur, world.to_bytes),
        alterations.followed_by(alterations.rescale(blur, 0, 1), world.to_bytes),
        world.fading(),
    )
    return {
        one.name: jaxrob.evaluate(
            world.classifier(), world.dataset(), one,
            np.linspace(one.lower, one.upper, 4), key=world.KEY,
        )
        for one in some
    }  # fmt: skip


def of_colours() -> Any:
    """Bytes: JPEG, common corruptions, saturation."""
    some = (
        alterations.jpeg_compression(),
        alterations.saturation(),
        alterations.corruptions.fog(32),
        alterations.corruptions.pixelate(32),
        alterations.corruptions.gaussian_noise(32),
    )
    return {
        one.name: jaxrob.evaluate(
            world.small_cnn(), world.pictures(), one,
            np.linspace(one.lower, one.upper, 4), key=world.KEY,
        )
        for one in some
    }  # fmt: skip


def unknown_answers() -> Any:
    curve = _blurred()
    assert isinstance(curve, jaxrob.Curve)
    return {
        alpha: {
            "curve": curve.with_unknown(alpha),
            "failing": curve.with_unknown(alpha).first_failing_level(0.0),
            "unknown": curve.with_unknown(alpha).first_unknown_level(0.0),
            "reduced": curve.with_unknown(alpha).reduced(),
        }
        for alpha in (None, 0.3, 0.9)
    }


def every_output() -> Any:
    """The interpretation of logits, probabilities, independent ones and scores."""
    made = {
        "probabilities": jax.nn.softmax,
        "sigmoid": jax.nn.sigmoid,
        "scores": lambda logits: 10 * logits,
    }
    return {
        outputs: _blurred(
            jaxrob.Classifier(
                lambda parts, images, map=map: map(world.linear(parts, images)),
                world.variables(),
                outputs=outputs,
                class_names=world.NAMES,
            )
        )
        for outputs, map in made.items()
    }


class _Inner(nnx.Module):
    def __init__(self, rngs: nnx.Rngs):
        self.layer = nnx.Linear(64, 3, rngs=rngs)

    def __call__(self, images: jax.Array) -> jax.Array:
        return self.layer(images.reshape(len(images), -1))


class _Normalised(linen.Module):
    @linen.compact
    def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
        x = linen.Dense(6)(x.reshape(len(x), -1))
        return linen.Dense(3)(linen.BatchNorm(use_running_average=not train)(x))


def of_frameworks() -> Any:
    """Linen, NNX and functions on the host, with preprocessing."""
    module = _Normalised()
    variables = module.init(jax.random.key(0), jnp.zeros((1, 8, 8, 1)))
    host = jaxrob.Classifier.from_host(
        lambda images: np.stack([images.sum((1, 2, 3)) - 32, 0 * images[:, 0, 0, 0],
                                 4 * images[:, 0, 0, 0]], axis=1),
        3, preprocessing=jaxrob.Preprocessing(2, [0.2], 0.5), class_names=world.NAMES,
    )  # fmt: skip
    some = {
        "linen": jaxrob.Classifier.from_linen(module, variables, train=False),
        "nnx": jaxrob.Classifier.from_nnx(
            _Inner(nnx.Rngs(0)), preprocessing=jaxrob.Preprocessing(255, 0.5)
        ),
        "mlp": _mlp(),
        "host": host,
    }
    return {name: _blurred(one) for name, one in some.items()}


def _mlp() -> jaxrob.Classifier:
    module = networks.MLP((5,), 3)
    variables = module.init(jax.random.key(1), jnp.zeros((1, 8, 8, 1)))
    return jaxrob.Classifier.from_linen(module, variables)


def changed_in_place() -> Any:
    """Arrays that a function captures, before and after a change."""
    weights = world.variables()["weights"].copy()
    by_value = jaxrob.Classifier(
        lambda _, images: images.reshape(len(images), -1) @ weights
    )
    module = _Inner(nnx.Rngs(0))
    kept = jaxrob.Classifier(lambda _, images: module(images))
    found = {}
    for when in ("before", "after"):
        found[when] = {"closure": _blurred(by_value), "module": _blurred(kept)}
        weights *= -1
        kernel = module.layer.kernel
        kernel[...] = -kernel[...]
    return found


def sources() -> Any:
    """The provenance of results."""
    sets = {"dataset": world.dataset(), "batches": world.batches()}
    networks = {
        "linear": world.classifier(),
        "stochastic": world.stochastic(),
        "mlp": _mlp(),
    }
    return {
        f"{network} {data}": jaxrob.provenance(one, given, world.KEY)
        for network, one in networks.items()
        for data, given in sets.items()
    }


def doubtful_data() -> Any:
    """Warnings: bytes as floats, one class, few images, a wrong order."""
    images, labels = world.grey(), world.labels()
    some = {
        "dark": jaxrob.Dataset(images / 255, labels),
        "one image": jaxrob.Dataset(images[:1], labels[:1]),
        "one class": jaxrob.Dataset(images[labels == 1], labels[labels == 1]),
        "shuffled": jaxrob.Dataset(images, np.roll(labels, 7)),
    }
    return {name: _blurred(data=one) for name, one in some.items()}


def doubtful_networks() -> Any:
    """Warnings: probabilities as logits, ties, huge logits."""
    parts = world.variables()

    def of(map: Any, **settings: Any) -> jaxrob.Classifier:
        function = lambda parts, images: map(world.linear(parts, images))  # noqa: E731
        return jaxrob.Classifier(function, parts, **settings)

    some = {
        "probabilities as logits": of(jax.nn.softmax),
        "all alike": of(lambda logits: 0 * logits),
        "huge": of(lambda logits: 1e30 * logits),
        "one class": of(lambda logits: logits.at[:, 2].add(1e4)),
        "half precision": of(lambda logits: logits.astype(jnp.float16)),
    }
    return {name: _blurred(one) for name, one in some.items()}


def _blurred(
    classifier: jaxrob.Classifier | None = None, data: Any = None, **settings: Any
) -> Any:
    return jaxrob.evaluate(
        classifier or world.classifier(), data or world.dataset(), world.blur(),
        LEVELS, **settings,
    )  # fmt: skip
