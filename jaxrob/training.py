"""The training loop, on optax, with checkpoints by orbax."""

import functools
import math
import os
import pathlib
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh
from tqdm.auto import tqdm

from jaxrob._classifier import Classifier
from jaxrob._dataset import Dataset
from jaxrob._engine.provenance import dataset_fingerprint
from jaxrob._runtime.hosts import is_first, local, put, put_rows
from jaxrob._runtime.mesh import along_images, checked_mesh, split_over, whole_on
from jaxrob._runtime.pixels import unit_range

_EPOCHS = 5


class Feed(NamedTuple):
    """What an epoch shows in place of every image once.

    Attributes:
      size: images in an epoch.
      epoch: `epoch(rng)`, called once for each epoch in turn, with a NumPy generator
        that the training's key started; returns arrays `[T, ...]` by name, what each
        of T = size // batch_size steps needs, among them "index" `[T, R]`, the rows of
        the data set that the step reads.
      batch: `batch(images, labels, part, key, losses)`, traced; from the R images read
        (float32), their labels and the step's rows of the other arrays it makes the
        `batch_size` images and labels that are trained on. `losses(images, labels)`
        gives each image's loss under the parameters so far, in evaluation mode.
      name: what it does, as text that the same settings repeat; a checkpoint is only
        resumed by the same.
    """

    size: int
    epoch: Callable[[np.random.Generator], dict[str, np.ndarray]]
    batch: Callable[..., tuple[jax.Array, jax.Array]]
    name: str


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
    feed: Callable[[int], Feed] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_every: int | None = None,
    on_epoch: Callable[[int, Classifier], None] | None = None,
    mesh: Mesh | None = None,
    progress: bool = False,
) -> Classifier:
    """Trains a Flax Linen module by the cross-entropy of its log-probabilities.

    Args:
      module: a Linen module called as `module(images, train=True)`, and without
        `train` where it does not train; with dropout and batch statistics if it likes.
      dataset: the training set.
      key: a random key for the parameters, the order of the images and dropout.
      epochs: passes over the data, at least 1; by default 5.
      images_seen: how many images are trained on, in place of `epochs`; the last epoch
        may end early. At least a batch, and rounded down to whole ones.
      batch_size: images in a step; what is left over of an epoch is dropped.
      optimizer: by default Adam, its rate decaying from 1e-3 along a cosine.
      outputs: what the module returns, see `Classifier`.
      feed: for batches other than the data set's images as they are, a function from
        the batch size to a `Feed`; see `jaxrob.retraining`.
      checkpoint: a folder for checkpoints. If it holds some, the training goes on from
        the last and ends with the parameters, bit for bit, that it would have ended
        with; a finished one just returns. The order of the images and all random
        draws follow from the key and the number of the step, so that parameters,
        batch statistics and the optimiser's state are all that is kept.
      checkpoint_every: steps between checkpoints; by default those of an epoch. There
        is one at the end in any case.
      on_epoch: called after each epoch with its number, from 1, and the classifier so
        far, in evaluation mode; not called again for epochs before a resumption.
      mesh: devices over which the images of each step are split, along all of its
        axes; by default all devices of this process. Each holds all parameters. Losses,
        batch statistics and dropout are those of the whole batch, whether or not the
        devices divide it: results are those of one device, but for rounding. For
        several processes see `jaxrob.evaluate`.
      progress: whether a progress bar is shown.

    Returns:
      The classifier, in evaluation mode.

    Raises:
      ValueError: if `epochs` is below 1, `batch_size` is not in 1 ... N, a label is
        no class of the module, both `epochs` and `images_seen` are given, the latter
        is below `batch_size`, or the checkpoints are of a training with other
        settings or an optimiser of another structure (its numbers are not compared).
      FloatingPointError: if the loss is no longer finite.
    """
    if not isinstance(dataset, Dataset):
        raise TypeError(
            f"dataset must be a jaxrob.Dataset in memory; got {type(dataset).__name__}"
        )
    if epochs is not None and epochs < 1:
        raise ValueError(f"epochs must be at least 1; got {epochs}")
    if checkpoint_every is not None and checkpoint_every < 1:
        raise ValueError(f"checkpoint_every must be at least 1; got {checkpoint_every}")
    if not 1 <= batch_size <= len(dataset):
        raise ValueError(
            f"batch_size must lie in 1 ... {len(dataset)}, the number of images; got "
            f"{batch_size}"
        )
    mesh = along_images(checked_mesh(mesh))
    over_images, everywhere = split_over(mesh), whole_on(mesh)
    feed = _plain(len(dataset), batch_size) if feed is None else feed(batch_size)
    steps = feed.size // batch_size
    if not steps:
        raise ValueError(
            f"batch_size must be at most {feed.size}, the number of images in an "
            f"epoch; got {batch_size}"
        )
    num_steps = _num_steps(steps, batch_size, epochs, images_seen)
    if optimizer is None:
        optimizer = optax.adam(optax.cosine_decay_schedule(1e-3, num_steps))
    init_key, order_key, dropout_key = jax.random.split(key, 3)
    variables = jax.jit(module.init)(init_key, _as_images(dataset.images[:1]))
    num_classes = Classifier.from_linen(module, variables, outputs).num_classes(
        dataset.images.shape[1:]
    )
    if dataset.labels.max() >= num_classes:
        raise ValueError(
            f"labels of {dataset.name} must be below the module's number of classes, "
            f"{num_classes}; got {dataset.labels.max()}"
        )
    params = variables["params"]
    rest = {name: value for name, value in variables.items() if name != "params"}

    def loss(params, rest, images, labels, key):
        returned, new_rest = module.apply(
            {"params": params, **rest},
            images,
            train=True,
            rngs={"dropout": key},
            mutable=list(rest),
        )
        return _losses(returned, labels, outputs).mean(), new_rest

    @functools.partial(jax.jit, out_shardings=everywhere)
    def step(params, rest, state, images, labels, part, count):
        def losses(images, labels):
            returned = module.apply({"params": params, **rest}, images)
            return _losses(returned, labels, outputs)

        feed_key = jax.random.fold_in(order_key, count)
        # Without what fills up the devices' parts. XLA splits the batch as evenly as
        # can be, and adds up over the devices where one would over the images.
        images = _as_images(images[: len(labels)])
        batch = feed.batch(images, labels, part, feed_key, losses)
        images, labels = jax.lax.with_sharding_constraint(batch, over_images)
        gradient = jax.value_and_grad(loss, has_aux=True)
        dropping = jax.random.fold_in(dropout_key, count)
        (value, rest), updates = gradient(params, rest, images, labels, dropping)
        updates, state = optimizer.update(updates, state, params)
        return optax.apply_updates(params, updates), rest, state, value

    trained = put((params, rest, optimizer.init(params)), everywhere)
    done = 0
    if checkpoint is not None:
        settings = {
            "module": re.sub(r" at 0x[0-9a-f]+", "", repr(module)),
            "dataset": dataset_fingerprint(dataset),
            "key": jax.random.key_data(key).tolist(),
            "num_steps": num_steps,
            "batch_size": batch_size,
            "outputs": outputs,
            "feed": feed.name,
        }
        manager = _manager(checkpoint)
        trained, done = _restored(manager, checkpoint, settings, trained)
    rng = np.random.default_rng(np.asarray(jax.random.bits(order_key, 4)))
    every = checkpoint_every or steps
    shown = progress and is_first()
    with tqdm(total=num_steps, initial=done, unit="step", disable=not shown) as bar:
        for epoch in range(math.ceil(num_steps / steps)):
            # Drawn for epochs long finished too, so that the generator is where it was.
            parts = feed.epoch(rng)
            last = min((epoch + 1) * steps, num_steps)
            for count in range(max(done, epoch * steps), last):
                row = count - epoch * steps
                part = {name: array[row] for name, array in parts.items()}
                index = part.pop("index")
                images = _read(dataset.images, index, over_images)
                others = dataset.labels[index], part, np.uint32(count)
                if mesh.size > 1:
                    others = put(others, everywhere)
                *trained, value = step(*trained, images, *others)
                bar.update()
                ended = count + 1 == last
                kept = (count + 1) % every == 0 or count + 1 == num_steps
                kept &= checkpoint is not None
                if (ended or kept) and not np.isfinite(float(value)):
                    when = f"epoch {epoch + 1}" if ended else f"step {count + 1}"
                    raise FloatingPointError(
                        f"the loss is {value} after {when}: lower the rate"
                    )
                if kept:
                    _save(manager, count + 1, settings, trained)
            if done < last:
                bar.set_postfix(epoch=epoch + 1, loss=f"{float(value):.4f}")
                if on_epoch is not None:
                    on_epoch(epoch + 1, _classifier(module, trained, outputs))
    if checkpoint is not None:
        manager.close()
    return _classifier(module, trained, outputs)


