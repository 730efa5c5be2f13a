"""The data sets of the experiments, by name."""

import os
import pathlib

from jaxrob._arguments.checks import check_choice, checked_path
from jaxrob._dataset import Dataset
from jaxrob.data._cifar10 import cifar10
from jaxrob.data._digits import digits
from jaxrob.data._idc import idc_patches
from jaxrob.data._mnist import mnist
from jaxrob.data._split import check_split

NAMES = ("digits", "mnist", "cifar10", "idc")
_VARIABLE = "JAXROB_DATA_DIR"


def load(
    name: str, split: str = "test", data_dir: str | os.PathLike[str] | None = None
) -> Dataset:
    """Loads a data set by its name.

    Example::

        train = jaxrob.data.load("digits", "train")
        test = jaxrob.data.load("digits")

    Args:
      name: "digits" (embedded), "mnist", "cifar10" or "idc".
      split: "test" or "train"; "idc" has "test" only.
      data_dir: the folder that holds the folders `mnist`, `cifar10` and `idc/images`,
        as `mnist`, `cifar10` and `idc_patches` take them. None stands for the
        environment variable JAXROB_DATA_DIR. "digits" needs neither.

    Returns:
      The data set, uint8 images `[N, H, W, C]`.

    Raises:
      ValueError: if the name or split is unknown, or a file is damaged.
      FileNotFoundError: if the data are missing; the message names the folder searched
        and what was expected.
      ImportError: if an optional dependency is missing.
    """
    check_choice("name", name, NAMES)
    check_split(split)
    if data_dir is not None:
        data_dir = checked_path("data_dir", data_dir)
    if name == "idc" and split != "test":
        raise ValueError(f"split must be 'test' for 'idc', got {split!r}")
    if name == "digits":
        return digits(split)
    root = data_dir if data_dir is not None else os.environ.get(_VARIABLE)
    if not root:
        raise FileNotFoundError(
            f"{name} needs files: pass data_dir or set {_VARIABLE} to the folder that "
            f"holds the folder {_folder(name)}; the data set 'digits' needs nothing"
        )
    folder = pathlib.Path(root, _folder(name))
    try:
        if name == "mnist":
            return mnist(folder, split)
        if name == "cifar10":
            return cifar10(folder, split)
        return idc_patches(folder)
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"{error} (data_dir or {_VARIABLE} is {os.fspath(root)!r}); the data set "
            "'digits' needs nothing"
        ) from error


def _folder(name: str) -> str:
    return "idc/images" if name == "idc" else name
