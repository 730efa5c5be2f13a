r"""Whether networks of transformers, timm and Equinox answer as in their own framework.

    python experiments/on_ramps.py

Requires the extras transformers, timm and equinox, or the one of `--networks`. Each
network is small, has random weights, and takes 32x32 pixels. Its images are digits.
jaxrob alters and classifies them in `jaxrob.evaluate`; beside it each altered image is
prepared by the framework's own image processor or transform and classified by the
framework alone. Prints, and writes as JSON into the folder `--output`, how many answers
name another class, how many of these are near-ties (the two best logits within 1e-5),
the largest difference of a confidence, and seconds.
"""

import functools
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from absl import app
from common import define, files, startup
from scipy import special

import jaxrob
from jaxrob import alterations, data

_ALTERATIONS = (
    alterations.brightness(),
    alterations.gaussian_noise(0.0, 0.05),
    alterations.gaussian_blur(0.0, 2.0),
    alterations.rotation(-45.0, 45.0, fill="edge"),
)
_SIZE, _CLASSES, _BLOCK = 32, 10, 500
_MEAN, _STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
_TIE = 1e-5

_NUM_IMAGES = define.num_images(1000, "Digits, the first ones.")
_LEVELS = define.levels(25)
_SEED = define.seed()
_OUTPUT = define.output("results/on_ramps")


class Ramp(NamedTuple):
    """A network in jaxrob and in its own framework."""

    classifier: jaxrob.Classifier  # jaxrob's
    # The framework's logits `[B, K]` of images `[B, H, W, 3]` in [0, 1].
    own: Callable[[np.ndarray], np.ndarray]


def main(argv: Sequence[str]) -> None:
    startup.start(argv)
    images = data.digits("train").images[: _NUM_IMAGES.value]
    images = np.pad(images, ((0, 0), (2, 2), (2, 2), (0, 0))).repeat(3, axis=-1)
    dataset = jaxrob.Dataset(images, np.zeros(len(images), int), name="digits")
    results = {}
    for name in _NETWORKS.value:
        results[name] = _compared(_RAMPS[name](images / np.float32(255)), dataset)
        print(f"{name}: {results[name]}", flush=True)
    files.write_json(files.output_folder(_OUTPUT.value) / "on_ramps.json", results)


def _compared(ramp: Ramp, dataset: jaxrob.Dataset) -> dict[str, Any]:
    key = jax.random.key(_SEED.value)
    found = {"answers": 0, "other class": 0, "near-ties": 0, "confidence": 0.0}
    ours = theirs = 0.0
    classes = set()
    for alteration in _ALTERATIONS:
        levels = np.linspace(alteration.lower, alteration.upper, _LEVELS.value)
        start = time.perf_counter()
        curve = jaxrob.evaluate(ramp.classifier, dataset, alteration, levels, key=key)
        ours += time.perf_counter() - start
        for row, level in enumerate(levels):
            given = dataset.images, level, key
            altered = np.asarray(_altered(*given, alteration=alteration))
            start = time.perf_counter()
            parts = range(0, len(altered), _BLOCK)
            logits = [ramp.own(altered[first : first + _BLOCK]) for first in parts]
            theirs += time.perf_counter() - start
            logits = np.concatenate(logits)
            other = curve.predicted[row] != logits.argmax(1)
            best = np.sort(logits, axis=1)
            confidence = special.softmax(logits, 1).max(1) - curve.confidence[row]
            found["answers"] += len(other)
            found["other class"] += int(other.sum())
            near = other & (best[:, -1] - best[:, -2] < _TIE)
            found["near-ties"] += int(near.sum())
            most = float(np.abs(confidence).max())
            found["confidence"] = max(found["confidence"], most)
            classes |= set(logits.argmax(1).tolist())
    found |= {"classes answered": len(classes)}
    return found | {"seconds": round(ours, 1), "seconds of its own": round(theirs, 1)}


