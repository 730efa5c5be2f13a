"""Class names, and their numbers in the order of a network's outputs."""

import csv
import io
import json
import math
import os
import pathlib
import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxrob._arguments.checks import checked_names, checked_path
from jaxrob._arguments.messages import spellings
from jaxrob._arguments.texts import warn
from jaxrob._metadata import NO_VALUE
from jaxrob.data._decode import SUFFIXES
from jaxrob.data._source import read_file

_Parts = tuple[str, ...]
# First cells of a header that need no word.
_HEADERS = re.compile(r"(file|image|img|picture|path|name|id|[ _-])+", re.IGNORECASE)
_NUMBER = re.compile(r"[+-]?\d+(\.\d*)?(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
# In quotes, brackets, bytes or a tensor's text, other scripts, base 16, one-hot.
_WRAPPED = re.compile(
    r"0x[\da-f]+|\W*([\w.]+\(|b['\"])?\W*\d+([.,]0*)?(,.*\))?\W*|"
    r"\W*((0|1|false|true)[\s,;.]+)+(0|1|false|true)\W*",
    re.IGNORECASE,
)
_COMMA = re.compile(r"^([+-]?[0-9]+),([0-9]+)$")


def checked_class_names(class_names: Any) -> tuple[str, ...] | None:
    if class_names is None:
        return None
    where = "class_names"
    if isinstance(class_names, str | os.PathLike):
        where = checked_path("class_names", class_names)
        if not where.exists():
            raise FileNotFoundError(f"{where}: expected a file of class names there")
        class_names = _read_names(where)
    names = checked_names("class_names", class_names)
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{where}: {twice!r} stands there twice")
    return names


def numbered(
    classes: Sequence[str] | None,
    names: tuple[str, ...] | None,
    path: pathlib.Path,
    places: Sequence[str],
) -> tuple[np.ndarray | None, tuple[str, ...] | None]:
    if classes is None:
        return None, names
    is_listed = frozenset(names or ()).__contains__
    classes = [next(filter(is_listed, spellings(one)), one) for one in classes]
    numbers = np.array([_number(one) for one in classes])
    are_names = names is not None and (set(classes) <= set(names))
    if names and not are_names and names != tuple(map(str, range(len(names)))):
        # 2.0 where a class is called 2, but is not the third.
        is_either = np.isin(numbers, [_number(_look(name)) for name in names])
        if is_either.any():
            first = int(is_either.argmax())
            raise ValueError(
                f"{places[first]}: {classes[first][:40]!r} is an index or one of "
                "the class_names, which are numbers too. Write all classes as these do"
            )
    if not are_names and not np.isnan(numbers).all():
        wrong = ~((numbers >= 0) & (numbers < 2**31) & (numbers == np.floor(numbers)))
        if wrong.any() and (names is None or not np.isnan(numbers).any()):
            first = int(wrong.argmax())
            raise ValueError(
                f"{places[first]}: {classes[first][:40]!r} is no class's index, as "
                "others are. Correct it, or list all names: class_names="
            )
        if not wrong.any():
            if names and numbers.min() == 1 and numbers.max() == len(names):
                raise ValueError(f"{path}: its labels count from 1: subtract 1")
            return numbers.astype(np.int64), names
    if names is None:
        names = tuple(sorted(set(classes)))
        if len(names) > 1 and all(map(_WRAPPED.fullmatch, names)):
            raise ValueError(
                f"{places[0]}: {classes[0][:40]!r} is an index in another form. "
                "Write it plainly, or list the classes: class_names="
            )
        check_sorted(names, path)
        check_looks(names, path)
        for place, one in zip(places, classes):
            if NO_VALUE.fullmatch(one):
                raise ValueError(
                    f"{place}: {one!r} stands for no value in tables. Leave the "
                    "picture out, or list the classes: class_names="
                )
    number = {name: label for label, name in enumerate(names)}
    if missing := sorted(set(classes) - set(names)):
        raise ValueError(
            f"{path}: its class {missing[0]!r} is none of the class_names: "
            f"{', '.join(names[:10])}. labels=None reads the pictures alone"
        )
    return np.array([number[one] for one in classes], np.int32), names


def _by_number(names: Sequence[str]) -> list[str]:
    """Sorts names by their numbers, if alike but for these and marks, or counted."""
    numbers = {one: [*map(int, re.findall(r"\d+", one))] for one in names}
    counts = [[count] for count in range(len(names) + 1)]
    heads = {re.sub(r"\d.*", "0", re.sub(r"[\W_]", "", one)).lower() for one in names}
    if len(heads) > 1 and sorted(numbers.values()) not in (counts[1:], counts[:-1]):
        return sorted(names)
    return sorted(names, key=numbers.__getitem__)


def check_looks(names: Sequence[str], path: str | os.PathLike[str]) -> None:
    """Rejects names of classes, that nobody has listed, of which two look the same."""
    looks = {_look(name): name for name in names}
    for name in names:
        if looks[_look(name)] != name:
            raise ValueError(
                f"{path}: its classes {name!a} and {looks[_look(name)]!a} look the "
                "same. Write them alike, or say class_names= with both"
            )


def _look(text: str) -> str:
    """Letters put together, spaces alike, without signs of no width; words small."""
    shown = (sign for sign in text if unicodedata.category(sign) != "Cf")
    look = " ".join(unicodedata.normalize("NFKC", "".join(shown)).split())
    # Letters alone may be classes, large and small.
    return look.casefold() if len(look) > 1 else look


def _number(text: str) -> float:
    return float(text) if _NUMBER.fullmatch(text) else math.nan


def check_sorted(names: Sequence[str], path: pathlib.Path) -> None:
    """Rejects classes whose numbers are in another order than their sorted names."""
    numbers = sorted(filter(_NUMBER.fullmatch, names), key=_number) or _by_number(names)
    if numbers != sorted(numbers) or (numbers and _number(numbers[0]) < 0):
        by_number = [*numbers, *sorted(set(names) - set(numbers))]
        raise ValueError(
            f"{path}: its classes are numbered, in an unknown order. Say "
            f"class_names=classifier.class_names, class_names={sorted(names)} as "
            f"torchvision's ImageFolder, or class_names={by_number}"
        )


class Row(NamedTuple):
    number: int  # from 1
    cells: list[str]
    mark: str  # what stands between them

    def value(self, place: int) -> str:
        # Spreadsheets write semicolons where numbers have commas.
        text = self.cells[place].strip()
        return _COMMA.sub(r"\1.\2", text) if self.mark == ";" else text


def csv_rows(path: pathlib.Path) -> Iterator[Row]:
    text = _text(path)
    line = text.lstrip().partition("\n")[0]
    mark = next((one for one in ";\t" if one in line and "," not in line), ",")
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=mark, strict=True)
    try:
        yield from (Row(n, row, mark) for n, row in enumerate(rows, 1) if any(row))
    except csv.Error as error:
        raise ValueError(f"{path}: not a CSV file: {error}") from error