def _read(images, index, sharding):
    """The images at `index` for the devices, filled up with the last of them."""
    if sharding.mesh.size == 1:
        # Where the parameters are, a step takes it fastest.
        return np.asarray(images[index])
    index = np.pad(index, (0, -len(index) % sharding.mesh.size), "edge")
    return put_rows(lambda own: np.asarray(images[index[own]]), len(index), sharding)


def _plain(num_images, batch_size):
    """Every image once, in random order."""
    steps = num_images // batch_size

    def epoch(rng):
        index = rng.permutation(num_images)[: steps * batch_size]
        return {"index": index.reshape(steps, batch_size)}

    def batch(images, labels, part, key, losses):
        del part, key, losses
        return images, labels

    return Feed(num_images, epoch, batch, "images as they are")


def _num_steps(steps, batch_size, epochs, images_seen):
    if images_seen is None:
        return steps * (_EPOCHS if epochs is None else epochs)
    if epochs is not None:
        raise ValueError(
            f"epochs and images_seen exclude each other; got {epochs} and {images_seen}"
        )
    if images_seen < batch_size:
        raise ValueError(
            f"images_seen must be at least batch_size, {batch_size}; got {images_seen}"
        )
    return images_seen // batch_size


def _losses(returned, labels, outputs):
    """The cross-entropy `[B]` of what the module returned."""
    classifier = Classifier(lambda variables, images: returned, None, outputs)
    # Of the images, only their number counts here.
    log_probabilities = classifier.log_probabilities(labels)[0]
    return -jnp.take_along_axis(log_probabilities, labels[:, None], axis=1)[:, 0]


