"""The training loop, the checks of its arguments, and its checkpoints by orbax."""

import contextlib
import os
import pathlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import numpy as np
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
from jaxrob._classifiers.classifier import OUTPUTS, Classifier
from jaxrob._dataset import Dataset, check_labels_below
from jaxrob._devices.blocks import Call
from jaxrob._devices.mesh import along_images, checked_mesh, local, put, replicated
from jaxrob._engine.execution import progress_bar
from jaxrob._engine.provenance import dataset_fingerprint
from jaxrob._identity.identity import digest, host_array, traced
from jaxrob._identity.program import fingerprint_of
from jaxrob._keys import check_key, checked_key, host_generator
from jaxrob._numbers import as_floats
from jaxrob.training._step import (
    Batches,
    Network,
    TrainingState,
    compiled_step,
    every_image,
    initial_state,
    make_schedule,
    network_of,
    remaining_steps,
    step_inputs,
    usual_optimizer,
)


def fit(
    module: Any,
    dataset: Dataset,
    *,
    key: jax.Array,
    epochs: int | None = None,
    images_seen: int | None = None,
    batch_size: int = 128,
    optimizer: optax.GradientTransformation | None = None,
    outputs: str = "logits",
    batches: Callable[[int], Batches] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_every: int | None = None,
    on_epoch: Callable[[int, Classifier], None] | None = None,
    mesh: Mesh | None = None,
    progress: bool = False,
) -> Classifier:
    """Trains a Flax module on a data set; returns a classifier, in evaluation mode.

    The loss is the cross-entropy of the module's log-probabilities.

    Example::

        train = jaxrob.data.load("digits", "train")
        module = jaxrob.networks.MLP()
        classifier = jaxrob.training.fit(module, train, key=jax.random.key(0))

    Args:
      module: a Linen module called as `module(images, train=True)`, and without `train`
        where it does not train; or an NNX module, called as `module(images)` after its
        `train()` or `eval()`. Either may have dropout and batch statistics. An NNX
        module starts with its present weights, which do not depend on the key, and is
        not changed.
      dataset: the training set.
      key: a random key for the parameters, the order of the images and dropout.
      epochs: passes over the data, at least 1; by default 5.
      images_seen: the number of images to train on, in place of `epochs`; the last
        epoch may end early. At least `batch_size`, and rounded down to a multiple of
        it.
      batch_size: images in a step; an epoch's incomplete last batch is dropped.
      optimizer: by default Adam with a cosine decay of its learning rate from 1e-3.
      outputs: the kind of the module's outputs, see `Classifier`.
      batches: a function from the batch size to `Batches`, see `jaxrob.retraining`; by
        default the batches hold the data set's images as they are.
      checkpoint: a folder for checkpoints. If it holds one, the training resumes from
        there, with final parameters identical bit for bit to those of an uninterrupted
        training; a finished training just returns.
      checkpoint_every: steps between checkpoints; by default those of an epoch. There
        is always one at the end.
      on_epoch: called after each epoch with its number, from 1, and the current
        classifier, in evaluation mode; after a resumption not for earlier epochs.
      mesh: devices that share the images of each step, along all of the mesh's axes; by
        default all devices of this process. Each holds all parameters. Results are
        those of one device, except for rounding. For several processes see
        `jaxrob.evaluate`.
      progress: whether to show a progress bar.

    Raises:
      TypeError: if `dataset` is not a `Dataset` in memory.
      ValueError: if a number is out of its range, a label is not a class of the module,
        both `epochs` and `images_seen` are given, or the checkpoints are damaged, or
        come from a training of another module, optimiser or other settings.
      FloatingPointError: if the loss is no longer finite.
    """
    check_training(
        module,
        dataset,
        key,
        epochs=epochs,
        images_seen=images_seen,
        batch_size=batch_size,
        optimizer=optimizer,
        outputs=outputs,
        batches=batches,
        checkpoint=checkpoint,
        checkpoint_every=checkpoint_every,
        on_epoch=on_epoch,
        mesh=mesh,
        progress=progress,
    )
    batch_size, counts = int(batch_size), (epochs, images_seen, checkpoint_every)
    epochs, images_seen, checkpoint_every = (count and int(count) for count in counts)
    key = checked_key(key)
    over = along_images(checked_mesh(mesh))
    epoch_batches = (batches or every_image(len(dataset)))(batch_size)
    check_batches(epoch_batches)
    schedule = make_schedule(epoch_batches.size, batch_size, epochs, images_seen)
    if optimizer is None:
        optimizer = usual_optimizer(schedule)
    init_key, order_key, dropout_key = jax.random.split(key, 3)
    network = network_of(module)
    make = epoch_batches.make
    step = compiled_step(
        network, outputs, optimizer, make, order_key, dropout_key, over
    )
    state = initial_state(network, optimizer, init_key, dataset.images[:1])
    classifier = network.classifier(state.params, state.collections, outputs)
    num_classes = classifier.num_classes(dataset.images.shape[1:])
    check_labels_below(
        dataset.labels, num_classes, f"labels of {dataset.name}", dataset.class_names
    )
    state = put(state, replicated(over))
    checkpoints, done = None, 0
    if checkpoint is not None:
        # What they compute, with rates and first weights: a name says nothing of it.
        update = optimizer.update
        computed, _ = traced(network.trained, init_key, as_floats(dataset.images[:1]))
        updates, _ = traced(
            lambda params, at: (optimizer.init(params), update(params, at, params)),
            state.params,
            state.optimizer,
        )
        checkpoints = open_checkpoints(
            checkpoint,
            module=fingerprint_of(computed).digest,
            dataset=dataset_fingerprint(dataset),
            key=jax.random.key_data(key).tolist(),
            num_steps=schedule.num_steps,
            batch_size=batch_size,
            outputs=outputs,
            batches=epoch_batches.description,
            optimizer=fingerprint_of(updates).digest,
        )
        state, done = restore(checkpoints, state)
        every = checkpoint_every or schedule.epoch_steps
        schedule = schedule._replace(checkpoint_every=every)
    steps = remaining_steps(epoch_batches, schedule, host_generator(order_key), done)
    with progress_bar("training", progress, "step", schedule.num_steps) as bar:
        bar.skip(done)
        for planned in steps:
            inputs = step_inputs(dataset, planned, over)
            state, loss = Call(step, (state, *inputs)).run()
            bar.update()
            # Reading the loss waits for the step.
            must_be_read = planned.ends_epoch or planned.is_kept
            if must_be_read and not np.isfinite(float(loss)):
                when = f"epoch {planned.epoch}, step {planned.done}"
                raise FloatingPointError(f"the loss is {loss}, {when}: lower the rate")
            if checkpoints is not None and planned.is_kept:
                save(checkpoints, planned.done, state)
            if planned.ends_epoch:
                bar.set_postfix(epoch=planned.epoch, loss=f"{float(loss):.4f}")
                if on_epoch is not None:
                    on_epoch(planned.epoch, _classifier(network, state, outputs))
    if checkpoints is not None:
        checkpoints.manager.close()
    return _classifier(network, state, outputs)


