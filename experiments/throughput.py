"""Images times levels per second, beside the network's bare forward pass.

    python experiments/throughput.py
    python experiments/throughput.py --networks=vgg16 --num_images=10000 --num_levels=64

For every alteration, `jaxrob.evaluate` runs in turn with the same number of forward
passes of the same network on unaltered images that are already on the device, at the
batch size that suits the forward pass best. A ratio of 1 means that altering,
classifying and gathering the answers cost no more than classifying alone; ratios are
medians over the repeats, each of two runs side by side. So does RoMA with
`--num_samples` draws an input, beside what the forward pass and the random numbers,
each timed alone, would allow together. Prints a table and writes JSON into the folder
`--output`. Weights are random: they do not matter for speed.
"""

import json
import os
import pathlib
import platform
import statistics

import jax
import jax.numpy as jnp
import numpy as np
import startup
import timing
from absl import app, flags

import jaxrob
from jaxrob import alterations, data, networks, roma
from jaxrob.roma._algorithm1 import Confidences, examine_normality

# Name: module, image shape, outputs.
_NETWORKS = {
    "mlp": (networks.MLP, (28, 28, 1), "logits"),
    "mnist_cnn": (networks.MnistCNN, (28, 28, 1), "logits"),
    "idc_cnn": (networks.IdcCNN, (50, 50, 3), "sigmoid"),
    "vgg16": (networks.VGG16, (32, 32, 3), "logits"),
}
_SETS = {"mlp": "mnist", "mnist_cnn": "mnist", "idc_cnn": "idc", "vgg16": "cifar10"}

_CHOICE = flags.DEFINE_list(
    "networks", ["mnist_cnn", "idc_cnn"], f"Networks, of {', '.join(_NETWORKS)}."
)
_DATA_DIR = flags.DEFINE_string(
    "data_dir",
    None,
    "Folder of data sets, by default $JAXROB_DATA_DIR; noise where there is none.",
)
_NUM_IMAGES = flags.DEFINE_integer("num_images", 1000, "Images.", 1)
_NUM_LEVELS = flags.DEFINE_integer("num_levels", 16, "Levels of each alteration.", 1)
_NUM_INPUTS = flags.DEFINE_integer("num_inputs", 64, "Inputs of RoMA, at most.", 1)
_NUM_SAMPLES = flags.DEFINE_integer("num_samples", 1000, "RoMA's draws an input.", 8)
_BATCH_SIZES = flags.DEFINE_list(
    "batch_sizes",
    ["100", "250", "500", "1000", "4000", "16000"],
    "Batch sizes tried for the forward pass; those above num_images are left out.",
)
_REPEATS = flags.DEFINE_integer("repeats", 5, "Timed runs of each.", 1)
_SEED = flags.DEFINE_integer("seed", 0, "Random seed.", 0)
_OUTPUT = flags.DEFINE_string("output", "results/throughput", "Folder written to.")


def main(argv):
    startup.start(argv)
    unknown = set(_CHOICE.value) - set(_NETWORKS)
    if unknown:
        raise app.UsageError(f"networks must be among {list(_NETWORKS)}: {unknown}")
    results = [_measure(name) for name in _CHOICE.value]
    output = pathlib.Path(_OUTPUT.value)
    output.mkdir(parents=True, exist_ok=True)
    document = {"machine": _machine(), "results": results}
    (output / "throughput.json").write_text(json.dumps(document, indent=1))
    print(f"wrote {output / 'throughput.json'}")


