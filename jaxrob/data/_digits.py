"""scikit-learn's digits, which need no file."""

import numpy as np

from jaxrob._arguments.checks import checked_integer
from jaxrob._arguments.extra import required
from jaxrob._dataset import Dataset
from jaxrob.data._split import check_split

_TEST_IMAGES = 500


def digits(split: str = "test", size: int = 28) -> Dataset:
    """Loads the 1,797 handwritten digits that come with scikit-learn.

    The originals have 8x8 pixels and 17 grey values; they are enlarged (bicubic) to fit
    networks for MNIST. The split is stratified by class, always the same, and
    independent of scikit-learn's version.

    Args:
      split: "test" (500 images) or "train" (1,297).
      size: height and width of the images, 1 to 1,024 pixels; 8 leaves them unchanged.

    Returns:
      uint8 images `[N, size, size, 1]`, labels 0-9.

    Raises:
      ValueError: if the split is unknown or the size is below 1.
      ImportError: if scikit-learn or Pillow is missing.

    Source: Alpaydin and Kaynak, Optical recognition of handwritten digits, UCI
    machine learning repository, 1998 (its test part).
    """
    check_split(split)
    size = checked_integer("size", size, at_least=1, at_most=1024)
    bunch = required(
        "sklearn.datasets", "the digits data set", "experiments"
    ).load_digits()
    test = _stratified(bunch.target, _TEST_IMAGES)
    chosen = test if split == "test" else ~test
    pixels = np.round(bunch.images[chosen] * (255 / 16)).astype(np.uint8)
    pil = required("PIL.Image", "the digits data set", "experiments")
    images = np.stack(
        [
            np.asarray(pil.fromarray(p).resize((size, size), pil.Resampling.BICUBIC))
            for p in pixels
        ]
    )
    return Dataset(
        images[..., np.newaxis],
        bunch.target[chosen].astype(np.int32),
        class_names=tuple("0123456789"),
        name=f"digits/{split}",
    )


def _stratified(labels: np.ndarray, number: int) -> np.ndarray:
    """Returns a mask of `number` elements that keeps the classes' proportions."""
    quota = np.bincount(labels) * number / len(labels)
    counts = np.floor(quota).astype(int)
    largest = np.argsort(counts - quota, kind="stable")
    counts[largest[: number - counts.sum()]] += 1
    # NumPy promises that this generator's stream never changes.
    order = np.random.RandomState(0).permutation(len(labels))
    mask = np.zeros(len(labels), bool)
    for label, count in enumerate(counts):
        mask[order[labels[order] == label][:count]] = True
    return mask
