"""Cuts a data set into blocks of images and puts them on the devices in advance."""

import functools
import itertools
import math
import mmap
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh

from jaxrob._dataset import (
    BatchedDataset,
    Dataset,
    check_labels_below,
    checked_value_range,
)
from jaxrob._devices.hosts import put, put_rows
from jaxrob._devices.memory import bucket
from jaxrob._devices.mesh import sharded
from jaxrob._devices.prefetch import prefetched
from jaxrob._engine.picked import CountedBatches, must_be_read, picked


class Block(NamedTuple):
    """The images of one step, without their pixels.

    Attributes:
      labels: `[n]`, without those of padding.
      start: the position of the first image in the order of evaluation.
    """

    labels: np.ndarray
    start: int

    @property
    def stop(self) -> int:
        """The position after the last image."""
        return self.start + len(self.labels)

    def part(self, start: int, stop: int) -> "Block":
        """Returns the block's images at positions `start` to `stop`; may be empty."""
        first = min(max(start, self.start), self.stop)
        last = max(first, min(stop, self.stop))
        return Block(self.labels[first - self.start : last - self.start], first)


class PlacedBlock(NamedTuple):
    """A block with its images on the devices.

    Attributes:
      block: which images these are.
      images: `[size, ...]`, padded with zeros, sharded over the devices.
      indices: uint32 `[size]`, their indices in the data set, sharded too.
    """

    block: Block
    images: jax.Array
    indices: jax.Array


def placed_blocks(
    dataset: Dataset | BatchedDataset, num_classes: int, size: int, mesh: Mesh
) -> Generator[PlacedBlock, None, None]:
    """Yields the blocks of a data set in order.

    A thread reads ahead from a disk or an iterable.

    Args:
      dataset: the images.
      num_classes: the classifier's number of classes.
      size: images in a block, a multiple of the devices.
      mesh: the devices over which the images are sharded.

    Raises:
      ValueError: if a label is no class of the classifier, or `Dataset` rejects a
        value of a memory map.
    """
    is_mapped = isinstance(getattr(dataset, "images", None), np.memmap)

    def place(block: Block, images: np.ndarray) -> PlacedBlock:
        indices = block.start + np.arange(len(images), dtype=np.uint32)
        if not is_mapped:
            return _placed(dataset, num_classes, mesh, block, images, indices)
        # Read now, in the prefetching thread; else a step would wait for the disk.
        read = functools.partial(_read, images)
        return _placed(dataset, num_classes, mesh, block, read, indices)

    blocks = itertools.starmap(place, _blocks(dataset, size, mesh.size))
    if is_mapped or isinstance(dataset, BatchedDataset):
        yield from prefetched(blocks)
    else:
        yield from blocks


def picked_blocks(
    dataset: Dataset | CountedBatches,
    order: np.ndarray,
    starts: Sequence[int],
    number: int,
    num_classes: int,
    mesh: Mesh,
) -> Generator[PlacedBlock, None, None]:
    """Yields blocks of a data set in another order.

    Args:
      dataset: the images.
      order: `[N]`, their indices in this order.
      starts: the positions in the order at which blocks begin.
      number: images in a block, which is padded to a multiple of the devices.
      num_classes: the classifier's number of classes.
      mesh: the devices over which the images are sharded.

    Raises:
      ValueError: as `placed_blocks`.
    """
    size = math.ceil(number / mesh.size) * mesh.size
    spans = [slice(start, min(start + number, len(order))) for start in starts]

    def place(span: slice, images: np.ndarray) -> PlacedBlock:
        indices = order[span]
        block = Block(dataset.labels[indices], span.start)
        indices = _padded(indices.astype(np.uint32), size)
        images = _padded(images, size)
        return _placed(dataset, num_classes, mesh, block, images, indices)

    blocks = map(place, spans, picked(dataset, order, spans))
    yield from prefetched(blocks) if must_be_read(dataset) else blocks


def _placed(
    dataset: Dataset | BatchedDataset | CountedBatches,
    num_classes: int,
    mesh: Mesh,
    block: Block,
    images: np.ndarray | Callable[[slice], np.ndarray],
    indices: np.ndarray,
) -> PlacedBlock:
    """Puts a block on the devices, from its images or a function that reads rows."""
    name = f"labels of {dataset.name}"
    check_labels_below(block.labels, num_classes, name, dataset.class_names)
    split = sharded(mesh)
    if callable(images):
        placed = put_rows(images, len(indices), split), put(indices, split)
    else:
        placed = put((images, indices), split)
    return PlacedBlock(block, *placed)


def _read(images: np.ndarray, rows: slice) -> np.ndarray:
    """Reads rows of a memory map; returns a copy only if they are not contiguous."""
    part = images[rows]
    if not part.flags.c_contiguous:
        return np.ascontiguousarray(part)
    # Touching one byte of each page makes the system read the page.
    values = part.reshape(-1).view(np.uint8)
    for place in (slice(None, None, mmap.PAGESIZE), slice(-1, None)):
        values[place].max()
    return part


def _blocks(
    dataset: Dataset | BatchedDataset, size: int, num_devices: int
) -> Iterator[tuple[Block, np.ndarray]]:
    """Yields blocks of `size` images, whatever the batches; the last is padded."""
    batches = [dataset] if isinstance(dataset, Dataset) else dataset.batches()
    images, labels, start = [], [], 0
    for batch in batches:
        first = 0
        while first < len(batch):
            # Fill the current block from the rest of this batch.
            last = min(len(batch), first + size - sum(map(len, labels)))
            part = np.asarray(batch.images[first:last])
            if isinstance(batch.images, np.memmap):
                checked_value_range(part)
            images.append(part)
            labels.append(batch.labels[first:last])
            first = last
            if sum(map(len, labels)) == size:
                yield _block(images, labels, start, size)
                images, labels, start = [], [], start + size
    if labels:
        if isinstance(dataset, BatchedDataset):
            # If the number of images is unknown, a block may far exceed what is left.
            left = bucket(sum(map(len, labels)), 2)
            size = min(size, -(-left // num_devices) * num_devices)
        yield _block(images, labels, start, size)


def _block(
    images: list[np.ndarray], labels: list[np.ndarray], start: int, size: int
) -> tuple[Block, np.ndarray]:
    """Joins parts into a block, padded to `size` images."""
    whole = images[0] if len(images) == 1 else np.concatenate(images)
    return Block(np.concatenate(labels), start), _padded(whole, size)


def _padded(rows: np.ndarray, size: int) -> np.ndarray:
    """Pads rows with zeros to a size."""
    if len(rows) == size:
        return rows
    return np.pad(rows, [(0, size - len(rows))] + [(0, 0)] * (rows.ndim - 1))
