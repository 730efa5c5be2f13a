r"""Images times levels per second, beside the forward pass and other libraries.

    python experiments/throughput.py
    python experiments/throughput.py --networks=mlp --devices=1,2,4,8
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

import json
import os
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from absl import app, flags
from accelerators.networks import ResNet50, ViTB16
from common import (
    baselines,
    classifiers,
    datasets,
    define,
    files,
    hosts,
    machine,
    startup,
    timing,
)
from corruptions_2019 import cells
from jax.sharding import Mesh
from speed import in_torch, roma_draws, side_by_side

import jaxrob
from jaxrob import alterations


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
_DEVICES = flags.DEFINE_list(
    "devices",
    [],
    "Numbers of devices that evaluate is timed on as well: on a CPU that many are made "
    "of it, in a process of their own.",
)
_ONLY_EVALUATE = flags.DEFINE_bool(
    "only_evaluate", False, "Whether nothing else than evaluate is timed."
)
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
    counts = _device_counts()
    document = {
        "machine": machine.description(),
        "results": [_measure(name) for name in _CHOICE.value],
        "devices": _on_devices(counts),
        "memory": machine.memory(),
    }
    print(f"memory at most: {machine.in_words(document['memory'])}")
    path = files.output_folder(_OUTPUT.value) / "throughput.json"
    files.write_json(path, document)
    print(f"wrote {path}")


def _device_counts() -> list[int]:
    most = len(jax.local_devices())
    for count in _DEVICES.value:
        if not count.isdecimal() or int(count) < 1:
            raise app.UsageError(f"devices must be numbers from 1; got {count!r}")
        if jax.default_backend() != "cpu" and int(count) > most:
            raise app.UsageError(f"devices must be at most {most}; got {count}")
    return [int(count) for count in _DEVICES.value]


def _measure(name: str) -> dict[str, Any]:
    """Measures a network on one device, or on all as they are."""
    classifier, dataset = _problem(name)
    images = dataset.images
    result = {
        "network": name,
        "dataset": dataset.name,
        "num_images": len(images),
        "num_levels": _NUM_LEVELS.value,
    }
    if _ONLY_EVALUATE.value:
        return result | {"alterations": _alone(classifier, dataset, None)}
    forward, batch_size = timing.best_forward(
        classifier,
        images,
        [int(size) for size in _BATCH_SIZES.value],
        _NUM_LEVELS.value,
    )
    rows = len(images) * _NUM_LEVELS.value
    print(
        f"\n{name}, {len(images)} images of {dataset.name} x {_NUM_LEVELS.value} "
        f"levels; bare forward pass at its best batch size, {batch_size}:"
    )
    makers = _makers(name, classifier, images, batch_size)
    others = {"forward": "forward"} | {
        other: words
        for other, words in (_OTHERS | _IN_TORCH).items()
        if other in makers
    }
    print(side_by_side.heading(others))
    measured = []
    for alteration, levels in _alterations():
        runs = {
            "evaluate": _evaluate(classifier, dataset, alteration, levels, None),
            "forward": forward,
        }
        for other, make in makers.items():
            try:
                if (run := make(alteration, levels)) is not None:
                    run()
                    runs[other] = run
            # Another version of a library, or no memory left: the others still count.
            except Exception as error:
                print(f"  {others[other]} failed: {type(error).__name__}: {error}")
        found = side_by_side.measured(runs, rows, _REPEATS.value)
        measured.append(found | {"alteration": alteration.name})
        print(side_by_side.row(alteration.name, found, others), flush=True)
    roma = roma_draws.measure(
        classifier,
        images[: _NUM_INPUTS.value],
        _NUM_SAMPLES.value,
        jax.random.key(_SEED.value),
        (forward, rows),
        _REPEATS.value,
    )
    print(roma_draws.in_words(roma))
    return result | {
        "forward_batch_size": batch_size,
        "alterations": measured,
        "roma": roma,
    }


def _makers(
    name: str, classifier: jaxrob.Classifier, images: np.ndarray, batch_size: int
) -> dict[str, in_torch.Maker]:
    """Makes the other libraries' runs; OpenCV has all cores beside a large network."""
    threads = (os.cpu_count() or 1) if name in _LARGE else 1
    given = classifier, images
    found: dict[str, in_torch.Maker] = {
        "opencv": lambda alteration, levels: (
            baselines.opencv(*given, alteration, levels, batch_size, threads)
            if alteration.name in _PAPERS
            else None
        ),
        "dm_pix": lambda *one: baselines.pix(*given, *one, batch_size),
    }
    found = {other: make for other, make in found.items() if other in _BESIDE.value}
    if "torch" in _BESIDE.value:
        found |= in_torch.makers(name, images, batch_size)
    return found


