"""The classifiers of the scripts: networks by name, trained, kept or published."""

import math
import os
import pathlib
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen, serialization

import jaxrob
from common import datasets, files, hosts
from jaxrob import alterations, networks, training


class _Network(NamedTuple):
    make: Callable[..., linen.Module]
    epochs: int = 10  # that suffice for the digits
    outputs: str = "logits"


_NETWORKS = {
    "mlp": _Network(networks.MLP),
    "mnist_cnn": _Network(networks.MnistCNN),
    "strided_cnn": _Network(networks.StridedCNN, 20),
    "wide_strided_cnn": _Network(partial(networks.StridedCNN, features=(32, 64, 128))),
    # Stride 2 first: a quarter of the work, a few points less accurate.
    "resnet": _Network(partial(networks.ResNet, stem_stride=2)),
    # Of 0.4 GMAC for photographs of 224 px.
    "resnet_224": _Network(
        partial(networks.ResNet, blocks=(1, 1, 1, 1), width=24, stem_stride=2)
    ),
    "idc_cnn": _Network(networks.IdcCNN, 30, "sigmoid"),
    "vgg16": _Network(networks.VGG16, 30),
}
NAMES = tuple(_NETWORKS)
_BATCH_SIZE = 64
# After ten epochs of the 107 breast-histology patches, which are 20 steps, networks
# answer one class for all of them.
_FEWEST_STEPS = 200
# Networks for images of any size and any number of classes.
GENERAL = ("mnist_cnn", "strided_cnn", "wide_strided_cnn", "resnet", "mlp")
# The highest learning rates for photographs; normalised layers allow a higher one.
_RATE, _RATE_NORMALISED = 2e-3, 5e-3
_NORMALISED = ("resnet", "resnet_224", "vgg16")


def module(name: str, num_classes: int) -> linen.Module:
    if name != "idc_cnn":
        return _NETWORKS[name].make(num_classes=num_classes)
    if num_classes != 2:
        raise ValueError(f"idc_cnn has 2 classes; the data set has {num_classes}")
    return networks.IdcCNN()


def train(
    name: str,
    dataset: jaxrob.Dataset,
    key: jax.Array,
    epochs: int | None = None,
    progress: bool = True,
) -> jaxrob.Classifier:
    usual = _NETWORKS[name]
    if epochs is None:
        steps_an_epoch = math.ceil(len(dataset) / _BATCH_SIZE)
        epochs = max(usual.epochs, math.ceil(_FEWEST_STEPS / steps_an_epoch))
    return training.fit(
        module(name, len(datasets.class_names(dataset))),
        dataset,
        key=key,
        epochs=epochs,
        batch_size=min(_BATCH_SIZE, len(dataset)),
        outputs=usual.outputs,
        mesh=hosts.mesh(),
        progress=progress,
    )


def at_epochs(
    name: str,
    train_set: jaxrob.Dataset,
    chosen: list[int],
    folder: pathlib.Path,
    seed: int,
    data: str,
    progress: bool,
) -> dict[int, jaxrob.Classifier]:
    """A network after some epochs, of which the last ends the training; kept there."""
    network = module(name, len(datasets.class_names(train_set)))
    epochs, number = max(chosen), len(train_set)
    schedule: Any = {"epochs": epochs, "batch_size": min(_BATCH_SIZE, number)}
    title = f"{data}-{name}-seed{seed}-{number}images-{epochs}epochs"
    if data == "cifar10":
        schedule, title = for_photographs(name, number, epochs), f"{title}-augmented"
    paths = {epoch: folder / title / f"{epoch}.msgpack" for epoch in chosen}
    kept = {epoch: files.read(path) for epoch, path in paths.items()}

    def keep(epoch: int, classifier: jaxrob.Classifier) -> None:
        if epoch in paths:
            kept[epoch] = content = to_bytes(classifier)
            files.write(paths[epoch], content)

    if None in kept.values():
        start = time.perf_counter()
        key = jax.random.split(jax.random.key(seed), 3)[0]
        training.fit(
            network, train_set, key=key, **schedule, on_epoch=keep, mesh=hosts.mesh(),
            progress=progress,
        )  # fmt: skip
        print(f"trained in {time.perf_counter() - start:.1f} s")
    shape = train_set.images.shape[1:]
    return {
        epoch: from_bytes(network, shape, content)
        for epoch, content in kept.items()
        if content is not None
    }


