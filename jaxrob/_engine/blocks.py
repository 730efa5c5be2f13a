"""Blocks of a data set's images, in order or picked, on the devices in advance."""

import contextlib
import dataclasses
import functools
import itertools
import math
import mmap
import threading
from collections.abc import Generator, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxrob._dataset import BatchedDataset, Dataset, are_classes, check_labels_below
from jaxrob._devices.blocks import (
    Kept,
    bucket,
    is_on,
    is_on_devices,
    padded,
    prefetched,
    taken_on_devices,
)
from jaxrob._devices.mesh import ImageMesh, own_rows, platform, put, put_rows, sharded
from jaxrob._numbers import note_values
from jaxrob._stored_images import StoredImages
from jaxrob.strategies._drive import Span


class Block(NamedTuple):
    """The images of one step, without their pixels."""

    labels: np.ndarray  # `[n]`, without those of padding
    start: int  # the position of the first image in the order of evaluation

    @property
    def stop(self) -> int:
        return self.start + len(self.labels)

    def part(self, span: Span) -> "Block":
        """Returns the block's images in a span; may be empty."""
        first = min(max(span.start, self.start), self.stop)
        last = max(first, min(span.stop, self.stop))
        return Block(self.labels[first - self.start : last - self.start], first)


class PlacedBlock(NamedTuple):
    """A block with its images on the devices."""

    block: Block  # which images these are
    images: jax.Array  # `[size, ...]`, padded with zeros, sharded over the devices
    indices: jax.Array  # uint32 `[size]`, their indices in the data set, sharded too
    # Int32 `[size]`, their right classes, sharded too; 0 of padding, and of labels that
    # are no classes
    labels: jax.Array


@dataclasses.dataclass(frozen=True, eq=False)
class CountedBatches:
    """A data set read batch by batch, whose labels are known."""

    batches: BatchedDataset  # the data set
    image: np.ndarray  # the first image
    labels: np.ndarray  # int32 `[N]`
    # The first images of the random order, once read.
    _first: list[np.ndarray] = dataclasses.field(default_factory=list, init=False)

    def __len__(self) -> int:
        return len(self.labels)


def placed_blocks(
    dataset: Dataset | BatchedDataset,
    num_classes: int | None,
    size: int,
    mesh: ImageMesh,
    kept: Kept,
) -> Generator[PlacedBlock, None, None]:
    if isinstance(dataset, BatchedDataset):
        return _of_batches(dataset, num_classes, size, mesh, kept)
    order, starts = np.arange(len(dataset)), range(0, len(dataset), size)
    return picked_blocks(
        dataset, order, starts, size, num_classes, mesh, kept, are_in_order=True
    )


def beside(placed: PlacedBlock, other: Dataset, mesh: ImageMesh) -> jax.Array:
    """Returns another data set's images at a block's places, on the devices."""
    spans, size = [slice(placed.block.start, placed.block.stop)], len(placed.images)
    read = _in_order(other, spans, size, mesh, threading.Event())
    with contextlib.closing(read) as found:
        return put(next(found), sharded(mesh))


def picked_blocks(
    dataset: Dataset | CountedBatches,
    order: np.ndarray,
    starts: Sequence[int],
    number: int,
    num_classes: int | None,
    mesh: ImageMesh,
    kept: Kept,
    are_in_order: bool = False,
) -> Generator[PlacedBlock, None, None]:
    """Yields the blocks that begin at some places of an order."""
    # A thread reads ahead from a disk or an iterable.
    size, stopped = math.ceil(number / mesh.size) * mesh.size, threading.Event()
    spans = [slice(start, min(start + number, len(order))) for start in starts]

    def name_of(span: slice) -> tuple[Any, ...]:
        # By the images themselves: another order must not find them.
        return dataset, size, mesh, order[span].tobytes()

    new = [span for span in spans if kept.find(name_of(span)) is None]
    is_read, images = must_be_read(dataset), getattr(dataset, "images", None)
    # On a CPU, kept arrays cost more than copies: freed memory is mapped anew.
    is_there = not is_read and (platform(mesh) == "cpu" or is_on(images, mesh))
    if is_on_devices(images):
        found = (taken_on_devices(images, order[span], size) for span in new)
    elif are_in_order and isinstance(dataset, Dataset):
        found = _in_order(dataset, new, size, mesh, stopped)
    else:
        found = _picked(dataset, order, new, size, stopped)

    def place(span: slice) -> PlacedBlock:
        name, indices = name_of(span), order[span]
        block = Block(dataset.labels[indices], span.start)
        _check_labels(dataset, num_classes, block)
        arrays = kept.find(name)
        if arrays is None:
            indices = padded(indices.astype(np.uint32), size)
            labels = padded_labels(block.labels, size)
            arrays = put((next(found), indices, labels), sharded(mesh))
            if not is_there:
                kept.keep(name, arrays)
        return PlacedBlock(block, *arrays)

    with contextlib.closing(found):
        blocks = map(place, spans)
        yield from prefetched(blocks, stop=stopped.set) if is_read else blocks


