"""A small assessment with a journal, for tests to interrupt: `interrupted.py path`.

With a second argument files may not grow beyond so many bytes, as on a full disk.
"""

import resource
import sys

import jax
import jax.numpy as jnp
import numpy as np

import jaxrob
from jaxrob import alterations, strategies

random = np.random.default_rng(0)
images = random.random((400, 8, 8, 1), np.float32)
weights = jnp.asarray(random.normal(size=(64, 3)), jnp.float32)
dataset = jaxrob.Dataset(images, (images.sum((1, 2, 3)) % 3).astype(int))


def apply(weights, images):
    return images.reshape(len(images), -1) @ weights


classifier = jaxrob.Classifier(apply, weights)


def assess(strategy, journal, classifier=classifier, key=0, reduced=False):
    return jaxrob.assess(
        classifier,
        dataset,
        [alterations.gaussian_noise(0.0, 0.2), alterations.brightness(-0.5, 0.5)],
        0.3,
        strategy=strategy,
        key=jax.random.key(key),
        batch_size=20,
        reduced=reduced,
        journal=journal,
    )


def roma(journal, epsilon=0.3, classifier=classifier):
    return jaxrob.roma.assess(
        classifier,
        images,
        epsilon=epsilon,
        num_samples=50,
        key=jax.random.key(1),
        estimator="count",
        journal=journal,
    )


if __name__ == "__main__":
    if len(sys.argv) > 2:
        limit = int(sys.argv[2])
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    for part in assess(strategies.Uniform(41), sys.argv[1]):
        print(part.to_json(answers=False).partition('"seconds"')[0])
