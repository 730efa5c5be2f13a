"""Checks of the arguments of a training, before any computation."""

from collections.abc import Callable
from typing import Any

import optax
from jax.sharding import Mesh

from jaxrob._arguments.checks import (
    check_choice,
    check_type,
    checked_flag,
    checked_integer,
    checked_path,
    checked_text,
)
from jaxrob._classifier import OUTPUTS
from jaxrob._dataset import Dataset
from jaxrob._devices.mesh import checked_mesh
from jaxrob._keys import check_key
from jaxrob.training._batches import Batches


def check_training(
    module: Any,
    dataset: Any,
    key: Any,
    *,
    epochs: Any = None,
    images_seen: Any = None,
    batch_size: Any = 128,
    optimizer: Any = None,
    outputs: Any = "logits",
    batches: Any = None,
    checkpoint: Any = None,
    checkpoint_every: Any = None,
    on_epoch: Any = None,
    mesh: Mesh | None = None,
    progress: Any = False,
) -> None:
    """Rejects arguments of `fit` with a wrong type, or outside their range."""
    # Flax is slow to import; a caller with a module has imported it already.
    from flax import linen, nnx

    check_type(
        "module",
        module,
        linen.Module | nnx.Module,
        "a Flax Linen or NNX module (networks of other frameworks are trained in their "
        "own)",
    )
    check_type("dataset", dataset, Dataset, "a jaxrob.Dataset in memory")
    check_key(key)
    checked_integer("batch_size", batch_size, at_least=1, at_most=len(dataset))
    for name, number in (
        ("epochs", epochs),
        ("images_seen", images_seen),
        ("checkpoint_every", checkpoint_every),
    ):
        if number is not None:
            checked_integer(name, number, at_least=1)
    if optimizer is not None:
        check_optimizer(optimizer)
    check_choice("outputs", outputs, OUTPUTS)
    if batches is not None:
        check_type(
            "batches", batches, Callable, "a function from a batch size to Batches"
        )
    if checkpoint is not None:
        checked_path("checkpoint", checkpoint)
    if on_epoch is not None:
        check_type(
            "on_epoch", on_epoch, Callable, "a function of a number and a classifier"
        )
    checked_mesh(mesh)
    checked_flag("progress", progress)


def check_optimizer(optimizer: Any) -> None:
    """Rejects an argument that is not an optimiser."""
    wanted = "an optax.GradientTransformation, such as optax.adam(1e-3)"
    check_type("optimizer", optimizer, optax.GradientTransformation, wanted)


def check_batches(batches: Any) -> None:
    """Rejects an argument that is not `Batches`, or with wrong parts."""
    check_type("batches(batch_size)", batches, Batches, "jaxrob.training.Batches")
    checked_integer("Batches.size", batches.size, at_least=1)
    check_type(
        "Batches.draw", batches.draw, Callable, "a function of a NumPy generator"
    )
    check_type("Batches.make", batches.make, Callable, "a function that makes a batch")
    checked_text("Batches.description", batches.description, may_be_empty=True)
