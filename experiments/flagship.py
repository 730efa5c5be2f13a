r"""What users run on one GPU: large networks at 224 px, beside other libraries.

    python experiments/flagship.py
    python experiments/flagship.py --networks=vit_b16 --corruptions= --num_images=1024

A ResNet-50 and a ViT-B/16, of random weights in bfloat16 and 1,000 classes, classify
random pictures at several levels of eight alterations and of the fifteen common
corruptions. For each, `jaxrob.evaluate`, given bytes on the host, alternates with

* as many forward passes of the same network on pictures that are already on the device,
  at its best batch size: at a ratio of 1 everything else costs nothing;
* torchvision v2 ("tv v2") and Kornia, which alter on the same device, before
  torchvision's network of the same shape in bfloat16, compiled by `torch.compile`, and
  the forward pass of this network alone ("torch");
* OpenCV, which alters on all cores of the host, before the same network as jaxrob's.

Ratios are medians over the repeats, each of runs side by side: how many times as fast
`evaluate` is. A dash means that a library lacks the alteration; what cannot run at all
is printed with its reason. Then the whole of CIFAR-10-C: 15 corruptions at 5 severities
of 10,000 pictures (random ones without `--data_dir`), by a small residual network, in
seconds.

Prints tables, the power that the GPU draws under the first alteration (if nvidia-smi is
there), the peak memory so far, and writes JSON into the folder `--output`. The defaults
are for a data centre's GPU; `--size`, `--num_images` and `--cifar_images` make it
small. On a CPU the threads of JAX and torch hinder each other, and ratios mean little.
"""

import os
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from absl import app, flags
from accelerators.networks import NETWORKS, ResNet50, ViTB16
from common import (
    baselines,
    datasets,
    define,
    files,
    hosts,
    machine,
    startup,
    timing,
)
from corruptions_2019 import cells
from speed import in_torch, side_by_side

import jaxrob
from jaxrob.alterations import presets

_MODULES = {"resnet50": ResNet50, "vit_b16": ViTB16}
_NUM_CLASSES = 1000
_ALTERATIONS = {one.name: one for one in presets.cnn_2020()}
# What runs beside evaluate, in words.
_OTHERS = {
    "forward": "forward",
    "torch": "torch",
    "torchvision": "tv v2",
    "kornia": "Kornia",
    "opencv": "OpenCV",
}

_CHOICE = define.choices("networks", list(_MODULES), tuple(_MODULES), "Networks")
_WHICH = define.choices(
    "alterations", list(_ALTERATIONS), tuple(_ALTERATIONS), "Alterations"
)
_CORRUPTIONS = define.choices(
    "corruptions", list(cells.CORRUPTIONS), cells.CORRUPTIONS, "Corruptions"
)
_FROST = flags.DEFINE_string(
    "frost", None, "Folder of the pictures of frost; by default an installed package's."
)
_SIZE = flags.DEFINE_enum("size", "224", ["32", "64", "224"], "Pictures' size in px.")
_NUM_IMAGES = define.num_images(512, "Pictures.")
_NUM_LEVELS = define.num_levels(4)
_BATCH_SIZES = flags.DEFINE_list(
    "batch_sizes", ["64", "128", "256", "512"], "Tried for the forward pass."
)
_CIFAR_IMAGES = flags.DEFINE_integer(
    "cifar_images", 10000, "Pictures of CIFAR-10-C.", 1
)
_DATA_DIR = define.data_dir()
_REPEATS = define.repeats()
_SEED = define.seed()
_OUTPUT = define.output("results/flagship")


def main(argv: Sequence[str]) -> None:
    hosts.refuse_several()
    # Else JAX takes three quarters of the memory, and torch has the rest.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    startup.start(argv)
    if jax.default_backend() == "cpu":
        print("no accelerator: everything runs on the CPU, for which this is not meant")
    document = {
        "machine": machine.description(),
        "size": int(_SIZE.value),
        "num_images": _NUM_IMAGES.value,
        "num_levels": _NUM_LEVELS.value,
        "networks": {name: _measure(name) for name in _CHOICE.value},
        "cifar-10-c": _cifar_10_c(),
    }
    path = files.output_folder(_OUTPUT.value) / "flagship.json"
    files.write_json(path, document)
    print(f"wrote {path}")


def _measure(name: str) -> dict[str, Any]:
    """Measures a network under all alterations, and prints the table."""
    size = int(_SIZE.value)
    classifier = _classifier(_MODULES[name](_NUM_CLASSES, jnp.bfloat16), size)
    pictures = datasets.smooth_pictures(_NUM_IMAGES.value, size, _SEED.value)
    dataset = jaxrob.Dataset(pictures, np.zeros(len(pictures), np.int32))
    forward, batch_size = timing.best_forward(
        classifier,
        pictures,
        [int(one) for one in _BATCH_SIZES.value],
        _NUM_LEVELS.value,
    )
    print(
        f"\n{name}, {len(pictures)} pictures of {size} px x {_NUM_LEVELS.value} "
        f"levels; the forward pass's best batch size is {batch_size}"
    )
    makers = in_torch.makers(name, pictures, batch_size)

    def opencv(alteration: jaxrob.Alteration, levels: np.ndarray) -> Any:
        if alteration.name not in _ALTERATIONS:
            return None
        given = classifier, pictures, alteration, levels, batch_size
        return baselines.opencv(*given, threads=os.cpu_count() or 1)

    makers["opencv"] = opencv
    print(side_by_side.heading(_OTHERS))
    rows, watts = {}, None
    for alteration, levels in _alterations():
        evaluate = _evaluate(classifier, dataset, alteration, levels)
        runs = {"evaluate": evaluate, "forward": forward}
        runs, failures = _with_others(runs, makers, alteration, levels)
        number = len(pictures) * len(levels)
        found = side_by_side.measured(runs, number, _REPEATS.value)
        print(side_by_side.row(alteration.name, found, _OTHERS), flush=True)
        for other, reason in failures.items():
            print(f"  {_OTHERS[other]} failed: {reason}")
        rows[alteration.name] = found | {"failures": failures}
        watts = watts or {
            which: machine.watts(runs[which]) for which in ("evaluate", "forward")
        }
    return {
        "forward_batch_size": batch_size,
        "alterations": rows,
        "watts": _said(watts),
        "memory": _memory(),
    }


