"""RoMA's local and global robustness, and adversarial attacks."""

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpyro import distributions

import jaxrob
from jaxrob import adversarial, roma
from pinned import world


def _assessed(**given: Any) -> Any:
    given = {
        "classifier": world.classifier(),
        "images": world.GREY[:9],
        "num_samples": 100,
        "delta": 0.5,
        "key": world.KEY,
    } | given
    return roma.assess(**given)


_LABELLED = {"images": world.GREY, "labels": world.LABELS, "estimator": "count"}


def _far(_: Any, images: jax.Array) -> jax.Array:
    far = jnp.abs(images.mean((1, 2, 3)) - 0.5)
    return jnp.stack([0 * far, 80 * far - 3.0], axis=1)


def _perturbations() -> Any:
    """Alterations with a distribution of the level, samplers, and a user's own."""

    def draw(key: jax.Array, image: jax.Array) -> jax.Array:
        return jax.random.normal(key, image.shape)

    def apply(image: jax.Array, latent: jax.Array, size: jax.Array) -> jax.Array:
        return image + size * latent

    levels = {"level_distribution": distributions.Uniform(0.0, 1.0)}
    some = {
        "alteration": (world.BLUR, {}),
        "random": (roma.from_alteration(world.NOISE, clip=True), {}),
        "level": (world.BLUR, levels),
        "sampler": (lambda key, image: image + 0.3 * draw(key, image), {}),
        "own": (roma.Perturbation("noise", draw, apply, size=0.4), {}),
    }
    return {
        name: _assessed(estimator="count", perturbation=one, **more)
        for name, (one, more) in some.items()
    }


def _categories() -> Any:
    result = _assessed(epsilon=0.3, **_LABELLED)
    read = roma.RomaResult.from_json(result.to_json())
    return {
        "categorial": result.categorial(world.NAMES),
        "read again": read.categorial(),
        "by label": result.global_robustness(by="label", class_names=world.NAMES),
        "by answer": result.global_robustness(confidence_level=0.8, jointly=False),
        "of all": result.global_robustness(by="all"),
    }


def _global_robustness() -> Any:
    common = {"epsilon": 0.3, "num_samples": 16, "delta": 0.6}
    images = _assessed(**_LABELLED, **common)
    rare = _assessed(images=world.GREY[:8], estimator="importance", **common)
    return {
        "images": images.global_robustness("label"),
        "by importance": rare.global_robustness(source="estimator"),
    }


def _statistics() -> Any:
    """Transforms, the test of normality, and numbers of inputs."""
    samples = jnp.float32(np.random.default_rng(0).gamma(2.0, size=(3, 200)))
    logs = jnp.log(samples)
    return {
        "anderson_darling": roma.anderson_darling(samples[0]),
        "boxcox_lambda": [roma.boxcox_lambda(one) for one in logs],
        "boxcox": roma.boxcox(logs[0], jnp.float32(0.3)),
        "inputs_needed": [
            roma.inputs_needed(0.01, half_width=0.005, num_samples=10, correlation=0.5),
            roma.inputs_needed(0.1, relative=0.2, categories=10),
        ],
    }


_GIVEN = world.classifier(), world.GREY[:10], world.LABELS[:10]
_FGSM = functools.partial(adversarial.fgsm, *_GIVEN)
_PGD = functools.partial(adversarial.pgd, *_GIVEN)
_LBFGS = functools.partial(adversarial.lbfgs, *_GIVEN)


def _pictures_attacked() -> Any:
    """Bytes in colour, and the best of several attacks."""
    some = world.pictures()[:6]
    given = world.small_cnn(), some.images, some.labels
    found = [
        adversarial.fgsm(*given, epsilon=0.2),
        adversarial.pgd(*given, epsilon=0.1, steps=4),
    ]
    return {"each": found, "best": adversarial.most_adversarial(found)}


def _pair() -> list[Any]:
    coloured = world.coloured()
    return [jnp.float32(some) / 255 for some in (coloured[:3], coloured[3:6])]


