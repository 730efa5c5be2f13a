"""Alterations of pictures that exist: a benchmark's files, one's own recordings."""

import dataclasses
import functools
import os
import pathlib
import re
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, TypeVar

import numpy as np

from jaxrob._arguments import checks
from jaxrob._arguments.messages import wrong_type
from jaxrob._dataset import Dataset, are_classes
from jaxrob._identity.identity import digest, hashable_partial, object_bytes
from jaxrob._stored_images import StoredImages
from jaxrob.alterations._alteration import About, Alteration
from jaxrob.data._image_folder import FOLDERS, image_folder

T = TypeVar("T")

_NUM_SEVERITIES = 5
_NUMBER = re.compile(r"(?:(?<!\w)-)?\d+(?:\.\d+)?(?:e-?\d+)?")
_SIZING = ("size", "resize", "crop", "interpolation")


@dataclasses.dataclass(frozen=True, eq=False)
class Pictures:
    """The pictures by level, ascending; None are the unaltered ones.

    `_paired` has the data set that they were last paired with, and what came of it.
    """

    at: Mapping[float, Any] = dataclasses.field(compare=False)
    weights: tuple[float, ...]
    names: Sequence[str]  # of the levels, if they have any
    _paired: list[Any] = dataclasses.field(default_factory=list, compare=False)


