"""Alterations of pictures that exist: a benchmark's files, one's own recordings."""

import dataclasses
import functools
import os
import pathlib
import re
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, TypeVar

import numpy as np

from jaxrob._arguments.checks import (
    check_choice,
    check_type,
    checked_array,
    checked_number,
    checked_path,
    checked_text,
)
from jaxrob._arguments.messages import named, wrong_type
from jaxrob._dataset import Dataset, are_classes
from jaxrob._identity.identity import digest, hashable_partial
from jaxrob._stored_images import StoredImages
from jaxrob.alterations._alteration import About, Alteration
from jaxrob.data._decode import SUFFIXES
from jaxrob.data._image_folder import FOLDERS, image_folder

T = TypeVar("T")

_NUM_SEVERITIES = 5
_SIZING = ("size", "resize", "crop", "interpolation")


@dataclasses.dataclass(frozen=True, eq=False)
class Pictures:
    """Data sets or folders by level, ascending, and what each level counts."""

    at: Mapping[float, Any] = dataclasses.field(compare=False)
    weights: tuple[float, ...]
    # The data set that they were last paired with, and what came of it.
    _paired: list[Any] = dataclasses.field(default_factory=list, compare=False)


@dataclasses.dataclass(frozen=True)
class Recorded(Alteration):
    """An alteration that is read, not computed, see `recorded`."""

    pictures: Pictures = Pictures({}, ())

    def __post_init__(self) -> None:
        super().__post_init__()
        if getattr(self.fn, "function", None) is not _refused:
            _refused(None, None, self.name)  # Made into another alteration.

    @functools.cached_property
    def description(self) -> str:
        """As of an `Alteration`, with a digest of the pictures."""
        parts: list[Any] = []
        for level, given in self.pictures.at.items():
            images = getattr(given, "images", str(given))
            is_stored = isinstance(images, StoredImages)
            parts += [repr(level), images.fingerprint() if is_stored else images]
        return f"{super().description}: {digest(parts)}"

    @property
    def listed(self) -> tuple[float, ...]:
        """All levels that can be looked at, ascending; the identity is one."""
        return tuple(sorted({self.identity, *self.pictures.at}))

    @property
    def weights(self) -> np.ndarray:
        """What each of `listed` counts, float64 `[L]`."""
        known = dict(zip(self.pictures.at, self.pictures.weights))
        return np.array([known.get(level, 0.0) for level in self.listed])

    def at(self, level: float) -> Dataset | None:
        """Returns a level's pictures, None for the unaltered ones; once `paired`."""
        return None if level == self.identity else self.pictures.at[level]

    def canonical(self, levels: np.ndarray) -> np.ndarray:
        """As of an `Alteration`; a level without pictures is a ValueError."""
        levels = super().canonical(levels)
        if len(others := levels[~np.isin(levels, self.listed)]):
            there = ", ".join(f"{level:g}" for level in self.listed)
            raise ValueError(
                f"{self.name}: levels must be those recorded, {there}: there are no "
                f"pictures between them; got {others.flat[0]:g}"
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
    the levels listed that are good enough, and nothing is interpolated.

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
    (`jaxrob.data.image_folder`: `resize=`, `crop=`, `grey=`), but pictures that have
    the final size already are not resized again.

    Args:
      levels: the pictures by level. Levels are numbers, or names in their order, which
        become 1, 2, ... Pictures are a `jaxrob.Dataset`, the path of a folder, whose
        pictures are read when they are needed, or of a `.npy` file `[N, H, W, C]`.
      name: the alteration's name in reports.
      unit: the unit of the levels, "severity" for those of a benchmark.
      identity: the level of the unaltered pictures, which are evaluated too but count
        only if they are listed: by default 0, where the levels are severities, names or
        have no unit.
      weights: what the levels count in the robustness, in their order; by default all
        the same.

    Raises:
      FileNotFoundError: if there is nothing at a path.
      TypeError: if an argument has a wrong type.
      ValueError: if there is no level beside the identity, a number is not finite, the
        identity is missing, weights are negative, all 0 or not as many as levels, or a
        file is damaged. Pairs are looked at in `evaluate` and `assess`.
    """
    check_type("levels", levels, Mapping, "a mapping of levels to pictures")
    checked_text("unit", unit, may_be_empty=True)
    if not levels:
        raise ValueError("levels must hold pictures of at least one level; got none")
    names = [*levels] if all(isinstance(one, str) for one in levels) else []
    numbers = [checked_number("levels", n) for n in (levels if not names else ())]
    if names:
        numbers = [float(at) for at in range(1, 1 + len(names))]
        if identity is not None:
            check_choice("identity", identity, names)
            identity = numbers[names.index(identity)]
    elif identity is None and unit not in ("", "severity"):
        raise ValueError(
            f"identity must say at how many {unit} the unaltered pictures are; got None"
        )
    identity = checked_number("identity", 0.0 if identity is None else identity)
    if {*numbers} == {identity}:
        raise ValueError(f"levels must hold another than the identity {identity:g}")
    shares = np.ones(len(numbers)) if weights is None else weights
    shares = checked_array("weights", shares, "n", at_least=0, axes={"n": len(numbers)})
    if not shares.any():
        raise ValueError("weights must be above 0 for at least one level; got zeros")
    given = [_checked_pictures(key, one) for key, one in levels.items()]
    order = np.argsort(numbers)
    texts = [f"{one:g}" for one in numbers]
    said = [f"{text} {one}" for text, one in zip(texts, names)] or texts
    about = {"levels": ", ".join(said[at] for at in order)}
    if weights is not None:
        about["weights"] = ", ".join(f"{shares[at]:g}" for at in order)
    return Recorded(
        name,
        hashable_partial(_refused, name=name),
        min(*numbers, identity),
        max(*numbers, identity),
        identity,
        unit,
        about=About("pictures that exist, none between the levels", about),
        pictures=Pictures(
            {numbers[at]: given[at] for at in order}, tuple(shares[order].tolist())
        ),
    )


def recorded_in(folder: str | os.PathLike[str]) -> tuple[Recorded, ...]:
    """The recorded alterations in a folder, as benchmarks are published.

    Example::

        found = jaxrob.alterations.recorded_in("CIFAR-10-C")
        results = jaxrob.assess(classifier, jaxrob.data.cifar10("cifar10"), found)
        print(jaxrob.metrics.mean_corruption_error(results, None))

    Args:
      folder: one of three layouts. Files `gaussian_noise.npy`, ... of severities 1 to 5
        one after another, with `labels.npy` (CIFAR-10-C and others): an alteration
        each, paired by place. Folders `gaussian_noise/1/class/picture` (ImageNet-C,
        -C-bar, -3DCC): an alteration each, whose five lowest folders in the order of
        their numbers are severities 1 to 5. Folders of a setting each,
        `10lux/class/picture` or `10lux/picture`: one alteration, whose levels have the
        folders' names, in the order of the numbers in them.

    Returns:
      The alterations, named as files or folders are, with spaces.

    Raises:
      FileNotFoundError: if there is no such folder.
      ValueError: if it has another layout, or a file is damaged.
    """
    path = checked_path("folder", folder)
    if not path.is_dir():
        raise FileNotFoundError(f"{path}: expected a folder of recorded pictures there")
    there = _visible(path)
    arrays = [one for one in there if one.suffix == ".npy" and one.stem != "labels"]
    if arrays:
        return tuple(_of_array(one, path / "labels.npy") for one in arrays)
    folders = [one for one in there if one.is_dir()]
    depth = _depth(path)
    if depth == 4:
        return tuple(map(_of_severities, folders))
    if depth not in (2, 3):
        raise ValueError(
            f"{path}: expected .npy files of severities, or folders of a corruption, a "
            "severity and classes (noise/1/cat/1.png), or of a setting (10lux/1.png)"
        )
    levels = {one.name: one for one in folders}
    return (recorded(levels, name=_name(path.absolute())),)


def paired(alteration: T, dataset: Any) -> T | Recorded:
    """Returns recorded pictures as data sets in the order of the unaltered ones."""
    if not isinstance(alteration, Recorded):
        return alteration
    if not isinstance(dataset, Dataset):
        raise TypeError(
            "dataset must be a jaxrob.Dataset beside recorded pictures, so that they "
            f"can be paired; got {named(dataset)}"
        )
    known = alteration.pictures._paired
    if known and known[0] is dataset:
        return known[1]
    about, found = alteration.about, {}
    for level, given in alteration.pictures.at.items():
        where, one = f"{alteration.name}: level {level:g}", given
        if isinstance(one, pathlib.Path):
            one, note = _opened(one, dataset)
            more = {**about.parameters, "pictures": note}
            about = dataclasses.replace(about, parameters=more) if note else about
        found[level] = one = _in_order(where, one, dataset)
        if level == alteration.identity and not np.array_equal(
            np.asarray(one.images[0]), np.asarray(dataset.images[0])
        ):
            raise ValueError(
                f"{where} is the identity, so its pictures must be the unaltered "
                "ones; the first one differs"
            )
    pictures = Pictures(found, alteration.pictures.weights)
    known[:] = dataset, dataclasses.replace(alteration, about=about, pictures=pictures)
    pictures._paired[:] = known
    return known[1]


def _refused(image: Any, level: Any, name: str) -> NoReturn:
    del image, level
    raise ValueError(
        f"alteration must be a function of an image here; {name} is recorded pictures, "
        "which jaxrob.evaluate and jaxrob.assess read beside their data set"
    )


def _checked_pictures(level: Any, given: Any) -> Dataset | pathlib.Path:
    place = f"levels[{level!r}]"
    if isinstance(given, Dataset):
        return given
    if not isinstance(given, str | os.PathLike):
        raise wrong_type(place, "a jaxrob.Dataset, or a path", given)
    path = checked_path(place, given)
    if path.is_dir():
        return path
    if not path.is_file():
        raise FileNotFoundError(f"{path}: expected a folder or a .npy file there")
    return Dataset(_array(path), name=path.name)


def _array(path: pathlib.Path) -> np.ndarray:
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except (EOFError, ValueError) as error:
        raise ValueError(f"{path}: not a readable .npy file: {error}") from error


def _of_array(path: pathlib.Path, labels_path: pathlib.Path) -> Recorded:
    images, labels = _array(path), None
    each, left = divmod(len(images), _NUM_SEVERITIES)
    if labels_path.exists():
        labels = np.array(_array(labels_path))
    if left or not each or (labels is not None and labels.shape != images.shape[:1]):
        raise ValueError(
            f"{path}: expected as many pictures of each of {_NUM_SEVERITIES} severiti"
            f"es, and a label of each in labels.npy; got the shape {images.shape}"
        )
    levels = {}
    for severity in range(1, 1 + _NUM_SEVERITIES):
        rows = slice((severity - 1) * each, severity * each)
        some = None if labels is None else labels[rows]
        levels[severity] = Dataset(images[rows], some, name=path.name)
    return recorded(levels, name=_name(path), unit="severity")


def _of_severities(path: pathlib.Path) -> Recorded:
    folders = [one for one in _visible(path) if one.is_dir()]
    names = [one.name for one in folders]
    if len(names) != _NUM_SEVERITIES or not all(one[:1].isdecimal() for one in names):
        raise ValueError(
            f"{path}: expected folders of {_NUM_SEVERITIES} severities, named by "
            f"numbers; got {', '.join(names)}"
        )
    return recorded(dict(enumerate(folders, 1)), name=_name(path), unit="severity")


def _visible(path: pathlib.Path) -> list[pathlib.Path]:
    """Returns what a folder holds, in the order of the numbers in the names."""

    def key(one: pathlib.Path) -> list[Any]:
        parts = re.split(r"(\d+(?:\.\d+)?)", one.name)
        return [float(part) if at % 2 else part for at, part in enumerate(parts)]

    return sorted((one for one in path.iterdir() if one.name[0] not in "._"), key=key)


def _depth(path: pathlib.Path) -> int:
    """Returns how many parts the path of the first picture below a folder has."""
    for place, _, names in os.walk(path):
        if any(name.lower().endswith(SUFFIXES) for name in names):
            return len(pathlib.Path(place).relative_to(path).parts) + 1
    return 0


def _name(path: pathlib.Path) -> str:
    return path.name.removesuffix(".npy").replace("_", " ")


def _opened(path: pathlib.Path, dataset: Dataset) -> tuple[Dataset, str]:
    """Reads a folder as the unaltered pictures were, but resizes none twice."""
    reading, shape = dataset._reading or {}, dataset.images.shape[1:]
    asked: dict[str, Any] = {
        key: tuple(one) if isinstance(one, list) else one
        for key, one in reading.get("preparation", {}).items()
    }
    sizing = {key: asked.pop(key) for key in _SIZING if key in asked}
    asked |= {"grey": shape[-1:] == (1,), "max_bytes": 1, "labels": None}
    if dataset._file_names is None and are_classes(dataset.labels):
        asked |= {"labels": FOLDERS, "class_names": dataset.class_names}
    found = image_folder(path, **asked)
    if not sizing or found.images.shape[1:] == shape:
        size = " x ".join(map(str, shape[:2]))
        return found, f"{size} as stored, not resized or cropped" * bool(sizing)
    sizing["dct_scaling"] = "decoding" in reading
    return image_folder(path, **asked, **sizing), ""


def _in_order(where: str, one: Dataset, dataset: Dataset) -> Dataset:
    """Returns a level's pictures in the order of the unaltered ones."""
    if one._file_names is not None and dataset._file_names is not None:
        order = _order(where, one._file_names, dataset._file_names)
        if (order != np.arange(len(order))).any():
            one = one[order]
    elif len(one) != len(dataset):
        raise ValueError(
            f"{where} must have as many pictures as the unaltered ones, with which "
            f"they are paired by place; got {len(one)} and {len(dataset)}"
        )
    size, wanted = one.images.shape[1:], dataset.images.shape[1:]
    if size != wanted:
        raise ValueError(
            f"{where} must have pictures of the unaltered ones' shape {wanted}; got "
            f"{size}. Read both in one way: jaxrob.data.image_folder(path, resize=, "
            "crop=), or pass folders"
        )
    labels, others = _classes(one, dataset), _classes(dataset, one)
    if labels is not None and others is not None and (labels != others).any():
        (differ,) = np.nonzero(labels != others)
        raise ValueError(
            f"{where} must have the labels of the unaltered pictures; {len(differ)} of "
            f"{len(labels)} differ, first that of picture {differ[0]}. Are both in one "
            "order?"
        )
    return one


def _order(where: str, names: np.ndarray, unaltered: np.ndarray) -> np.ndarray:
    place = {os.path.splitext(name)[0]: at for at, name in enumerate(names)}
    wanted = [os.path.splitext(name)[0] for name in unaltered]
    lacking = [name for name in wanted if name not in place]
    surplus = sorted(place.keys() - {*wanted})
    if lacking or surplus or not len(names) == len(place) == len(wanted):
        such = f", such as {(lacking or surplus)[0]}" * bool(lacking or surplus)
        raise ValueError(
            f"{where} must have one picture of the name of each unaltered one; "
            f"{len(lacking)} of {len(wanted)} lack theirs, and "
            f"{len(names) - len(wanted) + len(lacking)} pictures are too many{such}"
        )
    return np.array([place[name] for name in wanted])


def _classes(one: Dataset, beside: Dataset) -> np.ndarray | None:
    """Returns labels as names, where both data sets name their classes."""
    if one.labels is None or not are_classes(one.labels):
        return None
    if one.class_names is None or beside.class_names is None:
        return one.labels
    return np.array(one.class_names)[one.labels]