def _adversariability() -> Any:
    fast = functools.partial(adversarial.fgsm, epsilon=0.3)
    slow = functools.partial(adversarial.pgd, epsilon=0.2, steps=4)
    return {
        "default": adversarial.adversariability(*_GIVEN),
        "several": adversarial.adversariability(*_GIVEN, attack=[fast, slow]),
    }


def _attack_read_again() -> Any:
    found = _FGSM(epsilon=0.3)
    read = adversarial.Attack.from_json(found.to_json())
    return {"read": read, "same": np.array_equal(read.success, found.success)}


CASES = {
    # The published algorithm on normal, transformed and other data.
    "probable.algorithm_1": lambda: {
        "near": _assessed(estimator="roma", epsilon=0.1, num_samples=200),
        "far": _assessed(estimator="roma", epsilon=0.6, num_samples=200),
    },
    "probable.counting": lambda: {
        norm: _assessed(estimator="count", norm=norm, epsilon=epsilon, clip=clip)
        for norm, epsilon, clip in (
            ("linf", 0.4, False), ("l2", 2.0, True), ("l1", 9.0, False),
        )
    },
    "probable.importance": lambda: _assessed(estimator="importance", epsilon=0.1),
    "probable.splitting": lambda: _assessed(
        estimator="splitting", norm="l2", epsilon=0.6
    ),
    "probable.automatic": lambda: {
        budget: _assessed(estimator="auto", budget=budget, epsilon=0.12)
        for budget in (None, 300, 3000, math.inf)
    },
    # A network that is wrong on two sides.
    "probable.several_modes": lambda: roma.assess(
        jaxrob.Classifier(_far), np.full((2, 4, 4, 1), 0.5, np.float32), epsilon=0.1,
        num_samples=100, estimator="auto", key=world.KEY, budget=math.inf,
    ),
    "probable.perturbations": _perturbations,
    # The fewest inputs that determine each class's mean.
    "probable.to_a_half_width": lambda: _assessed(
        epsilon=0.3, half_width=0.2, **_LABELLED
    ),
    "probable.resumed": lambda: [
        _assessed(estimator="auto", epsilon=0.12, journal="journal") for _ in range(2)
    ],
    "probable.categories": _categories,
    "probable.global_robustness": _global_robustness,
    "probable.of_random_networks": lambda: _assessed(
        classifier=world.STOCHASTIC, estimator="count", epsilon=0.2, delta=0.4
    ),
    "probable.on_the_host": lambda: _assessed(
        classifier=jaxrob.Classifier.from_host(world.on_host, 3), budget=3000,
        epsilon=0.15,
    ),
    "probable.statistics": _statistics,
    # Warnings: images nearly black, a ball that covers everything.
    "probable.doubtful": lambda: {
        "dark": _assessed(images=world.GREY[:3] / 255, estimator="count"),
        "wide": _assessed(estimator="count", epsilon=5.0),
    },
    "attacking.fgsm": lambda: {
        norm: _FGSM(norm=norm, epsilon=0.3) for norm in ("linf", "l2")
    },
    "attacking.pgd": lambda: {
        "plain": _PGD(epsilon=0.1, steps=5),
        "l2": _PGD(epsilon=0.8, norm="l2", steps=5, step_size=0.2),
        "random start": _PGD(epsilon=0.1, steps=3, key=world.KEY),
    },
    "attacking.lbfgs": lambda: {
        "runner-up": _LBFGS(),
        "surer": _LBFGS(target_confidence=0.9, batch_size=4),
        "given": _LBFGS(targets=(world.LABELS[:10] + 1) % 3),
    },
    "attacking.of_pictures": _pictures_attacked,
    "attacking.adversariability": _adversariability,
    "attacking.similarity": lambda: {
        "global": adversarial.structural_similarity(*_pair()),
        "windowed": adversarial.windowed_similarity(*_pair()),
        "same": adversarial.structural_similarity(_pair()[0], _pair()[0]),
    },
    "attacking.read_again": _attack_read_again,
}  # fmt: skip
