"""RoMA: probabilistic local and global robustness."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpyro import distributions

import jaxrob
from jaxrob import roma
from pinned import world

NUM_INPUTS = 9


def algorithm_1() -> Any:
    """The published algorithm on normal, transformed and other data."""
    return {
        "near": _assessed(estimator="roma", epsilon=0.1, num_samples=200),
        "far": _assessed(estimator="roma", epsilon=0.6, num_samples=200),
    }


def counting() -> Any:
    return {
        norm: _assessed(estimator="count", norm=norm, epsilon=epsilon, clip=clip)
        for norm, epsilon, clip in (
            ("linf", 0.4, False), ("l2", 2.0, True), ("l1", 9.0, False),
        )
    }  # fmt: skip


def importance() -> Any:
    return _assessed(estimator="importance", epsilon=0.1)


def splitting() -> Any:
    return _assessed(estimator="splitting", norm="l2", epsilon=0.6)


def automatic() -> Any:
    return {
        budget: _assessed(estimator="auto", budget=budget, epsilon=0.12)
        for budget in (None, 300, 3000, math.inf)
    }


def several_modes() -> Any:
    """A network that is wrong on two sides."""

    def network(_: Any, images: jax.Array) -> jax.Array:
        far = jnp.abs(images.mean((1, 2, 3)) - 0.5)
        return jnp.stack([0 * far, 80 * far - 3.0], axis=1)

    images = np.full((2, 4, 4, 1), 0.5, np.float32)
    return roma.assess(
        jaxrob.Classifier(network), images, epsilon=0.1, num_samples=100,
        estimator="auto", key=world.KEY, budget=math.inf,
    )  # fmt: skip


def perturbations() -> Any:
    """Alterations with a distribution of the level, samplers, and a user's own."""

    def draw(key: jax.Array, image: jax.Array) -> jax.Array:
        return jax.random.normal(key, image.shape)

    def apply(image: jax.Array, latent: jax.Array, size: jax.Array) -> jax.Array:
        return image + size * latent

    some = {
        "alteration": {"perturbation": world.blur()},
        "random": {"perturbation": roma.from_alteration(world.noise(), clip=True)},
        "level": {
            "perturbation": world.blur(),
            "level_distribution": distributions.Uniform(0.0, 1.0),
        },
        "sampler": {"perturbation": lambda key, image: image + _gauss(key, image)},
        "own": {"perturbation": roma.Perturbation("noise", draw, apply, size=0.4)},
    }
    return {name: _assessed(estimator="count", **one) for name, one in some.items()}


def _gauss(key: jax.Array, image: jax.Array) -> jax.Array:
    return 0.3 * jax.random.normal(key, image.shape)


def to_a_half_width() -> Any:
    """The fewest inputs that determine each class's mean."""
    return _assessed(
        world.grey(), world.labels(), estimator="count", epsilon=0.3, half_width=0.2
    )


def resumed() -> Any:
    settings = {"estimator": "auto", "epsilon": 0.12, "journal": "journal"}
    return [_assessed(**settings), _assessed(**settings)]


def categories() -> Any:
    result = _assessed(world.grey(), world.labels(), estimator="count", epsilon=0.3)
    read = roma.RomaResult.from_json(result.to_json())
    return {
        "categorial": result.categorial(world.NAMES),
        "read again": read.categorial(),
        "by label": result.global_robustness(by="label", class_names=world.NAMES),
        "by answer": result.global_robustness(confidence_level=0.8, jointly=False),
        "of all": result.global_robustness(by="all"),
    }


def global_robustness() -> Any:
    common = {"epsilon": 0.3, "num_samples": 16, "delta": 0.6}
    images = _assessed(world.grey(), world.labels(), estimator="count", **common)
    rare = _assessed(world.grey()[:8], estimator="importance", **common)
    return {
        "images": images.global_robustness("label"),
        "by importance": rare.global_robustness(source="estimator"),
    }


def of_random_networks() -> Any:
    return _assessed(
        classifier=world.stochastic(), estimator="count", epsilon=0.2, delta=0.4
    )


def on_the_host() -> Any:
    return _assessed(
        classifier=jaxrob.Classifier.from_host(world.on_host, 3),
        budget=3000,
        epsilon=0.15,
    )


def statistics() -> Any:
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


def doubtful() -> Any:
    """Warnings: images nearly black, a ball that covers everything."""
    return {
        "dark": _assessed(world.grey()[:3] / 255, estimator="count"),
        "wide": _assessed(estimator="count", epsilon=5.0),
    }


def _assessed(
    images: Any = None,
    labels: Any = None,
    classifier: jaxrob.Classifier | None = None,
    **settings: Any,
) -> Any:
    settings = {"num_samples": 100, "delta": 0.5} | settings
    return roma.assess(
        classifier or world.classifier(),
        world.grey()[:NUM_INPUTS] if images is None else images,
        labels,
        key=world.KEY,
        **settings,
    )
