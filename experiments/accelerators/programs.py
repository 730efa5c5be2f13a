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
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import jaxrob
from accelerators.networks import Network
from jaxrob import alterations, steps
from jaxrob.alterations import Alteration


def array(
    shape: tuple[int, ...], dtype: Any, mesh: Mesh, split: bool = False
) -> jax.ShapeDtypeStruct:
    """An array, replicated on the devices or sharded along its first axis."""
    sharding = NamedSharding(mesh, P(mesh.axis_names) if split else P())
    return jax.ShapeDtypeStruct(shape, dtype, sharding=sharding)


def whole(tree: Any, mesh: Mesh) -> Any:
    """A pytree of arrays, or of their shapes, replicated on the devices."""
    return jax.tree.map(lambda leaf: array(leaf.shape, leaf.dtype, mesh), tree)


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
    """The others, with the common corruptions as "corruptions_fog" and so on."""
    known = alterations_by_name()
    every = every_alteration()
    found = {name: every[name] for name in every if name not in known}
    for name in alterations.corruptions.__all__:
        with contextlib.suppress(FileNotFoundError, ImportError):
            found[f"corruptions_{name}"] = getattr(alterations.corruptions, name)()
    return found


def forward(network: Network, rows: int, mesh: Mesh) -> Program:
    """The forward pass alone, over images that lie on the device."""
    classifier = network.classifier(whole(network.variables(), mesh))
    images = array((rows, *network.image_shape), jnp.float32, mesh, split=True)
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
        array(shape, jnp.float32, mesh, split=True),
        array((network.num_levels,), jnp.float32, mesh),
    )
    return of_function("read and write once", copied, args, 0)
