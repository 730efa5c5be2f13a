"""One step of training: its state, inputs and compiled update."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from jaxrob._arguments.failures import failed_on_images
from jaxrob._classifier import Classifier
from jaxrob._dataset import Dataset
from jaxrob._devices.hosts import put, put_rows
from jaxrob._devices.mesh import ImageMesh, replicated, sharded
from jaxrob._pixels import as_floats
from jaxrob.training._network import Network, network_of
from jaxrob.training._schedule import PlannedStep


class TrainingState(NamedTuple):
    """The state that a step updates.

    Attributes:
      params: the module's parameters.
      collections: its other variables, such as batch statistics, by collection.
      optimizer: the optimiser's state.
    """

    params: Any
    collections: dict[str, Any]
    optimizer: optax.OptState


# Takes the state, images, labels, rows drawn and the step's number, and returns the
# next state and the loss.
Step = Callable[..., tuple[TrainingState, jax.Array]]


def initial_state(
    network: Network,
    optimizer: optax.GradientTransformation,
    key: jax.Array,
    images: Any,
) -> TrainingState:
    """Returns the state before the first step; it may be traced."""
    try:
        params, collections = network.start(key, as_floats(images))
    except Exception as error:  # The user's code may raise anything.
        raise failed_on_images("the module", images.shape[1:], error) from error
    return TrainingState(params, collections, optimizer.init(params))


def num_outputs(
    module: Any, image_shape: tuple[int, ...], outputs: str, key: jax.Array
) -> int:
    """Returns the number of classes of a module's outputs, without running it."""
    network = network_of(module)

    def returned(key: jax.Array, images: jax.Array) -> jax.Array:
        return network.classifier(*network.start(key, images), outputs).raw_outputs(
            images
        )

    images = jax.ShapeDtypeStruct((1, *image_shape), jnp.float32)
    try:
        return jax.eval_shape(returned, key, images).shape[-1]
    except Exception as error:  # The user's code may raise anything.
        raise failed_on_images("the module", image_shape, error) from error


def compiled_step(
    network: Network,
    outputs: str,
    optimizer: optax.GradientTransformation,
    make_batch: Callable[..., tuple[jax.Array, jax.Array]],
    batch_key: jax.Array,
    dropout_key: jax.Array,
    mesh: ImageMesh,
) -> Step:
    """Returns the update of the state by one batch, compiled for a mesh."""

    def loss(
        params: Any,
        collections: dict[str, Any],
        images: jax.Array,
        labels: jax.Array,
        key: jax.Array,
    ) -> tuple[jax.Array, Any]:
        returned, collections = network.train(params, collections, images, key)
        return _cross_entropy(returned, labels, outputs).mean(), collections

    @functools.partial(jax.jit, out_shardings=replicated(mesh))
    def step(
        state: TrainingState,
        images: jax.Array,
        labels: jax.Array,
        drawn: dict[str, jax.Array],
        number: jax.Array,
    ) -> tuple[TrainingState, jax.Array]:
        params, collections, optimizer_state = state

        def losses(images: jax.Array, labels: jax.Array) -> jax.Array:
            returned = network.evaluate(params, collections, images)
            return _cross_entropy(returned, labels, outputs)

        key = jax.random.fold_in(batch_key, number)
        # Without the padding that gives all devices equally many images. XLA splits the
        # batch as evenly as it can, and sums over images across the devices.
        images = as_floats(images[: len(labels)])
        batch = make_batch(images, labels, drawn, key, losses)
        images, labels = jax.lax.with_sharding_constraint(batch, sharded(mesh))
        gradient = jax.value_and_grad(loss, has_aux=True)
        key = jax.random.fold_in(dropout_key, number)
        (value, collections), updates = gradient(
            params, collections, images, labels, key
        )
        updates, optimizer_state = optimizer.update(updates, optimizer_state, params)
        params = optax.apply_updates(params, updates)
        return TrainingState(params, collections, optimizer_state), value

    return step


def step_inputs(
    dataset: Dataset, planned: PlannedStep, mesh: ImageMesh
) -> tuple[Any, ...]:
    """Returns images, labels, rows drawn and number, the step's arguments."""
    index = planned.image_index
    others = dataset.labels[index], planned.drawn, np.uint32(planned.done - 1)
    # All devices take equally many images, so the last image is repeated.
    index = np.pad(index, (0, -len(index) % mesh.size), "edge")
    if mesh.size == 1:
        # The step is fastest with arrays of the host.
        return np.asarray(dataset.images[index]), *others

    def read(rows: slice) -> np.ndarray:
        return np.asarray(dataset.images[index[rows]])

    images = put_rows(read, len(index), sharded(mesh))
    return images, *put(others, replicated(mesh))


def _cross_entropy(returned: jax.Array, labels: jax.Array, outputs: str) -> jax.Array:
    """Computes the loss of each image, `[B]`, from the module's outputs."""
    classifier = Classifier(lambda variables, images: returned, None, outputs)
    # Labels stand in for images: only their number matters here.
    log_probabilities = classifier.log_probabilities(labels)[0]
    return -jnp.take_along_axis(log_probabilities, labels[:, None], axis=1)[:, 0]