@functools.partial(jax.jit, static_argnames="alteration")
def _altered(
    images: jax.Array, level: float, key: jax.Array, *, alteration: jaxrob.Alteration
) -> jax.Array:
    pixels = images.astype(jnp.float32) / 255
    if not alteration.stochastic:
        return jax.vmap(lambda image: alteration(image, level))(pixels)
    indices = jnp.arange(len(images), dtype=jnp.uint32)
    keys = jax.vmap(lambda index: jax.random.fold_in(key, index))(indices)
    return jax.vmap(lambda image, key: alteration(image, level, key))(pixels, keys)


def _of_transformers(images: np.ndarray) -> Ramp:
    import torch
    import transformers

    torch.manual_seed(_SEED.value)
    config = transformers.ViTConfig(
        image_size=_SIZE, patch_size=8, hidden_size=48, num_hidden_layers=2,
        num_attention_heads=3, intermediate_size=96, num_labels=_CLASSES,
        initializer_range=0.3,
    )  # fmt: skip
    model = transformers.ViTForImageClassification(config).eval()
    size = {"height": _SIZE, "width": _SIZE}
    settings = {"size": size, "image_mean": _MEAN, "image_std": _STD}
    processor = transformers.ViTImageProcessor(**settings)

    def own(images: np.ndarray) -> np.ndarray:
        how = {"do_rescale": False, "return_tensors": "pt"}
        given = processor(images=_channels_first(images), **how)
        with torch.inference_mode():
            return model(**given).logits.numpy()

    _centre(model.classifier, own(images))
    return Ramp(jaxrob.Classifier.from_transformers(model, processor), own)


def _of_timm(images: np.ndarray) -> Ramp:
    import timm
    import torch

    torch.manual_seed(_SEED.value)
    settings = {"input_size": (3, _SIZE, _SIZE), "mean": _MEAN, "std": _STD}
    model = timm.create_model(
        "test_resnet", num_classes=_CLASSES, pretrained_cfg_overlay=settings
    ).eval()
    config = timm.data.resolve_model_data_config(model)
    normalise = timm.data.create_transform(**config).transforms[-1]

    def own(images: np.ndarray) -> np.ndarray:
        with torch.inference_mode():
            return model(normalise(_channels_first(images))).numpy()

    _centre(model.get_classifier(), own(images))
    return Ramp(jaxrob.Classifier.from_timm(model), own)


def _of_equinox(images: np.ndarray) -> Ramp:
    import equinox as eqx

    first, second, third = jax.random.split(jax.random.key(_SEED.value), 3)
    module = eqx.nn.Sequential(
        [
            eqx.nn.Conv2d(3, 16, 3, stride=2, key=first),
            eqx.nn.Lambda(jax.nn.relu),
            eqx.nn.Conv2d(16, 16, 3, stride=2, key=second),
            eqx.nn.Lambda(jax.nn.relu),
            eqx.nn.Lambda(jnp.ravel),
            eqx.nn.Dropout(0.5),
            eqx.nn.Linear(16 * 49, _CLASSES, key=third),
        ]
    )

    @eqx.filter_jit
    def logits(module: Any, images: jax.Array) -> jax.Array:
        given = (images - jnp.array(_MEAN)) / jnp.array(_STD)
        module = eqx.nn.inference_mode(module)
        return jax.vmap(module)(jnp.moveaxis(given, -1, 1))

    bias = module[-1].bias - logits(module, images).mean(0)
    module = eqx.tree_at(lambda module: module[-1].bias, module, bias)
    classifier = jaxrob.Classifier.from_equinox(
        module, preprocessing=jaxrob.Preprocessing(mean=_MEAN, std=_STD)
    )
    return Ramp(classifier, lambda images: np.asarray(logits(module, images)))


def _channels_first(images: np.ndarray) -> Any:
    import torch

    return torch.from_numpy(np.ascontiguousarray(np.moveaxis(images, -1, 1)))


def _centre(last: Any, logits: np.ndarray) -> None:
    """Moves the biases so that each class is the answer to some images."""
    import torch

    with torch.no_grad():
        last.bias -= torch.from_numpy(logits.mean(0))


_RAMPS: dict[str, Callable[[np.ndarray], Ramp]] = {
    "transformers": _of_transformers,
    "timm": _of_timm,
    "equinox": _of_equinox,
}
_NETWORKS = define.choices("networks", list(_RAMPS), list(_RAMPS), "Frameworks")


if __name__ == "__main__":
    app.run(main)