def _classifier(network: Network, state: TrainingState, outputs: str) -> Classifier:
    params, collections, _ = local(state)
    return network.classifier(params, collections, outputs)


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
    # Flax is slow to import; a caller with a module has imported its part already.
    from flax import linen

    if not isinstance(module, linen.Module):
        from flax import nnx

        allowed = "a Flax Linen or NNX module (other networks are trained in their own)"
        check_type("module", module, nnx.Module, allowed)
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
    check_choice("outputs", outputs, OUTPUTS)
    if checkpoint is not None:
        checked_path("checkpoint", checkpoint)
    transformation = "an optax.GradientTransformation, such as optax.adam(1e-3)"
    for name, value, kind, allowed in (
        ("optimizer", optimizer, optax.GradientTransformation, transformation),
        ("batches", batches, Callable, "a function from a batch size to Batches"),
        ("on_epoch", on_epoch, Callable, "a function of a number and a classifier"),
    ):
        if value is not None:
            check_type(name, value, kind, allowed)
    checked_mesh(mesh)
    checked_flag("progress", progress)


def check_batches(batches: Any) -> None:
    check_type("batches(batch_size)", batches, Batches, "jaxrob.training.Batches")
    checked_integer("Batches.size", batches.size, at_least=1)
    check_type("Batches.draw", batches.draw, Callable, "a function of a generator")
    check_type("Batches.make", batches.make, Callable, "a function that makes a batch")
    checked_text("Batches.description", batches.description, may_be_empty=True)