def _classifier(module, trained, outputs):
    params, rest, _ = local(trained)
    return Classifier.from_linen(module, {"params": params, **rest}, outputs)


def _manager(path):
    # Imported only where it is used, for that takes seconds.
    import orbax.checkpoint as ocp

    options = ocp.CheckpointManagerOptions(
        max_to_keep=1, enable_async_checkpointing=False
    )
    return ocp.CheckpointManager(pathlib.Path(path).absolute(), options=options)


def _save(manager, count, settings, trained):
    import orbax.checkpoint as ocp

    # Written under another name and renamed when whole; only then the last one goes.
    items = ocp.args.Composite(
        trained=ocp.args.StandardSave(tuple(trained)),
        settings=ocp.args.JsonSave(settings),
    )
    manager.save(count, args=items)


def _restored(manager, path, settings, trained):
    """What was trained, and in how many steps."""
    import orbax.checkpoint as ocp

    count = manager.latest_step()
    if count is None:
        return trained, 0
    items = ocp.args.Composite(settings=ocp.args.JsonRestore())
    found = manager.restore(count, args=items)["settings"]
    for name, value in settings.items():
        if found.get(name) != value:
            raise ValueError(
                f"checkpoint {path} is of a training with another {name}: "
                f"{found.get(name)}, not {value}"
            )
    like = jax.tree.map(ocp.utils.to_shape_dtype_struct, trained)
    items = ocp.args.Composite(trained=ocp.args.StandardRestore(like))
    try:
        return manager.restore(count, args=items)["trained"], count
    except ValueError as error:
        raise ValueError(
            f"checkpoint {path} does not fit the module and the optimiser: {error}"
        ) from error


def _as_images(images: Any) -> jax.Array:
    images = jnp.asarray(images)
    return unit_range(images) if images.dtype == jnp.uint8 else images.astype("float32")
