r"""The speed of the common corruptions, beside brightness and imagecorruptions-imaug.

    python experiments/corruption_speed.py
    python experiments/corruption_speed.py --sizes=32 --frost=FOLDER --repeats=9

For each of the benchmark's 15 corruptions and each size of images:

* `jaxrob.evaluate` of a small CNN at severities 0 to 5, alternating with `evaluate` on
  brightness: at a ratio of 1 it costs no more than brightness.
* Altering alone, severities 1 to 5, alternating with imagecorruptions-imaug (if it is
  installed), which alters image by image, in two processes of one thread each. It has
  only the parameters for 224 px, which both use at any size. A star marks the rows
  whose algorithm is not the benchmark's.

Ratios are medians over the repeats, each of runs side by side. Then the script prints
the peak memory of `evaluate` with as many images, and with four times as many. Weights
and images are random: pictures are smooth, because JPEG encoding of noise takes
longer. Writes JSON with a description of the machine into the folder `--output`. It
takes ten minutes on two CPU cores.
"""

import functools
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from absl import app, flags
from common import classifiers, datasets, define, files, hosts, machine, startup, timing
from corruptions_2019 import cells, imaug

import jaxrob
from jaxrob import alterations
from jaxrob.alterations import presets

# The numbers of images and of images in a block, by size in px.
_USUAL = {32: (500, 250), 64: (200, 100), 224: (8, 8), 299: (8, 8)}

_SIZES = define.choices(
    "sizes", ["32", "224"], [str(size) for size in _USUAL], "Sizes of images in px"
)
_NETWORK = define.network(default="mnist_cnn")
_CORRUPTIONS = define.choices(
    "corruptions", list(cells.CORRUPTIONS), cells.CORRUPTIONS, "Which"
)
_FROST = flags.DEFINE_string(
    "frost", None, "Folder of the pictures of frost; by default an installed package's."
)
_NUM_IMAGES = flags.DEFINE_integer(
    "num_images", None, "Images; by default 500 of 32 px, 8 of 224 px.", 2
)
_PROCESSES = flags.DEFINE_integer(
    "processes", 2, "Processes of imagecorruptions-imaug.", 1
)
_REPEATS = define.repeats()
_SEED = define.seed()
_OUTPUT = define.output("results/corruption_speed")


def main(argv: Sequence[str]) -> None:
    hosts.refuse_several()
    startup.start(argv)
    some = cells.alterations(_CORRUPTIONS.value, _FROST.value)
    document = {
        "machine": machine.description(),
        "network": _NETWORK.value,
        "sizes": {size: _measure(int(size), some) for size in _SIZES.value},
        "memory": machine.memory(),
    }
    print(f"\nmemory at most: {machine.in_words(document['memory'])}")
    path = files.output_folder(_OUTPUT.value) / "corruption_speed.json"
    files.write_json(path, document)
    print(f"wrote {path}")


def _measure(size: int, some: Mapping[str, jaxrob.Alteration]) -> dict[str, Any]:
    """Measures images of one size, and prints the results."""
    usual, block = _USUAL[size]
    number = _NUM_IMAGES.value or usual
    block = min(block, number)
    shape = (size, size, 3)
    classifier = classifiers.untrained(
        _NETWORK.value, shape, 10, jax.random.key(_SEED.value)
    )
    pictures = datasets.smooth_pictures(number, size, _SEED.value)
    dataset = jaxrob.Dataset(pictures, np.zeros(number, np.int32))
    print(f"\n{_NETWORK.value}, {number} images of {size} px, blocks of {block}")
    print("evaluate at 6 levels: times as fast as on brightness")
    evaluated = {}
    for name, alteration in some.items():
        evaluated[name] = _beside_brightness(classifier, dataset, alteration, block)
        seconds, ratio = evaluated[name]["seconds"], evaluated[name]["ratio"]
        print(f"  {name:20}{seconds:9.4f} s {ratio:7.2f}", flush=True)
    ratios = [one["ratio"] for one in evaluated.values()]
    print(
        f"  {sum(ratio >= 0.85 for ratio in ratios)} of {len(ratios)} at 0.85 or more; "
        f"the least {min(ratios):.2f}"
    )
    altered = _altering(pictures, block)
    peaks = {
        str(len(more)): _peak(classifier, some, more, block)
        for more in (pictures, np.tile(pictures, (4, 1, 1, 1)))
    }
    print(
        "most memory of evaluate: "
        + ", ".join(f"{peak / 2**20:,.0f} MiB for {n}" for n, peak in peaks.items())
    )
    return {
        "num_images": number,
        "block": block,
        "evaluate": evaluated,
        "altering": altered,
        "memory": peaks,
    }


