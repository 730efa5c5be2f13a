"""The pictures of `--images`."""

import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import jaxrob
from jaxrob import data
from jaxrob._command.define import Values
from jaxrob._command.refused import Refused

# Flags that apply to one kind of pictures only.
_OF_FOLDERS = (
    "size",
    "resize",
    "crop",
    "interpolation",
    "orientation",
    "channels",
    "dct_scaling",
    "unreadable",
    "max_bytes",
    "background",
    "value_range",
    "slice_at",
)
_OF_ARRAYS = ("images_array", "labels_array")


def load(values: Values, class_names: Sequence[str] | None) -> jaxrob.Dataset:
    """Loads the data set of the flags, evenly subsampled if it has too many images.

    Raises:
      Refused: if a flag does not apply to these pictures.
      ValueError: if a file is damaged or invalid.
      FileNotFoundError: if there is no such file.
      ImportError: if a package that reads the file is not installed.
    """
    name = values.images
    if name in data.NAMES:
        if pathlib.Path(name).exists():
            raise Refused(
                f"--images={name} names a data set, and something here too; say "
                f"--images=./{name} for that"
            )
        kind = "a data set with a name"
        _refuse(values, kind, *_OF_FOLDERS, *_OF_ARRAYS, "class_names", "labels")
        found = data.load(name, "test", values.data_dir)
    elif pathlib.Path(name).suffix.lower() == ".npz":
        _refuse(values, "an .npz file", *_OF_FOLDERS)
        if values.labels not in ("folders", "none"):
            raise Refused(
                f"--labels={values.labels}: the labels of an .npz file are an array in "
                "it, --labels_array, or none"
            )
        labels = None if values.labels == "none" else values.labels_array
        found = data.npz(name, values.images_array, labels, class_names=class_names)
    else:
        _refuse(values, "pictures", *_OF_ARRAYS)
        found = _pictures(values, class_names)
    if values.num_images is None:
        return found
    return found[:: -(-len(found) // values.num_images)]


def class_names(values: Values) -> tuple[str, ...] | None:
    """The names that `--class_names` lists, or those in the file that it names."""
    text = values.class_names
    if text is None:
        return None
    if pathlib.Path(text).exists():
        from jaxrob.data._classes import checked_class_names

        return checked_class_names(text)
    names = tuple(one.strip() for one in text.split(","))
    if len(names) < 2 or not all(names):
        raise Refused(
            f"--class_names={text}: there is no such file; names have commas between "
            "them"
        )
    return names


def _pictures(values: Values, class_names: Sequence[str] | None) -> jaxrob.Dataset:
    labels = None if values.labels == "none" else values.labels
    size, crop = pair(values, "size"), pair(values, "crop")
    if values.resize is not None and size is not None:
        raise Refused("--resize and --size say the same; leave one out")
    if values.resize is not None and crop is None:
        raise Refused(
            "--resize leaves the longer sides as they come; say --crop too, such as "
            f"--crop={values.resize}"
        )
    load = data.image_folder
    if _are_shards(values):
        load = data.tar_shards
        if not values["labels"].present:
            labels = "cls"
    return load(
        values.images,
        size=size,
        grey=values.channels == "grey",
        resize=values.resize,
        crop=crop,
        interpolation=values.interpolation,
        labels=labels,
        class_names=class_names,
        orientation=values.orientation,
        dct_scaling=values.dct_scaling,
        unreadable=values.unreadable,
        max_bytes=values.max_bytes,
        background=values.background,
        value_range=_numbers(values, "value_range", float),
        slice_at=_numbers(values, "slice_at", int),
    )


def _are_shards(values: Values) -> bool:
    """Whether pictures are in shards of WebDataset: by their labels or by the path."""
    if values.labels.partition(":")[0] in ("cls", "json"):
        return True
    path = pathlib.Path(values.images)
    if path.is_dir():
        return any(one.suffix.lower() == ".tar" for one in path.iterdir())
    return not path.exists() and "{" in path.name


def _numbers(values: Values, name: str, kind: Callable[[str], Any]) -> Any:
    """Returns the two numbers of a flag, or None if it is not given."""
    texts = getattr(values, name)
    if texts is None:
        return None
    try:
        first, second = map(kind, texts)
    except ValueError as error:
        raise Refused(
            f"--{name} must be two numbers with a comma between them; got "
            f"{','.join(texts)}"
        ) from error
    return first, second


def pair(values: Values, name: str) -> tuple[int, int] | None:
    """Returns height and width, from a flag of one or two numbers."""
    texts = getattr(values, name)
    if texts is None:
        return None
    if len(texts) not in (1, 2) or not all(
        text.strip().isascii() and text.strip().isdigit() and int(text) > 0
        for text in texts
    ):
        raise Refused(
            f"--{name} must be a height and a width in pixels, such as --{name}=224,224"
            f", or one number for both; got {','.join(texts)}"
        )
    height, width = texts * (3 - len(texts))
    return int(height), int(width)


def _refuse(values: Values, kind: str, *names: str) -> None:
    for name in names:
        if values[name].present:
            raise Refused(
                f"--{name} has no meaning for {kind}, --images={values.images}"
            )
