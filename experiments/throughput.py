r"""Images times levels per second, beside the forward pass and other libraries.

    python experiments/throughput.py
    python experiments/throughput.py --networks=resnet_224 --num_images=64 \
        --num_levels=5 --batch_sizes=4,8,16,32,64 --repeats=5
    python experiments/throughput.py --networks=resnet50,vit_b16 --num_images=512 \
        --num_levels=4 --batch_sizes=64,128,256,512 --others=opencv,torch

For every alteration, `jaxrob.evaluate` alternates with

* the same number of forward passes of the same network on clean images that are
  already on the device, at the batch size that suits the forward pass best: at a ratio
  of 1 altering, classifying and gathering the answers cost no more than classifying
  alone;
* OpenCV, which alters the same images one by one, the network classifying them in
  batches of that size;
* dm-pix under `jax.vmap`, for those alterations that it has;
* with `--others=torch`, for the two networks in bfloat16 of the last example:
  torchvision v2 ("tv v2") and Kornia, which alter on the same device, before
  torchvision's network of the same shape, compiled by `torch.compile`, and the
  forward pass of this network alone ("torch"). On a CPU the threads of JAX and torch
  hinder each other, and ratios mean little.

A dash means that a library lacks the alteration; what cannot run at all is printed with
its reason.
Ratios are medians over the repeats, each of runs side by side. RoMA with
`--num_samples` draws an input is compared in the same way with the speed that the
forward pass and the random numbers, each timed alone, would allow together.

Prints a table and writes JSON with a description of the machine into the folder
`--output`. Weights are random, and without `--data_dir` images are noise: they do not
matter for speed. It takes 9 minutes on two CPU cores.
"""

import functools
import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from absl import app, flags
from accelerators.programs import ResNet50, ViTB16
from common import (
    baselines,
    classifiers,
    datasets,
    define,
    files,
    hosts,
    startup,
    timing,
)
from corruptions_2019 import cells

import jaxrob
from jaxrob import alterations, roma


class _Problem(NamedTuple):
    """The images that a network classifies; smooth ones if there is no data set."""

    dataset: str | None
    image_shape: tuple[int, int, int]
    num_classes: int


_PROBLEMS = {
    "mlp": _Problem("mnist", (28, 28, 1), 10),
    "mnist_cnn": _Problem("mnist", (28, 28, 1), 10),
    "idc_cnn": _Problem("idc", (50, 50, 3), 2),
    "vgg16": _Problem("cifar10", (32, 32, 3), 10),
    "resnet_224": _Problem(None, (224, 224, 3), 1000),
    "resnet50": _Problem(None, (224, 224, 3), 1000),
    "vit_b16": _Problem(None, (224, 224, 3), 1000),
}
# Perturbed images per step of RoMA.
_CHUNK = 250
# Those that torchvision has as well.
_LARGE = {"resnet50": ResNet50, "vit_b16": ViTB16}

# What runs beside evaluate, in words.
_OTHERS = {"opencv": "OpenCV", "dm_pix": "dm-pix"}
_IN_TORCH = {"torch": "torch", "torchvision": "tv v2", "kornia": "Kornia"}
_PAPERS = {one.name: one for one in alterations.presets.cnn_2020()}

_CHOICE = define.choices(
    "networks", ["mnist_cnn", "idc_cnn"], tuple(_PROBLEMS), "Networks"
)
_BESIDE = define.choices(
    "others", list(_OTHERS), (*_OTHERS, "torch"), "Libraries beside evaluate"
)
_CORRUPTIONS = define.choices(
    "corruptions", [], cells.CORRUPTIONS, "Common corruptions that are timed as well"
)
_DATA_DIR = define.data_dir()
_NUM_IMAGES = define.num_images(1000, "Images.")
_NUM_LEVELS = define.num_levels(16)
_NUM_INPUTS = define.num_inputs(64)
_NUM_SAMPLES = define.num_samples(1000)
_BATCH_SIZES = flags.DEFINE_list(
    "batch_sizes",
    ["100", "250", "500", "1000", "4000", "16000"],
    "Batch sizes tried for the forward pass; those above num_images are left out.",
)
_REPEATS = define.repeats()
_SEED = define.seed()
_OUTPUT = define.output("results/throughput")


