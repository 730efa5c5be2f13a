"""The other steps of the library: RoMA's, a Bayesian classifier's, attack, training."""

import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import optax
from jax.sharding import Mesh

import jaxrob
from accelerators import shapes
from accelerators.networks import Network
from accelerators.programs import Program, of_function, of_step, rows_at_once, step
from jaxrob import steps
from jaxrob.alterations import Alteration

_INPUTS, _SAMPLES = 64, 1000
_BATCH = 128


def roma_draws(network: Network, mesh: Mesh) -> Program:
    """Algorithm 1 of 64 inputs with 1,000 draws each, statistics included."""
    return of_step("RoMA draws", _roma(network, mesh, "roma"))


def roma_count(network: Network, mesh: Mesh) -> Program:
    """The same draws, counted: what the statistics add is the difference."""
    return of_step("RoMA count", _roma(network, mesh, "count"))


def roma_tilts(network: Network, mesh: Mesh) -> Program:
    """Draws from mixtures of three tilts and the plain distribution."""
    return of_step("RoMA tilts", _roma(network, mesh, "importance"))


def roma_splitting(network: Network, mesh: Mesh) -> Program:
    """A level of splitting, with as many inputs as rows allow."""
    found = _roma(network, mesh, "splitting")
    # Fewer turns where all inputs are new: the loop's bound is known when it runs.
    return of_step("RoMA splitting", found, turns=found.passes // found.rows)


def bayesian(
    network: Network, alteration: Alteration, samples: int, mesh: Mesh
) -> Program:
    """A step of `evaluate` for a classifier with T sets of weights."""
    module, outputs = network.module(), network.outputs
    classifier = jax.eval_shape(
        lambda members: jaxrob.bayes.ensemble(module, members, outputs),
        [network.variables()] * samples,
    )
    found = step(network, alteration, mesh, classifier)
    return found._replace(name=f"Bayesian, T = {samples}")


def gradient(network: Network, rows: int, mesh: Mesh) -> Program:
    """The gradient alone of a class's log-probability with respect to the images."""

    def total(classifier: jaxrob.Classifier, images: jax.Array) -> jax.Array:
        return classifier.log_probabilities(images)[0, :, 0].sum()

    classifier = network.classifier(shapes.whole(network.variables(), mesh))
    images = shapes.array((rows, *network.image_shape), jnp.float32, mesh, split=True)
    function = jax.jit(jax.grad(total, argnums=1))
    return of_function("gradient", function, (classifier, images), rows)


def lbfgs(network: Network, mesh: Mesh) -> Program:
    """One evaluation of as many searches as a block has images."""
    found = steps.attack(
        network.classifier(network.variables()),
        network.image_shape,
        num_images=network.num_images,
        batch_size=network.num_images,
        mesh=mesh,
    )
    return of_step("L-BFGS", found)


def training(
    network: Network, altered: Sequence[Alteration], name: str, mesh: Mesh
) -> Program:
    """A step of training with Adam, by data augmentation if there are alterations."""
    batch = min(_BATCH, network.num_images)
    found = steps.training(
        network.module(),
        network.image_shape,
        alterations=altered,
        num_images=8 * batch,
        batch_size=batch,
        optimizer=optax.adam(1e-3),
        outputs=network.outputs,
        mesh=mesh,
    )
    return of_step(name, found)


def _roma(network: Network, mesh: Mesh, estimator: str) -> steps.Step:
    return steps.roma(
        network.classifier(network.variables()),
        network.image_shape,
        estimator=estimator,
        num_inputs=_INPUTS * mesh.size,
        num_samples=_SAMPLES,
        rows=math.ceil(rows_at_once(network, mesh) / mesh.size),
        dtype="float32",
        mesh=mesh,
    )
