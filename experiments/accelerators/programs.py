"""The steps of `evaluate` and what they are compared with.

The library's steps come from `jaxrob.steps`. Their arguments are shapes, since nothing
is run here.
"""

import contextlib
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from every_alteration import every_alteration
from jax.sharding import Mesh

import jaxrob
from accelerators import shapes
from accelerators.networks import Network
from jaxrob import alterations, steps
from jaxrob.alterations import Alteration


class Program(NamedTuple):
    """A program to be compiled."""

    name: str  # what it does
    # Returns the program, traced for the devices that its arguments lie on.
    lower: Callable[[], jax.stages.Lowered]
    # Its arguments: pytrees of shapes, or of NumPy arrays where values matter.
    args: tuple[Any, ...]
    passes: int  # images that the network classifies in it
    # How often a loop turns whose number of iterations is known only at run time.
    turns: int = 1


def of_function(
    name: str, function: Any, args: tuple[Any, ...], passes: int
) -> Program:
    """The program of a jitted function."""
    return Program(name, functools.partial(function.lower, *args), args, passes)


def of_step(name: str, found: steps.Step, turns: int = 1) -> Program:
    """The program of a step of the library."""
    return Program(name, found.lower, found.args, found.passes, turns)


def alterations_by_name() -> dict[str, Alteration]:
    """The papers' alterations by their names, with _ for spaces."""
    found = alterations.presets.cnn_2020()
    return {one.name.replace(" ", "_"): one for one in found}


def further_alterations() -> dict[str, Alteration]:
    """The others: in physical units, and the common corruptions as "corruptions_fog".

    Frost is there if its pictures are installed.
    """
    known = alterations_by_name()
    every = every_alteration()
    found = {name: every[name] for name in every if name not in known}
    for name in alterations.corruptions.__all__:
        with contextlib.suppress(FileNotFoundError, ImportError):
            found[f"corruptions_{name}"] = getattr(alterations.corruptions, name)()
    return found


def forward(network: Network, rows: int, mesh: Mesh) -> Program:
    """The forward pass alone, over images that lie on the device."""
    classifier = network.classifier(shapes.whole(network.variables(), mesh))
    images = shapes.array((rows, *network.image_shape), jnp.float32, mesh, split=True)
    function = jax.jit(classifier.apply_fn)
    return of_function("forward", function, (classifier.variables, images), rows)


def evaluation(
    network: Network,
    alteration: Alteration,
    mesh: Mesh,
    classifier: jaxrob.Classifier | None = None,
) -> steps.Evaluation:
    """The steps of `evaluate` for a network, or for another classifier."""
    return steps.evaluation(
        classifier or network.classifier(network.variables()),
        network.image_shape,
        alteration,
        num_images=network.num_images,
        num_levels=network.num_levels,
        mesh=mesh,
    )


def preparation(network: Network, alteration: Alteration, mesh: Mesh) -> Program:
    """What `evaluate` does once with a block of images, whatever the levels."""
    found = evaluation(network, alteration, mesh).preparation
    return of_step(f"prepare {alteration.name}", found)


def step(
    network: Network,
    alteration: Alteration,
    mesh: Mesh,
    classifier: jaxrob.Classifier | None = None,
) -> Program:
    """What `evaluate` does with a block of images at a few levels."""
    found = evaluation(network, alteration, mesh, classifier).step
    # Sequential levels: the loop's bound is an argument.
    return of_step(alteration.name, found, turns=network.num_levels)


def rows_at_once(network: Network, mesh: Mesh) -> int:
    """Images that `evaluate` classifies at once; on a TPU, those of one level."""
    return evaluation(network, alterations.brightness(), mesh).step.rows


def usual_rows(network: Network, mesh: Mesh) -> int:
    """Images that `evaluate` classifies at once if there are many."""
    classifier = network.classifier(network.variables())
    dim = alterations.brightness()
    return steps.evaluation(classifier, network.image_shape, dim, mesh=mesh).step.rows


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
    return of_function("read and write once", copied, args, 0)