def _check_labels(
    dataset: Dataset | BatchedDataset | CountedBatches,
    num_classes: int | None,
    block: Block,
) -> None:
    if num_classes is None:
        return
    source = dataset.batches if isinstance(dataset, CountedBatches) else dataset
    name = f"labels of {source.name}"
    check_labels_below(block.labels, num_classes, name, source.class_names)


def padded_labels(labels: np.ndarray, size: int) -> np.ndarray:
    if not are_classes(labels):
        return np.zeros(size, np.int32)
    return padded(np.asarray(labels, np.int32), size)


def _in_order(
    dataset: Dataset,
    spans: Sequence[slice],
    size: int,
    mesh: ImageMesh,
    stopped: threading.Event,
) -> Generator[Any, None, None]:
    """Reads blocks in the data's order, each process its own devices' rows."""
    images, split = dataset.images, sharded(mesh)
    if isinstance(images, StoredImages):
        rows = own_rows(split, size)
        # Slices beyond the last picture are empty: these rows are padding.
        parts = (
            slice(at.start + one.start, at.start + one.stop)
            for at in spans
            for one in rows
        )
        with contextlib.closing(images.read(parts, stopped)) as found:

            def read(rows: slice) -> np.ndarray:
                return padded(next(found), rows.stop - rows.start)

            yield from (put_rows(read, size, split) for _ in spans)
        return
    for span in spans:
        part = np.asarray(images[span])
        if isinstance(images, np.memmap):
            note_values(dataset._range, part)
            # Read now, in the prefetching thread; else a step would wait for the disk.
            read = functools.partial(_read_rows, padded(part, size))
            yield put_rows(read, size, split)
        else:
            yield padded(part, size)


def _read_rows(images: np.ndarray, rows: slice) -> np.ndarray:
    """Reads rows of a memory map; returns a copy only if they are not contiguous."""
    part = images[rows]
    if not part.flags.c_contiguous:
        return np.ascontiguousarray(part)
    # Touching one byte of each page makes the system read the page.
    values = part.reshape(-1).view(np.uint8)
    for place in (slice(None, None, mmap.PAGESIZE), slice(-1, None)):
        values[place].max()
    return part


def _of_batches(
    dataset: BatchedDataset,
    num_classes: int | None,
    size: int,
    mesh: ImageMesh,
    kept: Kept,
) -> Generator[PlacedBlock, None, None]:
    # If all of them are kept, the batches are not read again.
    every = dataset, size, mesh
    number = kept.find(every)
    if number is not None:
        yield from (kept.find((*every, place)) for place in range(number))
        return

    def place(block: Block, images: np.ndarray) -> PlacedBlock:
        _check_labels(dataset, num_classes, block)
        indices = block.start + np.arange(len(images), dtype=np.uint32)
        labels = padded_labels(block.labels, len(images))
        return PlacedBlock(block, *put((images, indices, labels), sharded(mesh)))

    are_kept, number = True, 0
    joined = itertools.starmap(place, _joined(dataset, size, mesh.size))
    with contextlib.closing(prefetched(joined)) as ahead:
        for block in ahead:
            if are_kept and not kept.keep((*every, number), block):
                # They would have to be read again for the others.
                are_kept = False
                kept.drop()
            number += 1
            yield block
    if are_kept:
        kept.keep(every, number)


