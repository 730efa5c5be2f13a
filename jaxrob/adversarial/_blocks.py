"""Blocks of images that are attacked together: their programs and sizes."""

import functools
from collections.abc import Callable
from typing import Any

import jax

from jaxrob._devices.blocks import Call
from jaxrob._devices.mesh import ImageMesh, on_each_device, platform

# Images attacked at a time, memory permitting. On a CPU, the gradient of max-pooling is
# twice as slow where it leaves the caches.
_MAX_ROWS = 256
_MAX_ROWS_CPU = 16
_MAX_BYTES = 2**30


def by_image(function: Callable[..., Any]) -> Callable[..., Call]:
    """Compiles a function that treats images one by one, each device its own."""

    @functools.partial(jax.jit, static_argnames="mesh")
    def compiled(shared: Any, arrays: tuple[Any, ...], *, mesh: ImageMesh) -> Any:
        each = on_each_device(
            lambda shared, arrays: function(shared, *arrays), mesh, (False, True)
        )
        return each(shared, arrays)

    def call(shared: Any, *arrays: Any, mesh: ImageMesh) -> Call:
        return Call(compiled, (shared, arrays), {"mesh": mesh}, mesh)

    return call


def rows_in_block(
    num_images: int | None,
    batch_size: int | None,
    largest_array: int,
    image_size: int,
    live_images: int,
    mesh: ImageMesh,
) -> int:
    """Images in a block, a multiple of the devices, where none is much smaller."""
    most = batch_size or _rows_that_fit(largest_array, image_size, live_images, mesh)
    num_images = num_images or most
    num_blocks = -(-num_images // most)
    rows = -(-num_images // num_blocks)
    return -(-rows // mesh.size) * mesh.size


def _rows_that_fit(
    largest_array: int, image_size: int, live_images: int, mesh: ImageMesh
) -> int:
    """The most for all devices that help and that memory allows."""
    most = _MAX_ROWS_CPU if platform(mesh) == "cpu" else _MAX_ROWS
    # The gradient keeps what the forward pass computed: a few arrays of that size.
    row = 4 * largest_array + 4 * live_images * image_size
    return mesh.size * max(1, min(most, _MAX_BYTES // row))
