"""A small problem, its fits shared by the tests: most of their time is compiling."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx

import jaxrob
from jaxrob import bayes
from jaxrob.bayes._model import Head, Likelihood, params_apply_fn
from jaxrob.networks import MLP

# One object, for another is compiled anew.
OPTIMIZER = optax.adam(0.03)


@pytest.fixture(scope="session")
def data():
    """64 images of 3 x 3 pixels: class 0 dark, 1 grey, 2 light."""
    rng = np.random.default_rng(0)
    labels = np.arange(64) % 3
    images = rng.integers(0, 60, (64, 3, 3, 1)) + 90 * labels[:, None, None, None]
    return jaxrob.Dataset(images.astype(np.uint8), labels)


@pytest.fixture(scope="session")
def images(data):
    return np.float32(data.images) / 255


@pytest.fixture(scope="session")
def modules():
    outputs = {"plain": 3, "heteroscedastic": 6}
    return {head: MLP(features=(8,), num_classes=n) for head, n in outputs.items()}


@pytest.fixture(scope="session")
def settings():
    return dict(key=jax.random.key(0), epochs=2, batch_size=16, optimizer=OPTIMIZER)


@pytest.fixture(scope="session")
def train(data, modules, settings):

    def train(module=None, dataset=data, **changes):
        module = module or modules[changes.get("head", "plain")]
        return bayes.svi(module, dataset, **(settings | changes))

    return train


@pytest.fixture(scope="session")
def posterior(modules, images):
    """Of the plain head, made up."""
    module = modules["plain"]
    location = jax.jit(module.init)(jax.random.key(0), images)["params"]
    scale = jax.tree.map(lambda leaf: np.full_like(leaf, 0.1), location)
    likelihood = Likelihood(params_apply_fn(module), Head("plain", 1))
    return bayes.Posterior(likelihood, location, scale, elbo=np.float32([-3, -2]))


@pytest.fixture(scope="session")
def learnt(train):
    """Of the heteroscedastic head, trained well enough."""
    return train(head="heteroscedastic", epochs=80)


class NnxMLP(nnx.Module):
    """With all that Linen keeps in collections of its own."""

    def __init__(self, rngs):
        self.layers = nnx.List(
            [nnx.Linear(9, 8, rngs=rngs), nnx.Linear(8, 6, rngs=rngs)]
        )
        self.norm = nnx.BatchNorm(8, rngs=rngs)
        self.dropout = nnx.Dropout(0.5, rngs=rngs)

    def __call__(self, x):
        x = nnx.relu(self.norm(self.layers[0](x.reshape(len(x), -1))))
        return self.layers[1](self.dropout(x))


@pytest.fixture(scope="session")
def nnx_module():
    return NnxMLP(nnx.Rngs(0))


@pytest.fixture(scope="session")
def nnx_posterior(train, nnx_module):
    return train(nnx_module, head="heteroscedastic", epochs=80)


@pytest.fixture(scope="session")
def sampled_posterior(posterior):
    """As NUTS returns it."""
    steps = np.arange(20, dtype=np.float32)
    samples = jax.tree.map(
        lambda leaf: jnp.asarray(leaf + steps.reshape(-1, *(1,) * leaf.ndim)),
        jax.device_get(posterior.location),
    )
    return dataclasses.replace(posterior, samples=samples, elbo=None)
