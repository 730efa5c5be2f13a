"""`evaluate`, data sets, classifiers and provenance."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen, nnx

import jaxrob
from jaxrob import alterations, networks
from pinned import world
from pinned.world import evaluated

_blurred = functools.partial(evaluated, world.BLUR, [0.0, 0.4, 1.5, 3.0, 0.4])


def _resumed() -> Any:
    """Answers in a journal are not recomputed, whatever the levels."""
    calls = []

    def network(images: np.ndarray) -> np.ndarray:
        calls.append(len(images))
        return world.on_host(images)

    host = jaxrob.Classifier.from_host(network, 3, name="by hand", version="1")
    settings = {"classifier": host, "journal": "journal", "batch_size": 20}
    first = _blurred(**settings)
    some = [_blurred(**settings), sum(calls)]
    finer = evaluated(world.BLUR, [0.4, 2.0, 3.0], **settings)
    return {"first": first, "again": some, "other levels": [finer, sum(calls)]}


def _random_classifier() -> Any:
    curve = evaluated(
        world.NOISE, [0.0, 0.1, 0.3], classifier=world.STOCHASTIC, key=world.KEY,
        batch_size=25,
    )  # fmt: skip
    return {"curve": curve, "unknown": curve.with_unknown(0.5)}


def _each(*some: jaxrob.Alteration, **given: Any) -> Any:
    return {one.name: evaluated(one, key=world.KEY, **given) for one in some}


def _made_of_others() -> Any:
    """Composed, rescaled, followed by a function, and a user's own alteration."""
    blur, noise = world.BLUR, world.NOISE
    rescaled = alterations.rescale(blur, 0, 1)
    return _each(
        alterations.compose([blur, noise], 0.0, 2.0),
        alterations.rescale(noise, 0.0, 1.0, "share"),
        alterations.followed_by(blur, world.to_bytes),
        alterations.followed_by(rescaled, world.to_bytes),
        world.FADING,
    )


def _of_colours() -> Any:
    """Bytes: JPEG, common corruptions, saturation."""
    corruptions = alterations.corruptions
    return _each(
        alterations.jpeg_compression(),
        alterations.saturation(),
        corruptions.fog(32),
        corruptions.pixelate(32),
        corruptions.gaussian_noise(32),
        classifier=world.small_cnn(),
        dataset=world.pictures(),
    )


def _unknown_answers() -> Any:
    found, curve = {}, _blurred()
    for alpha in (None, 0.3, 0.9):
        one = curve.with_unknown(alpha)
        found[alpha] = {
            "curve": one,
            "failing": one.first_failing_level(0.0),
            "unknown": one.first_unknown_level(0.0),
            "reduced": one.reduced(),
        }
    return found


def _of(map: Any, **settings: Any) -> jaxrob.Classifier:
    """The linear network, with a function of its logits."""

    def mapped(parts: Any, images: jax.Array) -> Any:
        return map(world.linear(parts, images))

    return jaxrob.Classifier(mapped, world.variables(), **settings)