def for_photographs(name: str, num_images: int, epochs: int) -> dict[str, Any]:
    """Settings of `jaxrob.training.fit` for learning CIFAR-10 in minutes."""
    # Adam's rate rises for a fifth of the training and falls to zero, "one cycle"
    # (Smith and Topin, 2019).
    batch_size = min(128, num_images)
    return {
        "epochs": epochs,
        "batch_size": batch_size,
        "optimizer": one_cycle(name, num_images // batch_size * epochs),
        "batches": _mirrored_and_shifted(num_images),
    }


def one_cycle(name: str, num_steps: int) -> optax.GradientTransformation:
    rate = _RATE_NORMALISED if name in _NORMALISED else _RATE
    steps = max(num_steps, 2)
    schedule = optax.cosine_onecycle_schedule(steps, rate, pct_start=0.2)
    return optax.adamw(schedule, weight_decay=0.01)


def untrained(
    name: str, image_shape: tuple[int, ...], num_classes: int, key: jax.Array
) -> jaxrob.Classifier:
    network = module(name, num_classes)
    variables = network.init(key, jnp.zeros((1, *image_shape)))
    return jaxrob.Classifier.from_linen(network, variables, _NETWORKS[name].outputs)


def to_bytes(classifier: jaxrob.Classifier) -> bytes:
    return serialization.to_bytes(classifier.variables)


def from_bytes(
    network: linen.Module, image_shape: tuple[int, ...], content: bytes
) -> jaxrob.Classifier:
    image = jnp.zeros((1, *image_shape))
    like = jax.eval_shape(network.init, jax.random.key(0), image)
    variables = serialization.from_bytes(like, content)
    return jaxrob.Classifier.from_linen(network, variables)


def kept(
    path: pathlib.Path,
    network: linen.Module,
    image_shape: tuple[int, ...],
    train: Callable[[], jaxrob.Classifier],
) -> jaxrob.Classifier:
    """A network from its file or, if there is none, trained and written."""
    if (content := files.read(path)) is not None:
        return from_bytes(network, image_shape, content)
    classifier = train()
    files.write(path, to_bytes(classifier))
    return classifier


def published_idc(data_dir: str | None) -> jaxrob.Classifier:
    """Returns the network on breast-histology patches that the 2020 paper published."""
    folder = pathlib.Path(data_dir or os.environ["JAXROB_DATA_DIR"], "idc")
    variables = networks.load_idc_weights(folder / "idc_cnn_weights.npz")
    return jaxrob.Classifier.from_linen(networks.IdcCNN(), variables, "sigmoid")


def clean_accuracy(classifier: jaxrob.Classifier, dataset: jaxrob.Dataset) -> float:
    curve = jaxrob.evaluate(
        classifier, dataset, alterations.brightness(), [0.0], mesh=hosts.mesh()
    )
    return float(curve.accuracy[0])


def _mirrored_and_shifted(
    num_images: int, pixels: int = 4
) -> Callable[[int], training.Batches]:
    """Batches of `jaxrob.training.fit`: images once an epoch, altered at random."""

    def batches(batch_size: int) -> training.Batches:
        steps = num_images // batch_size

        def draw(rng: np.random.Generator) -> dict[str, np.ndarray]:
            index = rng.permutation(num_images)[: steps * batch_size]
            return {"index": index.reshape(steps, batch_size)}

        def make(
            images: jax.Array, labels: jax.Array, drawn: Any, key: jax.Array, _: Any
        ) -> tuple[jax.Array, jax.Array]:
            del drawn
            mirror_key, shift_key = jax.random.split(key)
            mirrored = jax.random.bernoulli(mirror_key, shape=(len(images), 1, 1, 1))
            images = jnp.where(mirrored, images[:, :, ::-1], images)
            shifts = jax.random.randint(shift_key, (len(images), 2), 0, 2 * pixels + 1)
            return _shifted(images, shifts, pixels), labels

        description = f"images mirrored, and shifted by up to {pixels} pixels"
        return training.Batches(num_images, draw, make, description)

    return batches


def _shifted(images: jax.Array, shifts: jax.Array, pixels: int) -> jax.Array:
    """Crops each image at its `shifts`, `[B, 2]`, into the padded image."""
    border = (pixels, pixels)
    padded = jnp.pad(images, ((0, 0), border, border, (0, 0)), mode="edge")

    def window(image: jax.Array, shift: jax.Array) -> Any:
        start = (shift[0], shift[1], 0)
        return jax.lax.dynamic_slice(image, start, images.shape[1:])

    return jax.vmap(window)(padded, shifts)