def _joined(
    dataset: BatchedDataset, size: int, num_devices: int
) -> Iterator[tuple[Block, np.ndarray]]:
    """Yields blocks of `size` images with their pixels; the last is padded."""
    images, labels, start = [], [], 0
    for batch in dataset.batches():
        first = 0
        while first < len(batch):
            # Fill the current block from the rest of this batch.
            last = min(len(batch), first + size - sum(map(len, labels)))
            part = np.asarray(batch.images[first:last])
            if isinstance(batch.images, np.memmap):
                note_values(dataset._range, part)
            images.append(part)
            labels.append(batch.labels[first:last])
            first = last
            if sum(map(len, labels)) == size:
                yield _block(images, labels, start, size)
                images, labels, start = [], [], start + size
    if labels:
        # The number of images is unknown, so a block may far exceed what is left.
        left = bucket(sum(map(len, labels)), 2)
        size = min(size, -(-left // num_devices) * num_devices)
        yield _block(images, labels, start, size)


def _block(
    images: list[np.ndarray], labels: list[np.ndarray], start: int, size: int
) -> tuple[Block, np.ndarray]:
    """Joins parts into a block, padded to `size` images."""
    whole = images[0] if len(images) == 1 else np.concatenate(images)
    return Block(np.concatenate(labels), start), padded(whole, size)


# Bytes of images kept in memory, and read in one pass.
_MAX_BYTES = 2**30


def counted(dataset: Dataset | BatchedDataset) -> Dataset | CountedBatches:
    """Returns the data set with a known length, so that images can be picked."""
    # Labels of batches are read in one pass over all of them.
    if isinstance(dataset, Dataset):
        return dataset
    image, labels = None, []
    for batch in dataset.batches():
        image = np.asarray(batch.images[0]) if image is None else image
        labels.append(batch.labels)
    assert image is not None  # `batches` rejects data without a batch.
    return CountedBatches(dataset, image, np.concatenate(labels))


def must_be_read(dataset: Dataset | BatchedDataset | CountedBatches) -> bool:
    """Whether some images are not in memory."""
    if not isinstance(dataset, Dataset):
        return True
    return isinstance(dataset.images, np.memmap | StoredImages)


def picked(
    dataset: Dataset | CountedBatches,
    order: np.ndarray,
    spans: Sequence[slice],
    stopped: threading.Event,
) -> Generator[np.ndarray, None, None]:
    """Yields the images of some spans of an order."""
    # For batches, the first images of the order, up to 1 GiB, are read once and kept.
    # Each further GiB takes another pass over all batches.
    if isinstance(dataset, Dataset):
        rows = (order[span] for span in spans)
        if isinstance(dataset.images, StoredImages):
            yield from dataset.images.read(rows, stopped)
        else:
            yield from (_rows(dataset, one) for one in rows)
        return
    most = max(1, _MAX_BYTES // max(1, dataset.image.nbytes))
    if not dataset._first:
        dataset._first.append(_read_picked(dataset, order[:most]))
    (first,) = dataset._first
    behind = [span for span in spans if span.stop > len(first)]
    for span in spans[: len(spans) - len(behind)]:
        yield first[span]
    longest = max((span.stop - span.start for span in behind), default=1)
    at_once = max(1, most // longest)
    for start in range(0, len(behind), at_once):
        group = behind[start : start + at_once]
        images = _read_picked(dataset, np.concatenate([order[one] for one in group]))
        ends = np.cumsum([span.stop - span.start for span in group])
        yield from np.split(images, ends[:-1])


def _picked(
    dataset: Dataset | CountedBatches,
    order: np.ndarray,
    spans: Sequence[slice],
    size: int,
    stopped: threading.Event,
) -> Generator[np.ndarray, None, None]:
    with contextlib.closing(picked(dataset, order, spans, stopped)) as found:
        yield from (padded(images, size) for images in found)


def _rows(dataset: Dataset, indices: np.ndarray) -> np.ndarray:
    images = dataset.images
    if not isinstance(images, np.memmap):
        return np.asarray(images)[indices]
    found = np.asarray(images[indices])
    note_values(dataset._range, found)
    return found


def _read_picked(dataset: CountedBatches, indices: np.ndarray) -> np.ndarray:
    """Reads the images of some indices in one pass over the batches."""
    image = dataset.image
    found = np.empty((len(indices), *image.shape), image.dtype)
    places = np.argsort(indices)
    ascending = indices[places]
    first, last, done = 0, 0, 0
    for batch in dataset.batches.batches():
        first, last = last, last + len(batch)
        start, done = done, int(np.searchsorted(ascending, last))
        if start < done:
            here = ascending[start:done] - first
            found[places[start:done]] = _rows(batch, here)
        if done == len(indices):
            break
    return found


def first_batch(dataset: Dataset | BatchedDataset) -> Dataset:
    return dataset if isinstance(dataset, Dataset) else next(dataset.batches())