def _classifier(module: Any, size: int) -> jaxrob.Classifier:
    """Returns the network with random weights."""
    image = jnp.zeros((1, size, size, 3), jnp.float32)
    variables = jax.jit(module.init)(jax.random.key(_SEED.value), image)
    return jaxrob.Classifier.from_linen(module, variables)


def _alterations() -> Iterator[tuple[jaxrob.Alteration, np.ndarray]]:
    """Yields the chosen alterations and corruptions with their levels."""
    some = cells.alterations(_CORRUPTIONS.value, _FROST.value)
    for alteration in [_ALTERATIONS[name] for name in _WHICH.value]:
        lower, upper = alteration.lower, alteration.upper
        yield alteration, np.linspace(lower, upper, _NUM_LEVELS.value)
    for corruption in some.values():
        yield corruption, np.linspace(1, cells.MOST, _NUM_LEVELS.value)


def _evaluate(
    classifier: jaxrob.Classifier,
    dataset: jaxrob.Dataset,
    alteration: jaxrob.Alteration,
    levels: Sequence[float] | np.ndarray,
) -> Callable[[], None]:
    def run() -> None:
        key = jax.random.key(_SEED.value)
        jaxrob.evaluate(classifier, dataset, alteration, levels, key=key)

    return run


def _with_others(
    runs: dict[str, Callable[[], None]],
    makers: Mapping[str, in_torch.Maker],
    alteration: jaxrob.Alteration,
    levels: np.ndarray,
) -> tuple[dict[str, Callable[[], None]], dict[str, str]]:
    """Adds the other libraries' runs that work, and returns why others do not."""
    runs, failures = dict(runs), {}
    for other, make in makers.items():
        try:
            run = make(alteration, levels)
            if run is not None:
                run()
                runs[other] = run
        # Another version of a library, or no memory left: the others still count.
        except Exception as error:
            failures[other] = f"{type(error).__name__}: {error}".split("\n")[0]
    return runs, failures


def _said(watts: dict[str, float | None] | None) -> dict[str, float] | None:
    """Prints the power, if the driver told it."""
    if watts is None or None in watts.values():
        print("no nvidia-smi: the power is not known")
        return None
    print(", ".join(f"{which} draws {found:.0f} W" for which, found in watts.items()))
    return watts


def _memory() -> dict[str, Any]:
    found = machine.memory()
    print(f"memory at most so far: {machine.in_words(found)}")
    return found


def _cifar_10_c() -> dict[str, Any]:
    """Times all of CIFAR-10-C, and as many forward passes."""
    network = NETWORKS["resnet"]
    images, source = datasets.test_images(
        "cifar10",
        network.image_shape,
        _CIFAR_IMAGES.value,
        _DATA_DIR.value,
        _SEED.value,
    )
    classifier = _classifier(network.module(), network.image_shape[0])
    dataset = jaxrob.Dataset(images, np.zeros(len(images), np.int32))
    severities = presets.SEVERITIES[1:]
    some = cells.alterations(_CORRUPTIONS.value, _FROST.value)
    if not some:
        print("\nCIFAR-10-C left out: no corruptions")
        return {}

    def whole() -> None:
        for corruption in some.values():
            _evaluate(classifier, dataset, corruption, severities)()

    passes = len(some) * len(severities)
    forward, batch_size = timing.best_forward(classifier, images, passes=passes)
    first = timing.seconds(whole)
    times = [
        {"whole": timing.seconds(whole), "forward": timing.seconds(forward)}
        for _ in range(_REPEATS.value)
    ]
    whole_seconds = statistics.median(one["whole"] for one in times)
    ratio = statistics.median(one["forward"] / one["whole"] for one in times)
    print(
        f"\nCIFAR-10-C, {len(images)} pictures of {source} x {len(some)} corruptions x "
        f"{len(severities)} severities, resnet: {whole_seconds:.2f} s (the first time "
        f"{first:.1f} s); {ratio:.2f} of the forward pass's speed, in batches of "
        f"{batch_size}"
    )
    return {
        "num_images": len(images),
        "dataset": source,
        "corruptions": list(some),
        "first_seconds": first,
        "seconds": [one["whole"] for one in times],
        "forward_seconds": [one["forward"] for one in times],
        "ratio": ratio,
        "memory": _memory(),
    }


if __name__ == "__main__":
    app.run(main)