def _every_output() -> Any:
    made = {
        "probabilities": jax.nn.softmax,
        "sigmoid": jax.nn.sigmoid,
        "scores": lambda logits: 10 * logits,
    }
    return {
        outputs: _blurred(classifier=_of(map, outputs=outputs, class_names=world.NAMES))
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


def _in_linen(module: linen.Module, seed: int, **given: Any) -> jaxrob.Classifier:
    variables = module.init(jax.random.key(seed), jnp.zeros((1, 8, 8, 1)))
    return jaxrob.Classifier.from_linen(module, variables, **given)


def _of_frameworks() -> Any:
    """Linen, NNX and functions on the host, with preprocessing."""
    host = jaxrob.Classifier.from_host(
        lambda images: np.stack([images.sum((1, 2, 3)) - 32, 0 * images[:, 0, 0, 0],
                                 4 * images[:, 0, 0, 0]], axis=1),
        3, preprocessing=jaxrob.Preprocessing(2, [0.2], 0.5), class_names=world.NAMES,
    )  # fmt: skip
    some = {
        "linen": _in_linen(_Normalised(), 0, train=False),
        "nnx": jaxrob.Classifier.from_nnx(
            _Inner(nnx.Rngs(0)), preprocessing=jaxrob.Preprocessing(255, 0.5)
        ),
        "mlp": _in_linen(networks.MLP((5,), 3), 1),
        "host": host,
    }
    return {name: _blurred(classifier=one) for name, one in some.items()}


def _changed_in_place() -> Any:
    """Arrays that a function captures, before and after a change."""
    weights = world.variables()["weights"].copy()
    by_value = jaxrob.Classifier(
        lambda _, images: images.reshape(len(images), -1) @ weights
    )
    module = _Inner(nnx.Rngs(0))
    kept = jaxrob.Classifier(lambda _, images: module(images))
    found = {}
    for when in ("before", "after"):
        both = {"closure": by_value, "module": kept}
        found[when] = {name: _blurred(classifier=one) for name, one in both.items()}
        weights *= -1
        kernel = module.layer.kernel
        kernel[...] = -kernel[...]
    return found


def _sources() -> Any:
    some = {
        "linear": world.classifier(),
        "stochastic": world.STOCHASTIC,
        "mlp": _in_linen(networks.MLP((5,), 3), 1),
    }
    return {
        f"{name} {data}": jaxrob.provenance(one, given, world.KEY)
        for name, one in some.items()
        for data, given in {
            "dataset": world.DATASET, "batches": world.in_batches()
        }.items()
    }  # fmt: skip


def _doubtful_data() -> Any:
    """Warnings: bytes as floats, one class, few images, a wrong order."""
    images, labels = world.GREY, world.LABELS
    some = {
        "dark": (images / 255, labels),
        "one image": (images[:1], labels[:1]),
        "one class": (images[labels == 1], labels[labels == 1]),
        "shuffled": (images, np.roll(labels, 7)),
    }
    return {name: _blurred(dataset=jaxrob.Dataset(*one)) for name, one in some.items()}


def _doubtful_networks() -> Any:
    """Warnings: probabilities as logits, ties, huge logits."""
    some = {
        "probabilities as logits": jax.nn.softmax,
        "all alike": lambda logits: 0 * logits,
        "huge": lambda logits: 1e30 * logits,
        "one class": lambda logits: logits.at[:, 2].add(1e4),
        "half precision": lambda logits: logits.astype(jnp.float16),
    }
    return {name: _blurred(classifier=_of(map)) for name, map in some.items()}


CASES = {
    "evaluating.plain": _blurred,
    "evaluating.reduced": lambda: _blurred(reduced=True),
    "evaluating.in_small_blocks": lambda: _blurred(batch_size=7),
    "evaluating.without_labels": lambda: _blurred(dataset=jaxrob.Dataset(world.GREY)),
    "evaluating.from_batches": lambda: {
        "curve": _blurred(dataset=world.in_batches()),
        "counts": _blurred(dataset=world.in_batches(), reduced=True),
    },
    "evaluating.resumed": _resumed,
    "evaluating.random_alterations": lambda: _each(
        world.NOISE, world.SPRINKLING, alterations.shot_noise()
    ),
    "evaluating.random_classifier": _random_classifier,
    "evaluating.made_of_others": _made_of_others,
    "evaluating.of_colours": _of_colours,
    "evaluating.unknown_answers": _unknown_answers,
    "evaluating.every_output": _every_output,
    "evaluating.of_frameworks": _of_frameworks,
    "evaluating.changed_in_place": _changed_in_place,
    "evaluating.sources": _sources,
    "evaluating.doubtful_data": _doubtful_data,
    "evaluating.doubtful_networks": _doubtful_networks,
}
