"""A short training loop for the networks of this library, on optax."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from tqdm.auto import tqdm

from jaxrob._classifier import Classifier
from jaxrob._dataset import Dataset
from jaxrob._pixels import unit_range


def fit(
    module: Any,
    dataset: Dataset,
    *,
    key: jax.Array,
    epochs: int = 5,
    batch_size: int = 128,
    optimizer: optax.GradientTransformation | None = None,
    outputs: str = "logits",
    progress: bool = False,
) -> Classifier:
    """Trains a Flax Linen module by the cross-entropy of its log-probabilities.

    Args:
      module: a Linen module called as `module(images, train=True)`, and without
        `train` where it does not train; with dropout and batch statistics if it likes.
      dataset: the training set.
      key: a random key for the parameters, the order of the images and dropout.
      epochs: passes over the data, at least 1.
      batch_size: images in a step; what is left over of an epoch is dropped.
      optimizer: by default Adam, its rate decaying from 1e-3 along a cosine.
      outputs: what the module returns, see `Classifier`.
      progress: whether a progress bar is shown.

    Returns:
      The classifier, in evaluation mode.

    Raises:
      ValueError: if `epochs` is below 1, `batch_size` is not in 1 ... N, or a label is
        no class of the module.
      FloatingPointError: if the loss is no longer finite.
    """
    if not isinstance(dataset, Dataset):
        raise TypeError(
            f"dataset must be a jaxrob.Dataset in memory; got {type(dataset).__name__}"
        )
    if epochs < 1:
        raise ValueError(f"epochs must be at least 1; got {epochs}")
    if not 1 <= batch_size <= len(dataset):
        raise ValueError(
            f"batch_size must lie in 1 ... {len(dataset)}, the number of images; got "
            f"{batch_size}"
        )
    steps = len(dataset) // batch_size
    if optimizer is None:
        optimizer = optax.adam(optax.cosine_decay_schedule(1e-3, epochs * steps))
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
        classifier = Classifier(lambda variables, images: returned, None, outputs)
        log_probabilities = classifier.log_probabilities(images)[0]
        chosen = jnp.take_along_axis(log_probabilities, labels[:, None], axis=1)
        return -chosen.mean(), new_rest

    @jax.jit
    def step(params, rest, state, images, labels, key):
        gradient = jax.value_and_grad(loss, has_aux=True)
        (value, rest), updates = gradient(params, rest, _as_images(images), labels, key)
        updates, state = optimizer.update(updates, state, params)
        return optax.apply_updates(params, updates), rest, state, value

    state = optimizer.init(params)
    order = np.random.default_rng(np.asarray(jax.random.bits(order_key, 4)))
    count = 0
    with tqdm(total=epochs * steps, unit="step", disable=not progress) as bar:
        for epoch in range(epochs):
            permutation = order.permutation(len(dataset))
            for first in range(0, steps * batch_size, batch_size):
                chosen = permutation[first : first + batch_size]
                params, rest, state, value = step(
                    params,
                    rest,
                    state,
                    np.asarray(dataset.images[chosen]),
                    dataset.labels[chosen],
                    jax.random.fold_in(dropout_key, count),
                )
                count += 1
                bar.update()
            if not np.isfinite(value):
                raise FloatingPointError(
                    f"the loss is {value} after epoch {epoch + 1}: lower the rate"
                )
            bar.set_postfix(epoch=epoch + 1, loss=f"{value:.4f}")
    return Classifier.from_linen(module, {"params": params, **rest}, outputs)


def _as_images(images: Any) -> jax.Array:
    images = jnp.asarray(images)
    return unit_range(images) if images.dtype == jnp.uint8 else images.astype("float32")
