"""The number of images and levels in one compiled step."""

import math
from collections.abc import Sequence

from jaxrob._adapters.network import on_host
from jaxrob._arguments.checks import checked_integer
from jaxrob._classifier import Classifier, TraceInfo, trace_info
from jaxrob._devices.memory import bucket, is_best_with_few_rows, rows_that_fit
from jaxrob._devices.mesh import ImageMesh, platform

# The most levels in a step on CPUs and most TPUs, where levels are sequential. On a CPU
# a step has fewer if it would exceed the operations: about a second on two cores, after
# which its answers are journaled.
_MAX_SEQUENTIAL_LEVELS = 16
_MAX_OPERATIONS_CPU = 2**36
# The levels of a step elsewhere, where all are batched: the most of which at least this
# share is not padding, if a device gets at least so many images.
_BATCHED_LEVELS = (16, 4, 1)
_LEAST_FILLED = 0.9
_LEAST_IMAGES = 128
# The first block's images arrive before anything is computed: 256 of 224 px, bytes, in
# 8 ms beside 80 of a ResNet-50 on an H100. So a block has at most these bytes, unless
# its step had fewer operations, about 10 ms of them: to dispatch one takes 2 ms.
_UPLOADED_BYTES = 2**24
_LEAST_OPERATIONS = 2**40


def levels_are_sequential(image_shape: tuple[int, ...], mesh: ImageMesh) -> bool:
    """Whether a step takes its levels sequentially, not batched."""
    # One level keeps a CPU or most TPUs busy, and its images reuse the caches, or the
    # TPU's on-chip memory, of the level before. On a CPU a perceptron takes a fifth
    # longer with one step per level. For a TPU the compiler estimates a third of the
    # cycles of batched levels (MNIST CNN, 16 levels of 1,000 images).
    return is_best_with_few_rows(image_shape, mesh)


def rows_for(
    classifier: Classifier, image_shape: tuple[int, ...], mesh: ImageMesh
) -> int:
    """Returns the number of images in one step, over all devices."""
    largest_array = trace_info(classifier, image_shape).largest_array
    rows = rows_that_fit(largest_array, image_shape, mesh)
    return whole_batches(classifier, rows // mesh.size) * mesh.size


def rows_of_a_level(
    rows: int,
    info: TraceInfo,
    image_shape: tuple[int, ...],
    levels: Sequence[int],
    mesh: ImageMesh,
) -> int:
    """Returns the most images of a block, of which a step has several levels."""
    # Where levels are batched, a step of few images at many levels is as fast as one of
    # many images at one level, but its images are uploaded while the devices compute
    # those before (1,000 images of 50x50x3, H100: 0.8 ms at 10 GB/s beside 3 ms).
    if levels_are_sequential(image_shape, mesh):
        return rows

    def filled(each: int) -> float:
        steps = sum(math.ceil(number / each) for number in levels)
        return sum(levels) / (steps * each)

    each = next(n for n in _BATCHED_LEVELS if filled(n) >= _LEAST_FILLED)
    on_each = rows // mesh.size // each
    if on_each < _LEAST_IMAGES:
        on_each = rows // mesh.size
    busy = int(_LEAST_OPERATIONS / max(1, info.operations * each))
    uploaded = _UPLOADED_BYTES // math.prod(image_shape)
    return min(on_each, max(busy, uploaded, 1)) * mesh.size


def whole_batches(classifier: Classifier, rows: int) -> int:
    """Rounds rows down to full batches of a network on the host, but at least one."""
    batch_size = batch_size_of(classifier)
    return max(batch_size, rows // batch_size * batch_size)


def batch_size_of(classifier: Classifier) -> int:
    """Returns the batch size of a network on the host; 1 if any size will do."""
    network = on_host(classifier.apply_fn)
    return network.function.batch_size or 1 if network is not None else 1


def images_in_block(
    classifier: Classifier,
    rows: int,
    length: int | None,
    batch_size: int | None,
    mesh: ImageMesh,
) -> int:
    """Returns the number of images in a block, a multiple of the devices."""
    if batch_size is not None:
        images = checked_integer("batch_size", batch_size, at_least=1)
    elif length is None:
        images = rows
    else:
        # Blocks of equal size keep the padding of the last one small.
        images = math.ceil(length / math.ceil(length / rows))
        images = math.ceil(images / batch_size_of(classifier))
        images *= batch_size_of(classifier)
    return math.ceil(images / mesh.size) * mesh.size


def levels_in_step(
    info: TraceInfo,
    image_shape: tuple[int, ...],
    rows: int,
    images: int,
    num_levels: int,
    mesh: ImageMesh,
) -> int:
    """Returns the number of levels in a step."""
    if levels_are_sequential(image_shape, mesh):
        if platform(mesh) == "tpu":
            return _MAX_SEQUENTIAL_LEVELS
        most = int(_MAX_OPERATIONS_CPU / max(1, info.operations * images))
        return min(max(1, most), _MAX_SEQUENTIAL_LEVELS)
    # Each size is compiled, so there are only a few, none far above `num_levels`.
    fitting = bucket(rows // images + 1, 4) // 4
    return max(1, min(fitting, bucket(num_levels, 4)))