def _measure(name):
    make, shape, outputs = _NETWORKS[name]
    images, source = _images(name, shape)
    module = make()
    variables = module.init(jax.random.key(_SEED.value), jnp.zeros((1, *shape)))
    classifier = jaxrob.Classifier.from_linen(module, variables, outputs)
    labels = np.zeros(len(images), np.int32)
    dataset = jaxrob.Dataset(images, labels, name=source)

    forward, batch_size = timing.best_forward(
        classifier,
        jnp.asarray(images, jnp.float32) / 255,
        [int(size) for size in _BATCH_SIZES.value],
        _NUM_LEVELS.value,
    )
    rows = len(images) * _NUM_LEVELS.value
    print(
        f"\n{name}, {len(images)} images of {source} x {_NUM_LEVELS.value} levels; "
        f"bare forward pass at its best batch size, {batch_size}:"
    )
    print(f"{'alteration':24}{'images/s':>10}{'forward/s':>11}{'ratio':>7}{'first':>8}")
    measured = []
    for alteration in alterations.presets.cnn_2020():
        levels = np.linspace(alteration.lower, alteration.upper, _NUM_LEVELS.value)

        def evaluate(alteration=alteration, levels=levels):
            key = jax.random.key(_SEED.value)
            jaxrob.evaluate(classifier, dataset, alteration, levels, key=key)

        first = timing.seconds(evaluate)
        pairs = [
            (timing.seconds(forward), timing.seconds(evaluate))
            for _ in range(_REPEATS.value)
        ]
        bare, whole = (statistics.median(times) for times in zip(*pairs))
        result = {
            "alteration": alteration.name,
            "images_per_second": rows / whole,
            "forward_images_per_second": rows / bare,
            "ratio": statistics.median(a / b for a, b in pairs),
            "seconds": [b for _, b in pairs],
            "forward_seconds": [a for a, _ in pairs],
            "compile_seconds": max(0.0, first - whole),
        }
        measured.append(result)
        print(
            f"{alteration.name:24}{rows / whole:10,.0f}{rows / bare:11,.0f}"
            f"{result['ratio']:7.3f}{result['compile_seconds']:7.1f}s"
        )
    inputs = images[: _NUM_INPUTS.value]
    return {
        "network": name,
        "roma": _measure_roma(classifier, inputs, forward, rows),
        "dataset": source,
        "num_images": len(images),
        "num_levels": _NUM_LEVELS.value,
        "forward_batch_size": batch_size,
        "alterations": measured,
    }


def _measure_roma(classifier, images, forward, forward_rows):
    """Draws per second of Algorithm 1, beside its parts timed alone."""
    key = jax.random.key(_SEED.value)
    num_samples = _NUM_SAMPLES.value
    draws = len(images) * num_samples

    def assess():
        roma.assess(classifier, images, num_samples=num_samples, key=key)

    ball = roma.ball("linf", 0.04)
    image = jnp.asarray(images[0], jnp.float32) / 255
    some = min(draws, 250)

    @jax.jit
    def perturbed(key):
        keys = jax.random.split(key, some)
        return jax.vmap(lambda k: ball.perturbed(image, ball.draw(k, image)))(keys)

    def random_numbers():
        for _ in range(-(-draws // some)):
            perturbed(key).block_until_ready()

    log_hic = jax.random.normal(key, (len(images), num_samples)) - 10
    observed = Confidences(log_hic, -log_hic, log_hic > 0)
    compiled = jax.jit(examine_normality)

    def statistics_alone():
        jax.block_until_ready(compiled(observed))

    parts = (forward, random_numbers, statistics_alone, assess)
    for part in parts:
        part()
    times = [[timing.seconds(part) for part in parts] for _ in range(_REPEATS.value)]
    # Seconds a draw, of the three parts and of the whole.
    per_draw = np.array(times) / [forward_rows, draws, draws, draws]
    bare, random, stats, whole = per_draw.T
    result = {
        "num_inputs": len(images),
        "num_samples": num_samples,
        "draws_per_second": 1 / np.median(whole),
        "forward_per_second": 1 / np.median(bare),
        "random_per_second": 1 / np.median(random),
        "ratio_to_forward": np.median(bare / whole),
        "ratio_to_parts": np.median((bare + random) / whole),
        "statistics_share": np.median(stats / whole),
    }
    print(
        f"RoMA, {len(images)} inputs x {num_samples} draws: "
        f"{result['draws_per_second']:,.0f} draws/s, "
        f"{result['ratio_to_forward']:.3f} of the forward pass, "
        f"{result['ratio_to_parts']:.3f} of what forward pass and random numbers "
        f"({result['random_per_second']:,.0f}/s) allow together; statistics "
        f"{result['statistics_share']:.1%} of the time"
    )
    return result


def _images(name, shape):
    """`num_images` uint8 images, those of the data set repeated if they are fewer."""
    count = _NUM_IMAGES.value
    try:
        dataset = data.load(_SETS[name], "test", _DATA_DIR.value)
    except FileNotFoundError:
        random = np.random.default_rng(_SEED.value)
        return random.integers(0, 256, (count, *shape), dtype=np.uint8), "noise"
    repeated = np.resize(np.arange(len(dataset)), count)
    return dataset.images[repeated], dataset.name


def _machine():
    device = jax.devices()[0]
    return {
        "platform": device.platform,
        "device": device.device_kind,
        "num_devices": jax.device_count(),
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "jax": jax.__version__,
        "jaxrob": jaxrob.__version__,
    }


if __name__ == "__main__":
    app.run(main)
