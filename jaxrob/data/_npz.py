"""Images and labels in an npz file."""

import os
from collections.abc import Sequence

from jaxrob._arguments.checks import checked_path, checked_text
from jaxrob._dataset import Dataset
from jaxrob._files import DAMAGE, read_npz
from jaxrob.data._classes import checked_class_names


def npz(
    path: str | os.PathLike[str],
    images: str = "images",
    labels: str | None = "labels",
    *,
    class_names: Sequence[str] | str | os.PathLike[str] | None = None,
) -> Dataset:
    """Loads images and labels from a file written by `numpy.savez`.

    Example::

        test = jaxrob.data.npz("digits.npz", images="x_test", labels="y_test")

    Args:
      path: the file, compressed or not. Nothing in it is unpickled.
      images: the name of the array of images, `[N, H, W, C]`, or `[N, H, W]` of one
        channel; uint8 or floating in [0, 1].
      labels: the name of the array of labels, `[N]` or `[N, 1]` integers from 0; None
        for images without labels.
      class_names: see `image_folder`.

    Returns:
      The data set.

    Raises:
      FileNotFoundError: if there is no such file.
      TypeError: if the arrays have another type, see `Dataset`.
      ValueError: if the file is damaged, unpacks to more than 256 MiB and 100 times its
        size or lacks an array, or as `Dataset`.
    """
    path = checked_path("path", path)
    wanted = [checked_text("images", images)]
    if labels is not None:
        wanted.append(checked_text("labels", labels))
    names = checked_class_names(class_names)
    try:
        arrays = read_npz(path, may_be_compressed=True)
    except FileNotFoundError:
        raise
    except DAMAGE as error:
        raise ValueError(f"{path}: not a readable npz file: {error}") from error
    for name in wanted:
        if name not in arrays:
            raise ValueError(
                f"{path}: it has no array {name!r}; it has {', '.join(sorted(arrays))}"
            )
    pixels = arrays[images]
    numbers = None if labels is None else arrays[labels]
    if pixels.ndim == 3:
        pixels = pixels[..., None]
    if numbers is not None and numbers.ndim == 2 and numbers.shape[1] == 1:
        numbers = numbers[:, 0]
    return Dataset(pixels, numbers, class_names=names, name=path.stem)
