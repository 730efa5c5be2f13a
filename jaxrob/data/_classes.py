"""Class names, and their numbers in the order of a network's outputs."""

import csv
import io
import json
import os
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxrob._arguments.checks import checked_names, checked_path
from jaxrob.data._files import read_file

_Parts = tuple[str, ...]
# More digits than a class's index needs, leading zeros included.
_MOST_DIGITS = 18


def checked_class_names(class_names: Any) -> tuple[str, ...] | None:
    """Returns the classes in order, from a sequence or a file, or None if not given.

    Raises:
      FileNotFoundError: if there is no such file.
      TypeError: if they are not names.
      ValueError: if they are empty or repeat, or the file is damaged.
    """
    if class_names is None:
        return None
    where = "class_names"
    if isinstance(class_names, str | os.PathLike):
        path = checked_path("class_names", class_names)
        if not path.exists():
            raise FileNotFoundError(f"{path}: expected a file of class names there")
        where, class_names = str(path), _read_names(path)
    names = checked_names("class_names", class_names)
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{where}: {twice!r} stands there twice")
    return names


def numbered(
    classes: Sequence[str] | None, names: tuple[str, ...] | None, path: pathlib.Path
) -> tuple[np.ndarray | None, tuple[str, ...] | None]:
    """Returns the labels as numbers, and the names in the order of these numbers.

    Args:
      classes: each image's class, a name or an index as text; None without labels.
      names: the names in order; None for the sorted names found.
      path: the images' path, for messages.

    Raises:
      ValueError: if a class is not among the names.
    """
    if classes is None:
        return None, names
    if all(one.isascii() and one.isdigit() for one in classes) and not (
        names and set(classes) <= set(names)
    ):
        largest = max(classes, key=len)
        if len(largest) > _MOST_DIGITS:
            raise ValueError(f"{path}: no class has the index {largest[:40]}")
        return np.array([int(one) for one in classes], np.int64), names
    names = names or tuple(sorted(set(classes)))
    number = {name: label for label, name in enumerate(names)}
    missing = sorted(set(classes) - set(names))
    if missing:
        raise ValueError(
            f"{path}: its class {missing[0]!r} is none of the {len(names)} "
            f"class_names: {', '.join(names[:10])}. labels=None reads the pictures "
            "without their classes"
        )
    return np.array([number[one] for one in classes], np.int32), names


def read_labels(path: pathlib.Path, pictures: dict[str, _Parts]) -> dict[_Parts, str]:
    """Reads the class of each image that a CSV file names, in the order of its rows.

    Args:
      path: the file.
      pictures: the parts of each image's path, by the path.

    Raises:
      FileNotFoundError: if there is no such file.
      ValueError: if a row names no image, names one again, or has no label.
    """
    if not path.exists():
        raise FileNotFoundError(f"{path}: expected a CSV file of labels there")
    found: dict[_Parts, str] = {}
    try:
        rows = csv.reader(io.StringIO(_text(path), newline=""), strict=True)
        for number, row in enumerate(rows, 1):
            if not any(row):
                continue
            picture = row[0].strip().removeprefix("./")
            label = row[1].strip() if len(row) > 1 else ""
            if picture not in pictures and number == 1:
                continue  # The header.
            what = None
            if picture not in pictures:
                what = f"there is no picture {row[0]!r}"
            elif not label:
                what = f"{row[0]!r} has no label"
            elif pictures[picture] in found:
                what = f"{row[0]!r} stands there twice"
            if what is not None:
                raise ValueError(f"{path}, row {number}: {what}")
            found[pictures[picture]] = label
    except csv.Error as error:
        raise ValueError(f"{path}: not a CSV file: {error}") from error
    if not found:
        raise ValueError(
            f"{path}: it names no picture; expected rows of a path and a label"
        )
    return found


def _read_names(path: pathlib.Path) -> Any:
    """Reads the names in a file, in order."""
    text = _text(path)
    if path.suffix.lower() != ".json":
        return [line.strip() for line in text.splitlines() if line.strip()]
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: not a JSON file: {error}") from error
    if isinstance(found, list):
        return found
    wanted = "a list of names, or an object of names and their indices from 0"
    if not isinstance(found, dict):
        raise ValueError(f"{path}: expected {wanted}; got a {type(found).__name__}")
    values = list(found.values())
    if not all(type(one) is int for one in values) or sorted(values) != list(
        range(len(values))
    ):
        raise ValueError(f"{path}: expected {wanted}; got other indices")
    return sorted(found, key=found.__getitem__)


def _text(path: pathlib.Path) -> str:
    try:
        return read_file(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not a text in UTF-8: {error}") from error
