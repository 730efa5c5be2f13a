"""The training loop."""

import functools
import os
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
import optax
from jax.sharding import Mesh
from tqdm.auto import tqdm

from jaxrob._classifier import Classifier
from jaxrob._dataset import Dataset, check_labels_below
from jaxrob._devices.blocks import Call
from jaxrob._devices.hosts import is_first, local, put
from jaxrob._devices.mesh import ImageMesh, along_images, checked_mesh, replicated
from jaxrob._engine.provenance import dataset_fingerprint
from jaxrob._keys import checked_key, host_generator
from jaxrob.training._batches import Batches, every_image
from jaxrob.training._checkpoints import open_checkpoints, restore, save
from jaxrob.training._checks import check_batches, check_training
from jaxrob.training._network import Network, network_of
from jaxrob.training._schedule import (
    PlannedStep,
    Schedule,
    make_schedule,
    remaining_steps,
    usual_optimizer,
)
from jaxrob.training._step import (
    Step,
    TrainingState,
    compiled_step,
    initial_state,
    step_inputs,
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
    """Trains a Flax module on a data set, and returns it as a classifier.

    The loss is the cross-entropy of the module's log-probabilities.

    Example::

        train = jaxrob.data.load("digits", "train")
        module = jaxrob.networks.MLP()
        classifier = jaxrob.training.fit(module, train, key=jax.random.key(0))

    Args:
      module: a Linen module called as `module(images, train=True)`, and without
        `train` where it does not train; or an NNX module, called as `module(images)`
        after its `train()` or `eval()`. Either may have dropout and batch statistics.
        An NNX module starts with its present weights, which do not depend on the key,
        and is not changed. Train networks of other frameworks in their framework.
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
        training; a finished training just returns. Only parameters, batch statistics
        and the optimiser's state are saved: the order of the images and all random
        draws follow from the key and the number of the step.
      checkpoint_every: steps between checkpoints; by default those of an epoch. There
        is always one at the end.
      on_epoch: called after each epoch with its number, from 1, and the current
        classifier, in evaluation mode. After a resumption it is not called for earlier
        epochs.
      mesh: devices that share the images of each step, along all of the mesh's axes; by
        default all devices of this process. Each holds all parameters. Losses, batch
        statistics and dropout are computed over the whole batch, whether or not the
        number of devices divides it: results are those of one device, except for
        rounding. For several processes see `jaxrob.evaluate`.
      progress: whether to show a progress bar.

    Returns:
      The classifier, in evaluation mode.

    Raises:
      TypeError: if `dataset` is not a `Dataset` in memory.
      ValueError: if `epochs` is below 1, `batch_size` is not in 1 ... N, a label is
        not a class of the module, both `epochs` and `images_seen` are given,
        `images_seen` is below `batch_size`, or the checkpoints are damaged, or come
        from a training with other settings or an optimiser of another structure (its
        hyperparameters are not compared).
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
    epochs, images_seen, checkpoint_every = (one and int(one) for one in counts)
    key = checked_key(key)
    over = along_images(checked_mesh(mesh))
    epoch_batches = (batches or every_image(len(dataset)))(batch_size)
    check_batches(epoch_batches)
    schedule = make_schedule(epoch_batches.size, batch_size, epochs, images_seen)
    network, begin, step, rng = prepared(
        module, outputs, epoch_batches, schedule, optimizer, key, over
    )
    state = begin(dataset.images[:1])
    classifier = network.classifier(state.params, state.collections, outputs)
    num_classes = classifier.num_classes(dataset.images.shape[1:])
    check_labels_below(
        dataset.labels, num_classes, f"labels of {dataset.name}", dataset.class_names
    )
    state = put(state, replicated(over))
    checkpoints, done = None, 0
    if checkpoint is not None:
        checkpoints = open_checkpoints(
            checkpoint,
            module=network.description,
            dataset=dataset_fingerprint(dataset),
            key=jax.random.key_data(key).tolist(),
            num_steps=schedule.num_steps,
            batch_size=batch_size,
            outputs=outputs,
            batches=epoch_batches.description,
        )
        state, done = restore(checkpoints, state)
        every = checkpoint_every or schedule.epoch_steps
        schedule = schedule._replace(checkpoint_every=every)
    steps = remaining_steps(epoch_batches, schedule, rng, done)
    hidden = not (progress and is_first())
    bar = tqdm(total=schedule.num_steps, initial=done, unit="step", disable=hidden)
    with bar:
        for planned in steps:
            given = step_inputs(dataset, planned, over)
            state, loss = Call(step, (state, *given)).run()
            bar.update()
            _check_finite(loss, planned)
            if checkpoints is not None and planned.is_kept:
                save(checkpoints, planned.done, state)
            if planned.ends_epoch:
                bar.set_postfix(epoch=planned.epoch, loss=f"{float(loss):.4f}")
                if on_epoch is not None:
                    on_epoch(planned.epoch, _classifier(network, state, outputs))
    if checkpoints is not None:
        checkpoints.manager.close()
    return _classifier(network, state, outputs)


class Prepared(NamedTuple):
    """A training before its first step.

    Attributes:
      network: the module, as functions.
      begin: `begin(images)` returns the state before the first step, for images of the
        shape of `[1, ...]` images; it may be traced.
      step: the compiled step.
      rng: draws the batches.
    """

    network: Network
    begin: Callable[[Any], TrainingState]
    step: Step
    rng: np.random.Generator


def prepared(
    module: Any,
    outputs: str,
    batches: Batches,
    schedule: Schedule,
    optimizer: optax.GradientTransformation | None,
    key: jax.Array,
    mesh: ImageMesh,
) -> Prepared:
    """Prepares a training, with the settings of `fit`; nothing is computed."""
    if optimizer is None:
        optimizer = usual_optimizer(schedule)
    init_key, order_key, dropout_key = jax.random.split(key, 3)
    network = network_of(module)
    begin = functools.partial(initial_state, network, optimizer, init_key)
    keys = order_key, dropout_key
    step = compiled_step(network, outputs, optimizer, batches.make, *keys, mesh)
    return Prepared(network, begin, step, host_generator(order_key))


def _check_finite(loss: jax.Array, planned: PlannedStep) -> None:
    # Reading the loss waits for the step, so it is read only after some steps.
    if not (planned.ends_epoch or planned.is_kept) or np.isfinite(float(loss)):
        return
    epoch, step = f"epoch {planned.epoch}", f"step {planned.done}"
    when = epoch if planned.ends_epoch else step
    raise FloatingPointError(f"the loss is {loss} after {when}: lower the rate")


def _classifier(network: Network, state: TrainingState, outputs: str) -> Classifier:
    params, collections, _ = local(state)
    return network.classifier(params, collections, outputs)
