"""Pictures per second of a folder that is read when needed, beside Pillow alone.

    python experiments/picture_folder.py
    python experiments/picture_folder.py --num_images=200 --num_compared=100

`--num_images` JPEG files of 500 x 375 pixels (crops of two photographs of scikit-learn,
quality 90) and `--num_large` of 4000 x 3000 are written to `--folder` (a gigabyte by
default, deleted at the end). All are evaluated at two levels, with the peak of
anonymous memory. `--num_compared` of them are read, resized, cropped and evaluated
under a linear network at one level, alternately with two plain thread pools of Pillow
on the same cores: one that decodes, and one that decodes, resizes and crops. Prints
pictures per second and their ratios, medians over the repeats, and processor time per
picture, which other work on the machine hardly changes. It takes 10 minutes.
"""

import functools
import os
import pathlib
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np
from absl import app, flags
from common import define, startup, timing
from PIL import Image
from sklearn.datasets import load_sample_images

import jaxrob
from jaxrob import alterations

_CLASSES = 10

_NUM_IMAGES = define.num_images(20_000, "Pictures of 500 x 375 pixels.")
_NUM_COMPARED = flags.DEFINE_integer(
    "num_compared", 2000, "How many of them are compared with Pillow.", 10
)
_NUM_LARGE = flags.DEFINE_integer(
    "num_large", 40, "Pictures of 12 megapixels, all compared.", _CLASSES
)
_REPEATS = define.repeats()
_FOLDER = flags.DEFINE_string("folder", None, "Where the files go; by default $TMPDIR.")
_SEED = define.seed()

_BRIGHTNESS = alterations.brightness(-0.5, 0.5)
_SMALL, _LARGE = (500, 375), (4000, 3000)
# The folder's pictures, and what each is resized to and cropped to.
_CASES = (
    ("small", 256, 224),
    ("small", 128, 112),
    ("small", 64, 56),
    ("large", 256, 224),
)


def main(argv: Sequence[str]) -> None:
    startup.start(argv)
    with tempfile.TemporaryDirectory(dir=_FOLDER.value) as name:
        folder = pathlib.Path(name)
        for kind, number, size in (
            ("small", _NUM_IMAGES.value, _SMALL),
            ("large", _NUM_LARGE.value, _LARGE),
        ):
            _write(folder / kind, number, size)
            size_in_bytes = sum(one.stat().st_size for one in _paths(folder / kind))
            print(
                f"{kind}: {number:,} pictures of {size[0]} x {size[1]}, "
                f"{size_in_bytes / number / 1000:,.0f} kB each",
                flush=True,
            )
        # First, since it looks at the memory.
        dataset, start = (
            _dataset(folder / "small", 256, 224, False),
            time.perf_counter(),
        )
        with timing.anonymous_peak() as peak:
            jaxrob.evaluate(_linear(224), dataset, _BRIGHTNESS, [0.0, 0.4])
        print(
            f"{len(dataset):,} pictures in {time.perf_counter() - start:.1f} s, peak "
            f"of anonymous memory {peak[0] / 2**20:,.0f} MB"
        )
        for kind, resize, crop in _CASES:
            _compare(folder / kind, resize, crop)