def main(argv: Sequence[str]) -> None:
    hosts.refuse_several()
    if "torch" in _BESIDE.value:
        if not set(_CHOICE.value) <= set(_LARGE):
            raise app.UsageError(f"--others=torch has the networks {', '.join(_LARGE)}")
        # Else JAX takes three quarters of the memory, and torch has the rest.
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    startup.start(argv)
    document = {
        "machine": timing.description(),
        "results": [_measure(name) for name in _CHOICE.value],
        "memory": timing.memory(),
    }
    print(f"memory at most: {timing.in_words(document['memory'])}")
    files.save(_OUTPUT.value, "throughput.json", document)


def _measure(name: str) -> dict[str, Any]:
    classifier, dataset = _problem(name)
    images = dataset.images
    result = {
        "network": name,
        "dataset": dataset.name,
        "num_images": len(images),
        "num_levels": _NUM_LEVELS.value,
    }
    sizes = [int(size) for size in _BATCH_SIZES.value]
    best = timing.best_forward(classifier, images, sizes, _NUM_LEVELS.value)
    forward, batch_size = best
    rows = len(images) * _NUM_LEVELS.value
    print(
        f"\n{name}, {len(images)} images of {dataset.name} x {_NUM_LEVELS.value} "
        f"levels; bare forward pass at its best batch size, {batch_size}:"
    )
    makers = _makers(name, classifier, images, batch_size)
    words = _OTHERS | _IN_TORCH
    others = {name: words[name] for name in words if name in makers}
    others = {"forward": "forward"} | others
    print(timing.heading(others))
    measured = []
    number = _NUM_LEVELS.value
    some = [
        (one, np.linspace(one.lower, one.upper, number)) for one in _PAPERS.values()
    ]
    for one in cells.alterations(_CORRUPTIONS.value, None).values():
        some.append((one, np.linspace(1, cells.MOST, number)))
    for alteration, levels in some:
        given, key = (dataset, alteration, levels), jax.random.key(_SEED.value)
        evaluate = functools.partial(jaxrob.evaluate, classifier, *given, key=key)
        runs = {"evaluate": evaluate, "forward": forward}
        for other, make in makers.items():
            try:
                if (run := make(alteration, levels)) is not None:
                    run()
                    runs[other] = run
            # Another version of a library, or no memory left: the others still count.
            except Exception as error:
                print(f"  {others[other]} failed: {type(error).__name__}: {error}")
        found = timing.side_by_side(runs, rows, _REPEATS.value)
        measured.append(found | {"alteration": alteration.name})
        print(timing.row(alteration.name, found, others), flush=True)
    found = _roma(classifier, images[: _NUM_INPUTS.value], forward, rows)
    print(
        f"RoMA, {found['num_inputs']} inputs x {found['num_samples']} draws: "
        f"{found['draws_per_second']:,.0f} draws/s, "
        f"{found['ratio_to_forward']:.3f} of the forward pass, "
        f"{found['ratio_to_parts']:.3f} of what forward pass and random numbers "
        f"({found['random_per_second']:,.0f}/s) allow together; statistics "
        f"{found['statistics_share']:.1%} of the time"
    )
    return result | {
        "forward_batch_size": batch_size,
        "alterations": measured,
        "roma": found,
    }


def _makers(
    name: str, classifier: jaxrob.Classifier, images: np.ndarray, batch_size: int
) -> dict[str, baselines.Maker]:
    """Makes the other libraries' runs; OpenCV has all cores beside a large network."""
    threads = (os.cpu_count() or 1) if name in _LARGE else 1
    given = classifier, images
    found: dict[str, baselines.Maker] = {
        "opencv": lambda alteration, levels: (
            baselines.opencv(*given, alteration, levels, batch_size, threads)
            if alteration.name in _PAPERS
            else None
        ),
        "dm_pix": lambda alteration, levels: baselines.pix(
            *given, alteration, levels, batch_size
        ),
    }
    found = {other: make for other, make in found.items() if other in _BESIDE.value}
    if "torch" in _BESIDE.value:
        found |= baselines.in_torch(name, images, batch_size)
    return found


