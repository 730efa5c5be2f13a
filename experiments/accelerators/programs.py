"""The steps of `evaluate` and what they are compared with, as the library makes them.

Programs take shapes in place of arrays, since nothing is run here. Where they are run
after all, what they take is random, except for `values`.
"""

import contextlib
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from accelerators import shapes
from accelerators.networks import Network
from jaxrob import alterations
from jaxrob._command import catalogue
from jaxrob._engine.step import answer_at_levels, prepare
from jaxrob.alterations import Alteration


class Program(NamedTuple):
    """A program to be compiled.

    Attributes:
      name: what it does.
      function: a jitted function.
      args: what it takes: pytrees of shapes, types and shardings.
      static: its static arguments.
      passes: images that the network classifies in it.
      turns: how often a loop turns whose text does not tell.
      values: values of arguments, by their place, that are not to be random.
    """

    name: str
    function: Any
    args: tuple[Any, ...]
    static: dict[str, Any]
    passes: int
    turns: int = 1
    values: dict[int, Any] = {}

    def lowered(self) -> Any:
        """The program, traced for the devices that its arguments lie on."""
        return self.function.lower(*self.args, **self.static)


def alterations_by_name() -> dict[str, Alteration]:
    """The papers' alterations by their names, with _ for spaces."""
    found = alterations.presets.cnn_2020()
    return {one.name.replace(" ", "_"): one for one in found}


def further_alterations() -> dict[str, Alteration]:
    """The others: in physical units, and the common corruptions as "corruptions_fog".

    Frost is there if its pictures are installed.
    """
    papers = alterations_by_name()
    found = {
        name: getattr(alterations, name)()
        for name in catalogue.NAMES
        if name not in papers
    }
    for name in alterations.corruptions.__all__:
        with contextlib.suppress(FileNotFoundError, ImportError):
            found[f"corruptions_{name}"] = getattr(alterations.corruptions, name)()
    return found


def forward(network: Network, rows: int, mesh: Mesh) -> Program:
    """The bare forward pass over so many images that lie on the device."""
    classifier = network.classifier(shapes.whole(network.variables(), mesh))
    images = shapes.array((rows, *network.image_shape), jnp.float32, mesh, split=True)
    function = jax.jit(classifier.apply_fn)
    return Program("forward", function, (classifier.variables, images), {}, rows)


def preparation(network: Network, alteration: Alteration, mesh: Mesh) -> Program:
    """What `evaluate` does once with a block of images, whatever the levels."""
    number = network.num_images
    args = (
        shapes.array((number, *network.image_shape), jnp.uint8, mesh, split=True),
        shapes.array((number,), jnp.uint32, mesh, split=True),
        shapes.key(mesh),
    )
    static = {"alteration": alteration, "mesh": mesh}
    return Program(f"prepare {alteration.name}", prepare, args, static, 0)


def step(
    network: Network, alteration: Alteration, mesh: Mesh, classifier: Any = None
) -> Program:
    """What `evaluate` does with a block of images at a few levels.

    Args:
      network: the network, and how many images and levels.
      alteration: the alteration.
      mesh: the devices.
      classifier: another classifier than the network's, of shapes.
    """
    if classifier is None:
        classifier = network.classifier(shapes.whole(network.variables(), mesh))
    prepared = preparation(network, alteration, mesh).lowered().out_info
    number, num_levels = network.num_images, network.num_levels
    args = (
        classifier,
        shapes.split(prepared, mesh),
        shapes.array((number,), jnp.uint32, mesh, split=True),
        shapes.key(mesh),
        shapes.array((num_levels,), jnp.float32, mesh),
        shapes.array((), jnp.int32, mesh),
        shapes.array((), jnp.float32, mesh),
    )
    levels = np.linspace(alteration.lower, alteration.upper, num_levels)
    return Program(
        alteration.name,
        answer_at_levels,
        args,
        {"alteration": alteration, "mesh": mesh},
        network.rows,
        # Where levels are taken in turn, as many as are asked for.
        turns=num_levels,
        values={
            4: levels.astype(np.float32),
            5: np.int32(num_levels),
            6: np.float32(1),
        },
    )


def read_and_write(network: Network, mesh: Mesh) -> Program:
    """Reads each image once and writes it once for each level."""

    @jax.jit
    def copied(images: jax.Array, levels: jax.Array) -> jax.Array:
        return jax.vmap(lambda level: images + level)(levels)

    shape = (network.num_images, *network.image_shape)
    args = (
        shapes.array(shape, jnp.float32, mesh, split=True),
        shapes.array((network.num_levels,), jnp.float32, mesh),
    )
    return Program("read and write once", copied, args, {}, 0)