def _problem(name: str) -> tuple[jaxrob.Classifier, jaxrob.Dataset]:
    """Returns the classifier and the data set of a network."""
    problem = _PROBLEMS[name]
    images, source = datasets.test_images(
        problem.dataset,
        problem.image_shape,
        _NUM_IMAGES.value,
        _DATA_DIR.value,
        _SEED.value,
    )
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


def _alterations() -> Iterator[tuple[jaxrob.Alteration, np.ndarray]]:
    for one in _PAPERS.values():
        yield one, np.linspace(one.lower, one.upper, _NUM_LEVELS.value)
    for corruption in cells.alterations(_CORRUPTIONS.value, None).values():
        yield corruption, np.linspace(1, cells.MOST, _NUM_LEVELS.value)


def _evaluate(
    classifier: jaxrob.Classifier,
    dataset: jaxrob.Dataset,
    alteration: jaxrob.Alteration,
    levels: np.ndarray,
    mesh: Mesh | None,
) -> Callable[[], None]:
    def run() -> None:
        key = jax.random.key(_SEED.value)
        jaxrob.evaluate(classifier, dataset, alteration, levels, key=key, mesh=mesh)

    return run


def _alone(
    classifier: jaxrob.Classifier, dataset: jaxrob.Dataset, mesh: Mesh | None
) -> list[dict[str, Any]]:
    """Returns evaluate's speed on a mesh, for every alteration."""
    rows = len(dataset) * _NUM_LEVELS.value
    return [
        side_by_side.measured(
            {"evaluate": _evaluate(classifier, dataset, alteration, levels, mesh)},
            rows,
            _REPEATS.value,
        )
        | {"alteration": alteration.name}
        for alteration, levels in _alterations()
    ]


def _on_devices(counts: Sequence[int]) -> dict[str, dict[str, Any]]:
    """Returns evaluate's speed, and the memory, for each number of devices."""
    found = {}
    for count in counts:
        if jax.default_backend() == "cpu":
            document = _on_forced_devices(count)
            results, memory = document["results"], document["memory"]
        else:
            results, memory = _on_mesh(count), None
        found[str(count)] = {"results": results, "memory": memory}
    for which, name in enumerate(_CHOICE.value if counts else ()):
        print(f"\n{name}, images/s by number of devices, and the ratio to the first")
        print(f"{'alteration':24}" + "".join(f"{count:>18}" for count in counts))
        columns = [found[str(c)]["results"][which]["alterations"] for c in counts]
        for row in zip(*columns):
            speeds = [one["evaluate"]["images_per_second"] for one in row]
            cells = (f"{speed:11,.0f}{speed / speeds[0]:7.2f}" for speed in speeds)
            print(f"{row[0]['alteration']:24}" + "".join(cells))
    for count, one in found.items():
        if one["memory"]:
            words = machine.in_words(one["memory"])
            print(f"memory at most, {count} devices: {words}")
    return found


def _on_mesh(count: int) -> list[dict[str, Any]]:
    mesh = Mesh(np.array(jax.local_devices()[:count]), ("images",))
    return [
        {"network": name, "alterations": _alone(*_problem(name), mesh)}
        for name in _CHOICE.value
    ]


def _on_forced_devices(count: int) -> dict[str, Any]:
    """Measures in a process whose CPU is split into this many devices."""
    forced = f"--xla_force_host_platform_device_count={count}"
    given = [
        f"--{flag.name}={flag.value}"
        for flag in (_NUM_IMAGES, _NUM_LEVELS, _REPEATS, _SEED)
    ]
    if _DATA_DIR.value is not None:
        given.append(f"--data_dir={_DATA_DIR.value}")
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [sys.executable, __file__, "--only_evaluate", f"--output={folder}", *given]
            + [f"--networks={','.join(_CHOICE.value)}"],
            env=os.environ
            | {"XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} {forced}".strip()},
            stdout=subprocess.DEVNULL,
            check=True,
        )
        return json.loads(pathlib.Path(folder, "throughput.json").read_text())


if __name__ == "__main__":
    app.run(main)
