"""The small things that the valid calls are made of."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

import jaxrob
from jaxrob import alterations

SIZE, CLASSES = 8, 3
KEY = jax.random.key(0)


def _linear(variables: dict[str, jax.Array], images: jax.Array) -> jax.Array:
    return images.reshape(len(images), -1) @ variables["weights"]


@functools.cache
def images() -> np.ndarray:
    """Twelve grey images."""
    return np.random.default_rng(0).random((12, SIZE, SIZE, 1), np.float32)


@functools.cache
def labels() -> np.ndarray:
    """Their classes, as a classifier sees them that is right most often."""
    scores = _linear(classifier().variables, jnp.asarray(images()))
    return np.asarray(scores.argmax(axis=1))


@functools.cache
def dataset() -> jaxrob.Dataset:
    """The images with their classes."""
    return jaxrob.Dataset(images(), labels(), ("a", "b", "c"), "tiny")


@functools.cache
def classifier() -> jaxrob.Classifier:
    """A linear one."""
    weights = jax.random.normal(KEY, (SIZE * SIZE, CLASSES))
    return jaxrob.Classifier(_linear, {"weights": weights})


def score(outputs: jax.Array, labels: jax.Array) -> jax.Array:
    """1 for each right answer, or else 0."""
    return (outputs.argmax(axis=-1) == labels).astype(float)


@functools.cache
def blur() -> jaxrob.Alteration:
    """An alteration without randomness."""
    return alterations.gaussian_blur(0.0, 1.0)


@functools.cache
def assessment() -> jaxrob.Assessment:
    """An assessment of the classifier."""
    found = jaxrob.assess(
        classifier(), dataset(), blur(), strategy=jaxrob.strategies.Uniform(3)
    )
    assert isinstance(found, jaxrob.Assessment)
    return found


@functools.cache
def roma_result() -> jaxrob.roma.RomaResult:
    """RoMA's answers on the images."""
    return jaxrob.roma.assess(
        classifier(), images(), labels(), num_samples=8, estimator="count", key=KEY
    )


@functools.cache
def attack() -> jaxrob.adversarial.Attack:
    """An attack on the classifier."""
    return jaxrob.adversarial.fgsm(classifier(), images(), labels(), epsilon=0.1)
