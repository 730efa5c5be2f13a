"""Steps of a network on the host: images altered on the devices, answers from there.

The call is not made from within a compiled program. While the host works on the images
of one level, the devices alter them to the next; and what the network raises comes out
as it is.
"""

import functools
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh

from jaxrob._adapters.on_host import OnHost, on_host
from jaxrob._adapters.preprocessing import Preprocessing
from jaxrob._classifier import Classifier
from jaxrob._devices.mesh import on_each_device
from jaxrob._engine.answers import Answers, answer
from jaxrob.alterations import Alteration


class Altered(NamedTuple):
    """A block altered and prepared for a network on the host, which is not asked yet.

    Attributes:
      images: `[B, ...]`, as the network takes them, split over the devices.
    """

    images: jax.Array


def network_on_host(classifier: Classifier, mesh: Mesh) -> OnHost | None:
    """The network if it is one on this host, whose devices alone are in the mesh."""
    return None if mesh.is_multi_process else on_host(classifier.apply_fn)


@functools.partial(jax.jit, static_argnames=("alteration", "preprocessing", "mesh"))
def alter(
    prepared: Any,
    level: jax.Array,
    scale: jax.Array,
    *,
    alteration: Alteration,
    preprocessing: Preprocessing,
    mesh: Mesh,
) -> Altered:
    """A block at one level.

    Args:
      prepared: the block, from `prepare`.
      level: float32, a number.
      scale: see `answer_at_levels`.
      alteration: the alteration.
      preprocessing: what the network asks for.
      mesh: the devices.
    """

    def local(prepared: Any, level: jax.Array, scale: jax.Array) -> Altered:
        images = jax.vmap(lambda image: alteration.at_level(image, level))(prepared)
        return Altered(preprocessing(images * scale.astype(images.dtype)))

    split = (True, False, False)
    return on_each_device(local, mesh, split)(prepared, level, scale)


def ask(
    classifier: Classifier, network: OnHost, altered: Altered, number: int | None = None
) -> Answers:
    """The network's answers `[1, B]`; it runs now.

    Args:
      classifier: the classifier.
      network: the network.
      altered: the images.
      number: how many of them the network is asked, the first ones; None for all. The
        answers to the others mean nothing.
    """
    images = np.asarray(altered.images)
    outputs = network.function(images[:number])
    # Of the shape for which the answers' program is compiled.
    outputs = np.pad(outputs, [(0, len(images) - len(outputs)), (0, 0)])
    return _answers(outputs, kind=classifier.outputs)


@functools.partial(jax.jit, static_argnames="kind")
def _answers(outputs: jax.Array, *, kind: str) -> Answers:
    # The outputs take the place of the images: the network was run before.
    returned = Classifier(lambda variables, images: images, None, kind)
    return jax.tree.map(lambda part: part[None], answer(returned, outputs))