def _beside_brightness(
    classifier: jaxrob.Classifier,
    dataset: jaxrob.Dataset,
    alteration: jaxrob.Alteration,
    block: int,
) -> dict[str, Any]:
    usual = alterations.brightness()
    even = np.linspace(usual.lower, usual.upper, len(presets.SEVERITIES))
    runs = {
        "evaluate": _evaluate(classifier, dataset, alteration, None, block),
        "brightness": _evaluate(classifier, dataset, usual, even, block),
    }
    return _alternating(runs, "evaluate", "brightness")


def _evaluate(
    classifier: jaxrob.Classifier,
    dataset: jaxrob.Dataset,
    alteration: jaxrob.Alteration,
    levels: np.ndarray | None,
    block: int,
) -> Callable[[], Any]:
    return functools.partial(
        jaxrob.evaluate,
        classifier,
        dataset,
        alteration,
        presets.SEVERITIES if levels is None else levels,
        key=jax.random.key(_SEED.value),
        batch_size=block,
    )


def _alternating(
    runs: Mapping[str, Callable[[], object]], first: str, other: str
) -> dict[str, Any]:
    """Returns the seconds of the first, and the ratio of the other's time to it."""
    compiling = {name: timing.seconds(run) for name, run in runs.items()}
    times = [
        {name: timing.seconds(run) for name, run in runs.items()}
        for _ in range(_REPEATS.value)
    ]
    found = {
        "seconds": statistics.median(one[first] for one in times),
        "first seconds": compiling[first],
        "times": times,
    }
    if other in runs:
        found["ratio"] = statistics.median(one[other] / one[first] for one in times)
    return found


def _altering(pictures: np.ndarray, block: int) -> dict[str, Any]:
    """Times altering alone, beside the other package if it is installed."""
    found = {}
    with imaug.altering(pictures, _PROCESSES.value) as other:
        print("altering alone, severities 1 to 5: times as fast as the other package")
        some = cells.alterations(_CORRUPTIONS.value, _FROST.value, 224)
        for name, alteration in some.items():
            runs = {"jaxrob": _alter(alteration, pictures, block)}
            if other is not None:
                runs["imaug"] = functools.partial(other, name)
            found[name] = one = _alternating(runs, "jaxrob", "imaug")
            star = " *" if name in imaug.DIFFERENT else ""
            ratio = f"{one['ratio']:8.2f}{star}" if "ratio" in one else ""
            print(f"  {name:20}{one['seconds']:9.4f} s {ratio}", flush=True)
    ratios = {name: one["ratio"] for name, one in found.items() if "ratio" in one}
    same = [ratio for name, ratio in ratios.items() if name not in imaug.DIFFERENT]
    if same:
        print(
            f"  geometric mean {statistics.geometric_mean(ratios.values()):.2f}, "
            f"without those marked {statistics.geometric_mean(same):.2f}; slower in "
            f"{sum(ratio < 1 for ratio in ratios.values())}"
        )
    return found


def _alter(
    alteration: jaxrob.Alteration, pictures: np.ndarray, block: int
) -> Callable[[], None]:
    """Alters all pictures at severities 1 to 5, block by block, as `evaluate` does."""
    blocks = [pictures[at : at + block] for at in range(0, len(pictures), block)]
    levels = jnp.asarray(presets.SEVERITIES[1:], jnp.float32)

    @jax.jit
    def altered(images: jax.Array, key: jax.Array) -> jax.Array:
        keys = jax.random.split(key, len(images))
        prepared = jax.vmap(alteration.prepared)(images / jnp.float32(255), keys)
        return jax.lax.map(
            lambda level: jax.vmap(alteration.at_level, (0, None))(prepared, level),
            levels,
        )

    def run() -> None:
        key = jax.random.key(_SEED.value)
        for one in blocks:
            altered(one, key).block_until_ready()

    return run


def _peak(
    classifier: jaxrob.Classifier,
    some: Mapping[str, jaxrob.Alteration],
    pictures: np.ndarray,
    block: int,
) -> int:
    """Returns the peak memory of `evaluate` beyond that held before, in bytes."""
    dataset = jaxrob.Dataset(pictures, np.zeros(len(pictures), np.int32))
    with machine.anonymous_peak() as largest:
        before = largest[0]
        for alteration in some.values():
            _evaluate(classifier, dataset, alteration, None, block)()
    return largest[0] - before


if __name__ == "__main__":
    app.run(main)
