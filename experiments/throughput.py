r"""Images times levels per second, beside the forward pass, OpenCV and dm-pix.

    python experiments/throughput.py
    python experiments/throughput.py --networks=mlp --devices=1,2,4,8
    python experiments/throughput.py --networks=vgg16 --num_images=10000 \
        --num_levels=64 --compare=results/throughput/throughput.json

For every alteration, `jaxrob.evaluate` runs in turn with

* the same number of forward passes of the same network on unaltered images that are
  already on the device, at the batch size that suits the forward pass best: a ratio of
  1 means that altering, classifying and gathering the answers cost no more than
  classifying alone;
* OpenCV, which alters the same images one by one, the network classifying them in
  batches of that size;
* dm-pix under `jax.vmap`, for those alterations that it has.

Ratios are medians over the repeats, each of runs side by side. So does RoMA with
`--num_samples` draws an input, beside what the forward pass and the random numbers,
each timed alone, would allow together. Prints a table and writes JSON with what the
machine is into the folder `--output`; `--compare` prints how much faster each is than
in an earlier one. Weights are random: they do not matter for speed.
"""

import importlib.metadata
import json
import os
import pathlib
import platform
import resource
import statistics
import subprocess
import sys
import tempfile

import baselines
import hosts
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
_DEVICES = flags.DEFINE_list(
    "devices",
    [],
    "Numbers of devices that evaluate is timed on as well: on a CPU that many are made "
    "of it, in a process of their own.",
)
_COMPARE = flags.DEFINE_string(
    "compare", None, "The JSON of an earlier run, to be compared with."
)
_ONLY_EVALUATE = flags.DEFINE_bool(
    "only_evaluate", False, "Whether nothing else than evaluate is timed."
)
_SEED = flags.DEFINE_integer("seed", 0, "Random seed.", 0)
_OUTPUT = flags.DEFINE_string("output", "results/throughput", "Folder written to.")


def main(argv):
    hosts.refuse_several()
    startup.start(argv)
    unknown = set(_CHOICE.value) - set(_NETWORKS)
    if unknown:
        raise app.UsageError(f"networks must be among {list(_NETWORKS)}: {unknown}")
    counts = _device_counts()
    earlier = _earlier()
    results = [_measure(name) for name in _CHOICE.value]
    document = {
        "machine": _machine(),
        "results": results,
        "devices": _on_devices(counts),
        "memory": _memory(),
    }
    print(f"memory at most: {_in_words(document['memory'])}")
    if earlier is not None:
        print("\n".join(["", *_compared(document, earlier)]))
    output = pathlib.Path(_OUTPUT.value)
    output.mkdir(parents=True, exist_ok=True)
    (output / "throughput.json").write_text(json.dumps(document, indent=1))
    print(f"wrote {output / 'throughput.json'}")


def _measure(name):
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
        jnp.asarray(images, jnp.float32) / 255,
        [int(size) for size in _BATCH_SIZES.value],
        _NUM_LEVELS.value,
    )
    rows = len(images) * _NUM_LEVELS.value
    print(
        f"\n{name}, {len(images)} images of {dataset.name} x {_NUM_LEVELS.value} "
        f"levels; bare forward pass at its best batch size, {batch_size}:"
    )
    print(
        f"{'alteration':24}{'images/s':>10}{'first':>8}{'forward/s':>11}{'ratio':>7}"
        f"{'OpenCV/s':>11}{'ratio':>7}{'dm-pix/s':>11}{'ratio':>7}"
    )
    measured = []
    for alteration, levels in _alterations():
        runs = {
            "evaluate": _evaluate(classifier, dataset, alteration, levels, None),
            "forward": forward,
        }
        for other, make in (("opencv", baselines.opencv), ("dm_pix", baselines.pix)):
            run = make(classifier, images, alteration, levels, batch_size)
            if run is not None:
                runs[other] = run
        result_here = _side_by_side(runs, rows) | {"alteration": alteration.name}
        measured.append(result_here)
        print(_row(result_here))
    inputs = images[: _NUM_INPUTS.value]
    return result | {
        "forward_batch_size": batch_size,
        "alterations": measured,
        "roma": _measure_roma(classifier, inputs, forward, rows),
    }


def _device_counts():
    most = len(jax.local_devices())
    for count in _DEVICES.value:
        if not count.isdecimal() or int(count) < 1:
            raise app.UsageError(f"devices must be numbers from 1; got {count!r}")
        if jax.default_backend() != "cpu" and int(count) > most:
            raise app.UsageError(f"devices must be at most {most}; got {count}")
    return [int(count) for count in _DEVICES.value]


def _problem(name):
    """The classifier, and the data set, of a network."""
    make, shape, outputs = _NETWORKS[name]
    images, source = _images(name, shape)
    module = make()
    variables = module.init(jax.random.key(_SEED.value), jnp.zeros((1, *shape)))
    classifier = jaxrob.Classifier.from_linen(module, variables, outputs)
    labels = np.zeros(len(images), np.int32)
    return classifier, jaxrob.Dataset(images, labels, name=source)


def _alterations():
    for alteration in alterations.presets.cnn_2020():
        yield (
            alteration,
            np.linspace(alteration.lower, alteration.upper, _NUM_LEVELS.value),
        )