@dataclasses.dataclass(frozen=True)
class Recorded(Alteration):
    """An alteration that is read, not computed, see `recorded`."""

    pictures: Pictures = dataclasses.field(kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if getattr(self.fn, "function", None) is not _refused:
            _refused(name=self.name)  # Made into another alteration.

    @functools.cached_property
    def description(self) -> str:
        """As of an `Alteration`, with a digest of the pictures."""
        parts: list[Any] = []
        for level, given in self.pictures.at.items():
            images = getattr(given, "images", str(given))
            is_stored = isinstance(images, StoredImages)
            parts += [repr(level), images.fingerprint() if is_stored else images]
        return f"{super().description}: {digest(parts)}"

    def canonical(self, levels: np.ndarray) -> np.ndarray:
        """As of an `Alteration`; a level without pictures is a ValueError."""
        levels, there = super().canonical(levels), [*self.pictures.at]
        if len(others := levels[~np.isin(levels, there)]):
            raise ValueError(
                f"{self.name}: levels must be of {there}; got {others[0]:g}"
            )
        return levels


def recorded(
    levels: Mapping[Any, Any],
    *,
    name: str = "recorded",
    unit: str = "",
    identity: Any = None,
    weights: Sequence[float] | None = None,
) -> Recorded:
    """Pictures that exist, in place of computed ones: an alteration to be assessed.

    Each level is a data set of the same pictures as the unaltered ones, taken or made
    under another condition. Only these levels exist: the robustness is the share of
    those listed that are good enough, and nothing is interpolated.

    Example::

        photographs = jaxrob.data.image_folder("photographs/1000", resize=256, crop=224)
        light = jaxrob.alterations.recorded(
            {lux: f"photographs/{lux}" for lux in (10, 50, 200)},
            name="light",
            unit="lux",
            identity=1000,
        )
        result = jaxrob.assess(classifier, photographs, light)

    Pictures are paired by name, without endings, if the unaltered ones come from files
    too, and else by place. A picture without a partner is an error, and so is one of
    another class or size. A folder is read as the unaltered pictures were
    (`jaxrob.data.image_folder`), but what has their final size is not resized again.

    Args:
      levels: the pictures by level. Levels are numbers, or names in their order, which
        become 1, 2, ... Pictures are a `jaxrob.Dataset`, the path of a folder, whose
        pictures are read when they are needed, or of a `.npy` file `[N, H, W, C]`.
      name: the alteration's name in reports.
      unit: the unit of the levels, "severity" for those of a benchmark.
      identity: the level of the unaltered pictures, which are evaluated too but count
        only if they are listed; by default 0, unless there is another unit.
      weights: what the levels count in the robustness; by default all the same.

    Raises:
      FileNotFoundError: if there is nothing at a path.
      TypeError: if an argument has a wrong type.
      ValueError: if there is no level beside the identity, a number is not finite, the
        identity is missing, weights are negative, all 0 or not as many as levels, or a
        file is damaged. Pairs are looked at in `evaluate` and `assess`.
    """
    checks.check_type("levels", levels, Mapping, "a mapping of levels to pictures")
    names = [*levels] if all(isinstance(one, str) for one in levels) else []
    numbers = [float(at + 1) for at in range(len(names))]
    if not names:
        numbers = [checks.checked_number("levels", one) for one in levels]
        if identity is None and unit not in ("", "severity"):
            raise ValueError(f"identity must be unaltered's level in {unit}; got None")
    elif identity is not None:
        checks.check_choice("identity", identity, names)
        identity = numbers[names.index(identity)]
    identity = checks.checked_number("identity", identity or 0.0)
    if not {*numbers} - {identity}:
        raise ValueError(f"levels must hold one beside {identity:g}; got {[*levels]}")
    shares = np.ones(len(numbers)) if weights is None else weights
    axes = {"n": len(numbers)}
    shares = checks.checked_array("weights", shares, "n", at_least=0, axes=axes)
    if not shares.any():
        raise ValueError(f"weights must not all be 0; got {weights}")
    given = [_read(f"levels[{key!r}]", one) for key, one in levels.items()]
    texts = names or [f"{one:g}" for one in numbers]
    about = {"levels": ", ".join(texts), "weights": ", ".join(f"{w:g}" for w in shares)}
    rows: list[Any] = [*zip(numbers, given, checks.as_written(shares).tolist(), texts)]
    if identity not in numbers:
        rows.append((identity, None, 0.0, "unaltered"))
    ascending, given, shares, texts = zip(*sorted(rows, key=lambda row: row[0]))
    return Recorded(
        name,
        hashable_partial(_refused, name=name),
        ascending[0],
        ascending[-1],
        identity,
        unit,
        about=About("pictures that exist, none between the levels", about),
        pictures=Pictures(dict(zip(ascending, given)), shares, names and texts),
    )


def recorded_in(folder: str | os.PathLike[str]) -> tuple[Recorded, ...]:
    """The recorded alterations in a folder, as benchmarks are published.

    Example::

        found = jaxrob.alterations.recorded_in("CIFAR-10-C")
        results = jaxrob.assess(classifier, jaxrob.data.cifar10("cifar10"), found)
        print(jaxrob.metrics.mean_corruption_error(results, None))

    Args:
      folder: one of three layouts. Files `gaussian_noise.npy`, ... of severities 1 to 5
        one after another, with `labels.npy` (CIFAR-10-C): an alteration each, paired by
        place. Folders `gaussian_noise/1/class/picture` (ImageNet-C, -C-bar, -3DCC): an
        alteration each; five folders named by numbers are severities 1 to 5 in the
        order of these. Folders of a setting, `10lux/class/picture` or `10lux/picture`:
        one alteration, whose levels have the folders' names, ordered by their numbers.

    Returns:
      The alterations, named as files or folders are, with spaces.

    Raises:
      FileNotFoundError: if there is no such folder.
      ValueError: if it has another layout, or a file is damaged.
    """
    path = checks.checked_path("folder", folder).absolute()
    arrays = [one for one in _visible(path) if one.suffix == ".npy"]
    found = {one: _parts(one) for one in arrays if one.stem != "labels"}
    found = found or {one: _severities(one) for one in _folders(path)}
    if not found:
        raise ValueError(
            f"{path}: expected noise.npy, noise/1/cat/1.png or 10lux/1.png"
        )
    if not all(found.values()):
        return (recorded({one.name: one for one in found}, name=path.name),)
    return tuple(
        recorded(
            dict(enumerate(some, 1)), name=one.stem.replace("_", " "), unit="severity"
        )
        for one, some in found.items()
    )


def paired(alteration: T, dataset: Any) -> T | Recorded:
    """Returns recorded pictures as data sets in the order of the unaltered ones."""
    if not isinstance(alteration, Recorded):
        return alteration
    if not isinstance(dataset, Dataset):
        wanted = "a jaxrob.Dataset, with which recorded pictures can be paired"
        raise wrong_type("dataset", wanted, dataset)
    pictures, about = alteration.pictures, alteration.about
    if pictures._paired and pictures._paired[0] is dataset:
        # The description of new arrays is a new one.
        return dataclasses.replace(pictures._paired[1])
    found, names = dict(pictures.at), dict(zip(pictures.at, pictures.names))
    for level, one in pictures.at.items():
        if one is None:
            continue
        where = f"{alteration.name}: level {names.get(level, f'{level:g}')}"
        if isinstance(one, pathlib.Path):
            one, note = _opened(one, dataset)
            about = dataclasses.replace(about, parameters={**about.parameters, **note})
        found[level] = one = _in_order(where, one, dataset)
        if level == alteration.identity:
            if (np.asarray(one.images[0]) != np.asarray(dataset.images[0])).any():
                raise ValueError(f"{where} is the identity, but its pictures differ")
    new = dataclasses.replace(pictures, at=found, _paired=[])
    again = dataclasses.replace(alteration, about=about, pictures=new)
    new._paired[:] = pictures._paired[:] = dataset, again
    return again


def _refused(*_: Any, name: str) -> NoReturn:
    raise ValueError(
        f"alteration must be a function of an image here; {name} is recorded pictures, "
        "which jaxrob.evaluate and jaxrob.assess read beside their data set"
    )


def _read(place: str, given: Any) -> Dataset | pathlib.Path:
    if isinstance(given, Dataset):
        return given
    path = checks.checked_path(place, given)
    return path if path.is_dir() else Dataset(_array(path), name=path.name)


def _array(path: pathlib.Path) -> np.ndarray:
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except (EOFError, ValueError) as error:
        raise ValueError(f"{path}: not a readable .npy file: {error}") from error


def _parts(path: pathlib.Path) -> list[Dataset]:
    """Returns the severities of a file, which follow one another."""
    images, labels = _array(path), np.array(_array(path.with_name("labels.npy")))
    each, left = divmod(len(images), _NUM_SEVERITIES)
    if left or not each or labels.shape != images.shape[:1]:
        raise ValueError(
            f"{path}: expected as many pictures of each of {_NUM_SEVERITIES} severities"
            f", and in labels.npy a label of each; got the shapes {images.shape} and "
            f"{labels.shape}"
        )
    rows = [slice(at, at + each) for at in range(0, len(images), each)]
    return [Dataset(images[some], labels[some], name=path.name) for some in rows]


def _severities(path: pathlib.Path) -> list[pathlib.Path]:
    found = _folders(path)
    # Numbers below `10lux` may be classes.
    are_classes = _NUMBER.search(path.name) and not any(map(_folders, found))
    are_numbers = all(_NUMBER.fullmatch(one.name) for one in found) and not are_classes
    return found if are_numbers and len(found) == _NUM_SEVERITIES else []


def _folders(path: pathlib.Path) -> list[pathlib.Path]:
    return [one for one in _visible(path) if one.is_dir()]


def _visible(path: pathlib.Path) -> list[pathlib.Path]:
    """Returns what a folder holds, in the order of the numbers in the names."""

    def key(one: pathlib.Path) -> Any:
        return [float(part) for part in _NUMBER.findall(one.name)], one.name

    return sorted((one for one in path.iterdir() if one.name[0] not in "._"), key=key)


def _opened(path: pathlib.Path, dataset: Dataset) -> tuple[Dataset, dict[str, str]]:
    """Reads a folder as the unaltered pictures were, but resizes none twice."""
    reading, shape = dataset._reading or {}, dataset.images.shape[1:]
    asked = dict(reading.get("preparation", {}))
    if "background" in asked:
        asked["background"] = f"#{bytes(asked['background']).hex()}"
    sizing = {key: asked.pop(key) for key in _SIZING if key in asked}
    asked |= {"grey": shape[-1:] == (1,), "max_bytes": 1, "labels": None}
    if dataset._file_names is None and are_classes(dataset.labels):
        asked |= {"labels": FOLDERS, "class_names": dataset.class_names}
    found = image_folder(path, **asked)
    if not sizing or found.images.shape[1:] == shape:
        note = "as stored, not resized or cropped again"
        return found, {"pictures": note} if sizing else {}
    sizing["dct_scaling"] = "decoding" in reading
    return image_folder(path, **asked, **sizing), {}


def _in_order(where: str, one: Dataset, dataset: Dataset) -> Dataset:
    """Returns a level's pictures in the order of the unaltered ones."""
    names: list[Any] = [*range(len(one))]
    wanted: list[Any] = [*range(len(dataset))]
    if one._file_names is not None and dataset._file_names is not None:
        names, wanted = (
            [os.path.splitext(name)[0] for name in some]
            for some in (one._file_names, dataset._file_names)
        )
    lacking, surplus = {*wanted} - {*names}, {*names} - {*wanted}
    if lacking or surplus or not len(names) == len({*names}) == len(wanted):
        how = "by place" if isinstance(wanted[0], int) else "by name without ending"
        such = "".join(f", such as {one}" for one in sorted(lacking or surplus)[:1])
        raise ValueError(
            f"{where} must have one picture for each unaltered one, {how}: "
            f"{len(lacking)} of {len(wanted)} lack theirs, and "
            f"{len(names) - len(wanted) + len(lacking)} belong to none{such}"
        )
    if names != wanted:
        place = {name: at for at, name in enumerate(names)}
        one = one[np.array([place[name] for name in wanted])]
    size, other = one.images.shape[1:], dataset.images.shape[1:]
    if size != other:
        raise ValueError(
            f"{where} must have the unaltered pictures' shape {other}; got {size}. "
            "Read both in one way: jaxrob.data.image_folder(path, resize=, crop=)"
        )
    if None is not one.class_names != dataset.class_names is not None:
        raise ValueError(
            f"{where} must have the unaltered pictures' class_names, in one order: "
            f"{dataset.class_names}; got {one.class_names}"
        )
    labels, those = one.labels, dataset.labels
    if labels is None or those is None or are_classes(labels) != are_classes(those):
        return one
    if digest([labels]) != digest([those]):
        number = sum(object_bytes(a) != object_bytes(b) for a, b in zip(labels, those))
        raise ValueError(
            f"{where} must have the unaltered pictures' labels, in the same order; "
            f"{number} of {len(wanted)} differ"
        )
    return one
