"""Images picked by index, from arrays or from batches that must be read."""

import dataclasses
import threading
from collections.abc import Generator, Sequence

import numpy as np

from jaxrob._dataset import BatchedDataset, Dataset, note_values
from jaxrob._stored_images import StoredImages

# Bytes of images kept in memory, and read in one pass.
_MAX_BYTES = 2**30


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

    @property
    def name(self) -> str:
        """The data set's name in reports."""
        return self.batches.name

    @property
    def class_names(self) -> tuple[str, ...] | None:
        """One name for each class, or None."""
        return self.batches.class_names


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
    if isinstance(dataset, Dataset) and isinstance(dataset.images, StoredImages):
        yield from dataset.images.read((order[span] for span in spans), stopped)
        return
    if isinstance(dataset, Dataset):
        yield from (_rows(dataset, order[span]) for span in spans)
        return
    most = max(1, _MAX_BYTES // max(1, dataset.image.nbytes))
    if not dataset._first:
        dataset._first.append(_read(dataset, order[:most]))
    (first,) = dataset._first
    behind = [span for span in spans if span.stop > len(first)]
    for span in spans[: len(spans) - len(behind)]:
        yield first[span]
    longest = max((span.stop - span.start for span in behind), default=1)
    at_once = max(1, most // longest)
    for start in range(0, len(behind), at_once):
        group = behind[start : start + at_once]
        images = _read(dataset, np.concatenate([order[span] for span in group]))
        ends = np.cumsum([span.stop - span.start for span in group])
        yield from np.split(images, ends[:-1])


def _rows(dataset: Dataset, indices: np.ndarray) -> np.ndarray:
    """Returns images in memory; checks those of a memory map."""
    images = dataset.images
    if not isinstance(images, np.memmap):
        return np.asarray(images)[indices]
    found = np.asarray(images[indices])
    note_values(dataset._range, found)
    return found


def _read(dataset: CountedBatches, indices: np.ndarray) -> np.ndarray:
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
