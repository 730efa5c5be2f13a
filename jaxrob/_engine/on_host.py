"""Steps of a network on the host, whose images are altered on the devices.

The network is called outside compiled programs. So the devices alter images to the next
level while the host classifies, and the network's exceptions propagate unchanged.
"""

import functools
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxrob._adapters.network import OnHost, Preprocessing, on_host
from jaxrob._classifier import Classifier
from jaxrob._devices.mesh import ImageMesh, on_each_device
from jaxrob._engine.answers import Answers, answer
from jaxrob.alterations import Alteration


class Altered(NamedTuple):
    """An altered block, not yet classified by the network on the host.

    Attributes:
      images: `[B, ...]`, preprocessed for the network, sharded over the devices.
      labels: int32 `[B]`, the right classes.
    """

    images: jax.Array
    labels: jax.Array


def network_on_host(classifier: Classifier, mesh: ImageMesh) -> OnHost | None:
    """Returns the network on the host, or None; None if the mesh spans processes."""
    return None if mesh.is_multi_process else on_host(classifier.apply_fn)


@functools.partial(jax.jit, static_argnames=("alteration", "preprocessing", "mesh"))
def alter(
    prepared: Any,
    level: jax.Array,
    scale: jax.Array,
    *,
    alteration: Alteration,
    preprocessing: Preprocessing,
    mesh: ImageMesh,
) -> jax.Array:
    """Returns a block altered to one level and preprocessed for the network."""

    def local(prepared: Any, level: jax.Array, scale: jax.Array) -> jax.Array:
        images = jax.vmap(lambda image: alteration.at_level(image, level))(prepared)
        return preprocessing(images * scale.astype(images.dtype))

    split = (True, False, False)
    return on_each_device(local, mesh, split)(prepared, level, scale)


def ask(
    classifier: Classifier, network: OnHost, altered: Altered, number: int | None = None
) -> Answers:
    """Runs the network and returns its answers `[1, B]`."""
    images = np.asarray(altered.images)
    outputs = network.function(images[:number])
    # Keeps the shape for which `_answers` is compiled.
    outputs = np.pad(outputs, [(0, len(images) - len(outputs)), (0, 0)])
    return _answers(outputs, np.asarray(altered.labels), kind=classifier.outputs)


@functools.partial(jax.jit, static_argnames="kind")
def _answers(outputs: jax.Array, labels: jax.Array, *, kind: str) -> Answers:
    # The network has run already, so its outputs take the place of the images.
    returned = Classifier(lambda variables, images: images, None, kind)
    return jax.tree.map(lambda part: part[None], answer(returned, outputs, labels))