def _evaluate(classifier, dataset, alteration, levels, mesh):
    def run():
        key = jax.random.key(_SEED.value)
        jaxrob.evaluate(classifier, dataset, alteration, levels, key=key, mesh=mesh)

    return run


def _side_by_side(runs, rows):
    """The speed of each run, and by how much the one called evaluate is faster."""
    first = {name: timing.seconds(run) for name, run in runs.items()}
    times = [
        {name: timing.seconds(run) for name, run in runs.items()}
        for _ in range(_REPEATS.value)
    ]
    found = {}
    for name in runs:
        steady = statistics.median(one[name] for one in times)
        found[name] = {
            "images_per_second": rows / steady,
            "seconds": [one[name] for one in times],
            "first_seconds": first[name],
            "ratio": statistics.median(one[name] / one["evaluate"] for one in times),
        }
    return found


def _row(result):
    evaluate = result["evaluate"]
    cells = [
        f"{result['alteration']:24}{evaluate['images_per_second']:10,.0f}"
        f"{evaluate['first_seconds']:7.1f}s"
    ]
    for name in ("forward", "opencv", "dm_pix"):
        other = result.get(name)
        cells.append(
            f"{other['images_per_second']:11,.0f}{other['ratio']:7.2f}"
            if other
            else f"{'-':>11}{'-':>7}"
        )
    return "".join(cells)


def _alone(classifier, dataset, mesh):
    """Evaluate's speed on a mesh, for every alteration."""
    rows = len(dataset) * _NUM_LEVELS.value
    return [
        _side_by_side(
            {"evaluate": _evaluate(classifier, dataset, alteration, levels, mesh)}, rows
        )
        | {"alteration": alteration.name}
        for alteration, levels in _alterations()
    ]


def _on_devices(counts):
    """Evaluate's speed, and the memory, for each number of devices."""
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
            print(f"memory at most, {count} devices: {_in_words(one['memory'])}")
    return found


def _on_mesh(count):
    mesh = jax.sharding.Mesh(np.array(jax.local_devices()[:count]), ("images",))
    return [
        {"network": name, "alterations": _alone(*_problem(name), mesh)}
        for name in _CHOICE.value
    ]


def _on_forced_devices(count):
    """What this script measures on a CPU that passes for so many devices."""
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


def _memory():
    """The most memory taken so far, in bytes."""
    try:
        # getrusage would count what the process that started this one took.
        lines = pathlib.Path("/proc/self/status").read_text().splitlines()
        (peak,) = (line.split()[1] for line in lines if line.startswith("VmHWM"))
        peak = int(peak) * 1024
    except OSError:
        # Without /proc: macOS, which counts in bytes.
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # A CPU keeps no statistics.
    of_devices = [device.memory_stats() or {} for device in jax.local_devices()]
    return {
        "host_bytes": peak,
        "device_bytes": [one.get("peak_bytes_in_use") for one in of_devices],
    }


def _in_words(memory):
    host = f"{memory['host_bytes'] / 2**20:,.0f} MiB of the host's"
    known = [some for some in memory["device_bytes"] if some is not None]
    if not known:
        return host
    return f"{host}, {max(known) / 2**20:,.0f} MiB of a device's"


def _earlier():
    if _COMPARE.value is None:
        return None
    try:
        document = json.loads(pathlib.Path(_COMPARE.value).read_text())
        return {"machine": document["machine"], "speeds": _speeds(document)}
    except OSError as error:
        raise app.UsageError(f"--compare: {_COMPARE.value}: {error}") from error
    except (KeyError, TypeError, ValueError) as error:
        raise app.UsageError(
            f"--compare: {_COMPARE.value} is not what this script writes: {error!r}"
        ) from error


def _speeds(document):
    """Images per second, by network, size, alteration and by what."""
    speeds = {}
    for result in document["results"]:
        size = f"{result['num_images']} x {result['num_levels']}"
        for row in result["alterations"]:
            for name in ("evaluate", "forward", "opencv", "dm_pix"):
                if name in row:
                    key = (result["network"], size, row["alteration"], name)
                    speeds[key] = row[name]["images_per_second"]
    return speeds


def _compared(document, earlier):
    """Lines that say how much faster each is than before."""
    machine, before = document["machine"], earlier["machine"]
    lines = [
        f"{name} was {before.get(name)}, is {machine.get(name)}"
        for name in {**before, **machine}
        if before.get(name) != machine.get(name)
    ]
    lines.append(f"times as fast as in {_COMPARE.value}")
    now, then = _speeds(document), earlier["speeds"]
    of = {}
    for key in now:
        if key in then:
            of.setdefault(key[:3], []).append(f"{key[3]} {now[key] / then[key]:.2f}")
    for (network, size, alteration), cells in of.items():
        lines.append(f"{network}, {size}, {alteration}: " + ", ".join(cells))
    if not of:
        lines.append("nothing: no network was measured with as many images and levels")
    return lines


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
    versions = {
        name: importlib.metadata.version(name)
        for name in ("jax", "jaxlib", "numpy", "dm-pix", "opencv-python-headless")
    }
    return {
        "platform": device.platform,
        "device": device.device_kind,
        "num_devices": jax.device_count(),
        "cores": os.cpu_count(),
        "processor": _processor(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "jaxrob": jaxrob.__version__,
    } | versions


def _processor():
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in lines if "model name" in line]
    return names[0] if names else platform.processor()


if __name__ == "__main__":
    app.run(main)