def _problem(name: str) -> tuple[jaxrob.Classifier, jaxrob.Dataset]:
    problem = _PROBLEMS[name]
    how = _NUM_IMAGES.value, _DATA_DIR.value, _SEED.value
    given = problem.dataset, problem.image_shape, *how
    images, source = datasets.test_images(*given)
    key = jax.random.key(_SEED.value)
    if name in _LARGE:
        module = _LARGE[name](problem.num_classes, jnp.bfloat16)
        image = jnp.zeros((1, *problem.image_shape), jnp.float32)
        variables = jax.jit(module.init)(key, image)
        classifier = jaxrob.Classifier.from_linen(module, variables)
    else:
        given = problem.image_shape, problem.num_classes, key
        classifier = classifiers.untrained(name, *given)
    labels = np.zeros(len(images), np.int32)
    return classifier, jaxrob.Dataset(images, labels, name=source)


def _roma(
    classifier: jaxrob.Classifier,
    images: np.ndarray,
    forward: Callable[[], None],
    forward_rows: int,
) -> dict[str, Any]:
    num_samples, key = _NUM_SAMPLES.value, jax.random.key(_SEED.value)
    draws = len(images) * num_samples

    def assess() -> None:
        how = {"num_samples": num_samples, "estimator": "roma", "key": key}
        roma.assess(classifier, images, **how)

    image = jnp.asarray(datasets.unit_range(images[0]))
    statistics = _statistics((len(images), num_samples), key)
    parts = forward, _random_numbers(image, draws, key), statistics, assess
    for part in parts:
        part()
    times = [[timing.seconds(part) for part in parts] for _ in range(_REPEATS.value)]
    # Seconds a draw, of the three parts and of the whole.
    per_draw = np.array(times) / [forward_rows, draws, draws, draws]
    bare, random, tests, whole = per_draw.T
    return {
        "num_inputs": len(images),
        "num_samples": num_samples,
        "draws_per_second": 1 / np.median(whole),
        "forward_per_second": 1 / np.median(bare),
        "random_per_second": 1 / np.median(random),
        "ratio_to_forward": np.median(bare / whole),
        "ratio_to_parts": np.median((bare + random) / whole),
        "statistics_share": np.median(tests / whole),
    }


def _random_numbers(image: jax.Array, draws: int, key: jax.Array) -> Callable[[], None]:
    ball = roma.ball("linf", 0.04)
    some = min(draws, _CHUNK)

    @jax.jit
    def perturbed(key: jax.Array) -> jax.Array:
        keys = jax.random.split(key, some)
        return jax.vmap(lambda k: ball.perturbed(image, ball.draw(k, image)))(keys)

    def run() -> None:
        for _ in range(-(-draws // some)):
            perturbed(key).block_until_ready()

    return run


def _statistics(shape: tuple[int, int], key: jax.Array) -> Callable[[], None]:
    log_hic = jax.random.normal(key, shape) - 10

    @jax.jit
    def examine(log_hic: jax.Array) -> tuple[jax.Array, ...]:
        ascending = jnp.sort(log_hic, axis=1)
        centred = ascending - ascending.mean(axis=1, keepdims=True)
        transformed = roma.boxcox(centred, roma.boxcox_lambda(ascending)[:, None])
        as_drawn = jnp.exp(ascending - ascending[:, -1:])
        both = as_drawn, transformed
        return tuple(roma.anderson_darling(x, ascending=True).statistic for x in both)

    def run() -> None:
        jax.block_until_ready(examine(log_hic))

    return run


if __name__ == "__main__":
    app.run(main)
