"""Random images, and the ways in which an array of them may lie in memory."""

import pathlib

import jax.numpy as jnp
import numpy as np

import jaxrob

# Those of one group are the same on the device.
DTYPES = (("float32", "float64", ">f4"), ("uint8",), ("bfloat16",), ("float16",))
LAYOUTS = (
    "C",
    "Fortran",
    "reversed",
    "strided",
    "transposed",
    "read-only",
    "jax",
    "memmap",
    "batches",
)


def random_images(rng, num_images, shape, dtype):
    """`[N, H, W, C]` in [0, 1] or bytes, or `[N, D]` of any numbers.

    Floats keep away from the middle between two bytes, where the rounding of JPEG
    compression is not defined.
    """
    dtype = jnp.bfloat16 if dtype == "bfloat16" else np.dtype(dtype)
    if len(shape) == 1:
        return rng.normal(size=(num_images, *shape)).astype(dtype)
    # Some smooth, some not.
    pixels = rng.uniform(0, 255, (num_images, 1, 1, 1)) + rng.normal(
        0, rng.choice([20, 80]), (num_images, *shape)
    )
    pixels = np.round(np.clip(pixels, 0, 255))
    if dtype == np.uint8:
        return pixels.astype(np.uint8)
    pixels = np.clip(pixels + rng.uniform(-0.4, 0.4, pixels.shape), 0, 255)
    images = (pixels / 255).astype(dtype)
    return np.where(images == 0.5, np.zeros_like(images), images)


def dataset_of(rng, images, labels, layout, folder):
    """The data set of these images in the given layout."""
    if layout == "batches":
        most = rng.integers(1, 2 + len(images))
        return jaxrob.Dataset.from_batches(Batches(images, labels, most))
    return jaxrob.Dataset(laid_out(images, layout, folder), labels)


def laid_out(images, layout, folder):
    """An array of the same values."""
    if layout == "Fortran":
        return np.asfortranarray(images)
    if layout == "reversed":
        return np.ascontiguousarray(images[::-1])[::-1]
    if layout == "strided":
        return np.repeat(images, 2, axis=1)[:, ::2]
    if layout == "transposed":
        return np.moveaxis(np.ascontiguousarray(np.moveaxis(images, -1, 1)), 1, -1)
    if layout == "jax":
        return jnp.asarray(images)
    if layout == "memmap":
        path = pathlib.Path(folder, "images")
        np.ascontiguousarray(images).tofile(path)
        return np.memmap(path, images.dtype, "r", shape=images.shape)
    images = np.array(images, order="C")
    if layout == "read-only":
        images.setflags(write=False)
    return images


def layouts_for(images):
    """What the library takes of numbers that JAX does not."""
    without = set()
    if images.dtype == np.dtype(">f4"):
        without = {"jax", "memmap"}
    elif images.dtype == np.float64:
        without = {"jax"}
    return [layout for layout in LAYOUTS if layout not in without]


class Batches:
    """The data in batches of odd sizes, the same in every pass."""

    def __init__(self, images, labels, most):
        self.images, self.labels, self.most = images, labels, most

    def __iter__(self):
        sizes = np.random.default_rng(len(self.images))
        first = 0
        while first < len(self.images):
            last = first + int(sizes.integers(1, self.most + 1))
            yield self.images[first:last], self.labels[first:last]
            first = last