class Labelled(NamedTuple):
    label: str
    place: str  # the file and its row
    values: tuple[str, ...]  # of the columns that are asked for


def read_labels(
    path: pathlib.Path, pictures: dict[str, _Parts], columns: Sequence[str] = ()
) -> dict[_Parts, Labelled]:
    """Reads the class of each image that a CSV file names, and these columns."""
    if not path.exists():
        raise FileNotFoundError(f"{path}: expected a CSV file of labels there")
    labelled: dict[_Parts, Labelled] = {}
    header: list[str] = []
    for one in csv_rows(path):
        row = one.cells
        picture = row[0].strip().removeprefix("./")
        label = row[1].strip() if len(row) > 1 else ""
        is_first = not labelled and not header
        is_data = picture.lower().endswith(SUFFIXES) or _NUMBER.fullmatch(label)
        if picture not in pictures and is_first and not is_data:
            header = [name.strip() for name in row]
            if not _HEADERS.fullmatch(picture):
                warn(f"{path}: its first row is taken for a header: {row}")
            continue
        place = f"{path}, row {one.number}"
        if picture not in pictures:
            raise ValueError(f"{place}: there is no picture {row[0]!r}")
        if not label:
            raise ValueError(f"{place}: {row[0]!r} has no label")
        if pictures[picture] in labelled:
            raise ValueError(f"{place}: {row[0]!r} stands there twice")
        if unknown := [name for name in columns if header.count(name) != 1]:
            raise ValueError(
                f"{path}: its first row must name once the column {unknown[0]!r}, "
                f"which metadata asks for; it names {header or 'none'}"
            )
        others = {*header[2:]} - {*columns}
        if header[1:2] and header[1] in columns and others:
            raise ValueError(
                f"{path}: its second column is the label, but {header[1]!r} is "
                f"asked for as metadata: put the label, of {sorted(others)}, second"
            )
        taken = repr(header[1]) if len(header) > 1 else "the second"
        is_clear = labelled or taken in ("'label'", "'class'")
        if len(row) > 2 + len(columns) and not is_clear:
            warn(f"{path}: {taken} of its columns is taken for the label")
        row += [""] * (len(header) - len(row))
        values = tuple(one.value(header.index(name)) for name in columns)
        labelled[pictures[picture]] = Labelled(label, place, values)
    if not labelled:
        raise ValueError(f"{path}: it names no picture in its first column")
    return labelled


def _read_names(path: pathlib.Path) -> Any:
    text = _text(path)
    if path.suffix.lower() != ".json":
        return [line.strip() for line in text.splitlines() if line.strip()]
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: not a JSON file: {error}") from error
    if isinstance(parsed, list):
        return parsed
    indices: list[Any] = [*parsed.values()] if isinstance(parsed, dict) else [None]
    if {*map(type, indices)} - {int} or sorted(indices) != [*range(len(indices))]:
        raise ValueError(f"{path}: expected a list of names, or their indices from 0")
    return sorted(parsed, key=parsed.__getitem__)


def _text(path: pathlib.Path) -> str:
    try:
        return read_file(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not a text in UTF-8: {error}") from error