def _compare(folder: pathlib.Path, resize: int, crop: int) -> None:
    """Times Pillow and the library alternately on some of the pictures."""
    paths = _paths(folder)
    paths = paths[:: -(-len(paths) // _NUM_COMPARED.value)]
    prepare = functools.partial(_prepared, resize=resize, crop=crop)
    ways: dict[str, Callable[[], object]] = {
        "Pillow decodes": lambda: _in_pool(lambda path: np.asarray(_read(path)), paths),
        "Pillow decodes, resizes, crops": lambda: _in_pool(prepare, paths),
    }
    for name, scaling in (("full scale", False), ("DCT scaling", True)):
        dataset = _dataset(folder, resize, crop, scaling)
        dataset = dataset[:: -(-len(dataset) // _NUM_COMPARED.value)]
        ways[f"evaluate, {name}"] = functools.partial(
            jaxrob.evaluate, _linear(crop), dataset, _BRIGHTNESS, [0.0]
        )
    seconds, processor = ({way: [] for way in ways} for _ in range(2))
    for _ in range(_REPEATS.value + 1):
        for way, run in ways.items():
            start, used = time.perf_counter(), time.process_time()
            run()
            seconds[way].append(time.perf_counter() - start)
            processor[way].append(time.process_time() - used)
    # The first round compiles.
    print(f"{folder.name}, resize={resize}, crop={crop}:")
    base = seconds["Pillow decodes"][1:]
    same_work = seconds["Pillow decodes, resizes, crops"][1:]
    for way, found in seconds.items():
        rate = len(paths) / statistics.median(found[1:])
        ratio = statistics.median(a / b for a, b in zip(base, found[1:]))
        other = statistics.median(a / b for a, b in zip(same_work, found[1:]))
        each = 1000 * statistics.median(processor[way][1:]) / len(paths)
        print(
            f"  {way}: {rate:,.0f} pictures/s, {ratio:.2f} of decoding alone, "
            f"{other:.2f} of the same work; processor time {each:.2f} ms a picture",
            flush=True,
        )


def _dataset(
    folder: pathlib.Path, resize: int, crop: int, scaling: bool
) -> jaxrob.Dataset:
    """Returns the folder as a data set that is read when needed, whatever its size."""
    return jaxrob.data.image_folder(
        folder, resize=resize, crop=crop, dct_scaling=scaling, max_bytes=1 << 16
    )


def _linear(crop: int) -> jaxrob.Classifier:
    key = jax.random.key(_SEED.value)
    weights = jax.random.normal(key, (crop * crop * 3, _CLASSES)) / crop
    return jaxrob.Classifier(_apply, weights)


def _apply(weights: jax.Array, images: jax.Array) -> jax.Array:
    return (images - jnp.float32(0.5)).reshape(len(images), -1) @ weights


def _in_pool(work: Callable[[pathlib.Path], object], paths: list[pathlib.Path]) -> None:
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for _ in pool.map(work, paths):
            pass


def _read(path: pathlib.Path) -> Image.Image:
    with Image.open(path) as image:
        return image.convert("RGB")


def _prepared(path: pathlib.Path, resize: int, crop: int) -> np.ndarray:
    whole = _read(path)
    shorter = min(whole.size)
    size = resize * whole.size[0] // shorter, resize * whole.size[1] // shorter
    whole = whole.resize(size, Image.Resampling.BICUBIC)
    left, top = round((size[0] - crop) / 2), round((size[1] - crop) / 2)
    return np.asarray(whole.crop((left, top, left + crop, top + crop)))


def _paths(folder: pathlib.Path) -> list[pathlib.Path]:
    return sorted(folder.glob("*/*.jpg"))


def _write(folder: pathlib.Path, number: int, size: tuple[int, int]) -> None:
    """Writes crops of the photographs, each another, in ten class folders."""
    photographs = [Image.fromarray(one) for one in load_sample_images().images]
    for label in range(_CLASSES):
        (folder / str(label)).mkdir(parents=True)

    def write(index: int) -> None:
        rng = np.random.default_rng((_SEED.value, index))
        whole = photographs[index % len(photographs)]
        width = int(rng.integers(400, 560))
        height = width * 3 // 4
        left = int(rng.integers(0, whole.size[0] - width + 1))
        top = int(rng.integers(0, whole.size[1] - height + 1))
        part = whole.crop((left, top, left + width, top + height))
        path = folder / str(index % _CLASSES) / f"{index:06}.jpg"
        part.resize(size, Image.Resampling.BICUBIC).save(path, quality=90)

    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for _ in pool.map(write, range(number)):
            pass


if __name__ == "__main__":
    app.run(main)
