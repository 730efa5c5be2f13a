"""How many images and levels one compiled step takes."""

import math

from jax.sharding import Mesh

from jaxrob._adapters.on_host import on_host
from jaxrob._arguments.checks import checked_integer
from jaxrob._classifier import Classifier, TraceInfo, trace_info
from jaxrob._devices.memory import bucket, is_best_with_few_rows, rows_that_fit
from jaxrob._devices.mesh import platform

# On a CPU and most TPUs a step takes that many levels one after the other. A CPU takes
# fewer where the classifier would need more operations: about a second on two cores,
# after which the answers are safe in the journal.
_MAX_LEVELS_IN_TURN = 16
_MAX_OPERATIONS_CPU = 2**36


def levels_are_sequential(image_shape: tuple[int, ...], mesh: Mesh) -> bool:
    """Whether a step takes its levels one after the other, not all at once.

    One level keeps a CPU or most TPUs busy, and its images replace those of the level
    before in the caches, or in a TPU's memory on the chip. On a CPU a perceptron takes
    a fifth longer with a step for each level. For a TPU the compiler estimates a third
    of the cycles of all levels at once (MNIST CNN, 16 levels of 1,000 images).
    """
    return is_best_with_few_rows(image_shape, mesh)


def rows_for(classifier: Classifier, image_shape: tuple[int, ...], mesh: Mesh) -> int:
    """Images that a classifier takes in one step, all devices together.

    Args:
      classifier: the classifier. It is traced, not run.
      image_shape: the shape of one image, `(H, W, C)`.
      mesh: the devices.

    Returns:
      The largest number that makes a step faster and fits in memory: a multiple of the
      devices, and of the batches that a network on the host takes, and the same in all
      processes.

    Raises:
      ValueError: if the classifier does not take images of this shape.
    """
    largest_array = trace_info(classifier, image_shape).largest_array
    rows = rows_that_fit(largest_array, image_shape, mesh)
    return whole_batches(classifier, rows // mesh.size) * mesh.size


def whole_batches(classifier: Classifier, rows: int) -> int:
    """As many rows, or fewer, of which a network on the host fills its batches."""
    batch_size = batch_size_of(classifier)
    return max(batch_size, rows // batch_size * batch_size)


def batch_size_of(classifier: Classifier) -> int:
    """The images in each batch of a network on the host; 1 if any number will do."""
    network = on_host(classifier.apply_fn)
    return network.function.batch_size or 1 if network is not None else 1


def images_in_block(
    classifier: Classifier,
    rows: int,
    length: int | None,
    batch_size: int | None,
    mesh: Mesh,
) -> int:
    """Images in a block, a multiple of the devices.

    Args:
      classifier: the classifier.
      rows: the most that fit, see `rows_for`.
      length: images in all, None if it is not known.
      batch_size: how many the caller asks for, or None.
      mesh: the devices.

    Raises:
      ValueError: if the batch size is below 1.
    """
    if batch_size is not None:
        images = checked_integer("batch_size", batch_size, at_least=1)
    elif length is None:
        images = rows
    else:
        # Blocks of equal size, so that the last one is hardly padded.
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
    mesh: Mesh,
) -> int:
    """Levels that a step takes.

    Args:
      info: what a trace tells of the classifier.
      image_shape: the shape of one image.
      rows: the most images that fit, see `rows_for`.
      images: images in a block.
      num_levels: levels in all.
      mesh: the devices.
    """
    if levels_are_sequential(image_shape, mesh):
        if platform(mesh) == "tpu":
            return _MAX_LEVELS_IN_TURN
        most = int(_MAX_OPERATIONS_CPU / max(1, info.operations * images))
        return min(max(1, most), _MAX_LEVELS_IN_TURN)
    # Each size is compiled, so there are few; none is far larger than there are levels.
    return max(1, min(rows // images, bucket(num_levels, 4)))