_DIGEST = "digest"


class Checkpoints(NamedTuple):
    path: str | os.PathLike[str]
    manager: Any  # orbax's `CheckpointManager` of the folder
    settings: dict[str, Any]  # JSON values; only the same ones resume a checkpoint


def open_checkpoints(path: str | os.PathLike[str], **settings: Any) -> Checkpoints:
    # Orbax takes seconds to import, so only a training with checkpoints imports it.
    import orbax.checkpoint as ocp

    options = ocp.CheckpointManagerOptions(
        max_to_keep=1, enable_async_checkpointing=False
    )
    folder = pathlib.Path(path).absolute()
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"checkpoint {path} is no folder")
    with _named(path):
        manager = ocp.CheckpointManager(folder, options=options)
    return Checkpoints(path, manager, settings)


def save(checkpoints: Checkpoints, count: int, state: TrainingState) -> None:
    import orbax.checkpoint as ocp

    items = ocp.args.Composite(
        trained=ocp.args.StandardSave(tuple(state)),
        settings=ocp.args.JsonSave(
            checkpoints.settings | {_DIGEST: _digest(count, state)}
        ),
    )
    checkpoints.manager.save(count, args=items)


def restore(
    checkpoints: Checkpoints, state: TrainingState
) -> tuple[TrainingState, int]:
    """Returns the last state and its number of steps; `state` and 0 without one."""
    import orbax.checkpoint as ocp

    path, manager, settings = checkpoints
    with _named(path):
        count = manager.latest_step()
    if count is None:
        return state, 0
    items = ocp.args.Composite(settings=ocp.args.JsonRestore())
    with _named(path):
        saved = dict(manager.restore(count, args=items)["settings"])
    for name, value in settings.items():
        if saved.get(name) != value:
            raise ValueError(
                f"checkpoint {path} is of another {name}: {saved.get(name)} not {value}"
            )
    like = jax.tree.map(ocp.utils.to_shape_dtype_struct, tuple(state))
    items = ocp.args.Composite(trained=ocp.args.StandardRestore(like))
    with _named(path):
        restored = TrainingState(*manager.restore(count, args=items)["trained"])
    # Orbax detects most damage, but not changed numbers.
    if saved.get(_DIGEST) != _digest(count, restored):
        raise ValueError(
            f"checkpoint {path} is damaged: its numbers are not those of step {count}; "
            "move it away to start anew"
        )
    return restored, count


def _digest(count: int, state: TrainingState) -> str:
    leaves = jax.tree_util.tree_leaves_with_path(tuple(state))
    parts = [
        part
        for path, leaf in leaves
        for part in (jax.tree_util.keystr(path), host_array(leaf))
    ]
    return digest([str(count), *parts])


@contextlib.contextmanager
def _named(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turns every exception inside into a ValueError that names the folder."""
    try:
        yield
    # Damaged files raise errors of all kinds in orbax, a plain Exception too.
    except Exception as error:
        raise ValueError(
            f"checkpoint {path} is damaged, or does not fit the module and the "
            f"optimiser: {type(error).__name__}: {error}"
        ) from error
