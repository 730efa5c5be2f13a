"""The subject of an assessment: a network and pictures."""

import dataclasses
import pathlib
import re
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

import jaxrob
from jaxrob import data
from jaxrob._arguments.texts import counted
from jaxrob._arguments.warnings import computing, was_computing
from jaxrob._classifiers.network import OnHost, Preprocessed, on_host
from jaxrob._command.define import Values
from jaxrob._command.network import identified, load_network
from jaxrob._command.refused import Refused
from jaxrob._dataset import check_labels_below
from jaxrob._engine.evaluate import UNALTERED

# The epochs in which a small network learns the digits to an accuracy of 95 %.
_EPOCHS = 20


class Subject(NamedTuple):
    """A network and the pictures that it is assessed on."""

    classifier: jaxrob.Classifier  # The network
    dataset: jaxrob.Dataset  # The pictures

    @property
    def name(self) -> str:
        """The network's name."""
        return self.classifier.name or "network"

    @property
    def class_names(self) -> tuple[str, ...] | None:
        """The names of the classes, if the network or the pictures define them."""
        return self.classifier.class_names or self.dataset.class_names


def load_subject(values: Values) -> Subject:
    """Loads the network and the pictures of the flags, and checks them together.

    Raises:
      Refused: if they do not go together.
      ValueError: if a file is invalid; and as `load_network`.
    """
    if values.classifier is None:
        return _digits(values)
    if values.images is None:
        raise Refused(
            "--images must say which pictures: a folder, an archive, an .npz file, or "
            "digits"
        )
    names = read_class_names(values)
    classifier = load_network(values, names)
    dataset = load_images(values, names)
    found = Subject(classifier, dataset)
    _check(found)
    shape = dataset.images.shape[1:]
    return Subject(identified(classifier, values.classifier, shape), dataset)


def journal_of(values: Values, kind: str, subject: Subject) -> str | None:
    """Returns the journal of a kind of work, in the folder that `--journal` names."""
    if values.journal is None:
        return None
    folder = pathlib.Path(values.journal)
    folder.mkdir(parents=True, exist_ok=True)
    name = re.sub(r"[^\w.]+", "-", f"{kind}-{subject.name}")
    return str(folder / f"{name}.journal")


def announce(subject: Subject) -> None:
    """Prints the network, the pictures and the device."""
    kind = jax.devices()[0].device_kind
    height, width, channels = subject.dataset.images.shape[1:]
    print(
        f"{subject.name} on {subject.dataset.name}: "
        f"{counted(len(subject.dataset), 'image')} of {height} x {width} x {channels}, "
        f"on {kind}",
        flush=True,
    )


def _digits(values: Values) -> Subject:
    """Returns the embedded digits, and a network trained on others of them."""
    for name in ("images", "outputs", "scale", "mean", "std", "channels_first"):
        if values[name].present and values[name].value != "digits":
            raise Refused(f"--{name} needs --classifier, the network it belongs to")
    values["images"].value = "digits"
    from jaxrob import networks, training

    dataset = load_images(values, None)
    print("training a small network on the embedded digits", flush=True)
    with computing():
        classifier = training.fit(
            networks.MLP(),
            data.digits("train"),
            key=jax.random.key(values.seed),
            epochs=_EPOCHS,
        )
    name = values.name or "small network trained on digits/train"
    return Subject(dataclasses.replace(classifier, name=name), dataset)


def _check(subject: Subject) -> None:
    """Rejects a network and pictures that do not go together, by the flags' names."""
    classifier, dataset = subject
    height, width, channels = shape = dataset.images.shape[1:]
    size = _size(classifier)
    if size not in (None, (height, width)):
        raise Refused(
            f"{subject.name} takes images of {size[0]} x {size[1]} pixels; "
            f"{dataset.name} has {height} x {width}. Say --size={size[0]},{size[1]}, "
            "or --resize and --crop"
        )
    try:
        num_classes = classifier.num_classes(shape)
    except ValueError as error:
        other, flag = (1, "grey") if channels == 3 else (3, "rgb")
        if _takes(classifier, (height, width, other)):
            raise Refused(
                f"{subject.name} takes pictures that are {flag}, of channels: {other}; "
                f"{dataset.name} has {channels}. Say --channels={flag}"
            ) from error
        raise
    if dataset.labels is not None:
        _check_classes(subject, num_classes)
        check_labels_below(
            np.asarray(dataset.labels), num_classes, "labels", dataset.class_names
        )


def _check_classes(subject: Subject, num_classes: int) -> None:
    """Rejects a number of class names other than that of the outputs."""
    names = subject.dataset.class_names
    if names is None or len(names) == num_classes:
        return
    beyond = ", ".join(map(repr, names[num_classes:][:10]))
    which = f", so that it has no output for {beyond}" if beyond else ""
    raise Refused(
        f"{subject.name} returns {num_classes} classes, but {subject.dataset.name} has "
        f"{len(names)}: {', '.join(names[:10])}{which}. Say --class_names, all of the "
        "network's classes in order, or take away the folders of others; or, if they "
        "are not its classes, --labels=none"
    )


def _size(classifier: jaxrob.Classifier) -> tuple[int, int] | None:
    """Returns the image size that a network requires, or None."""
    function: Any = on_host(classifier.apply_fn) or classifier.apply_fn
    if isinstance(function, Preprocessed | OnHost):
        size: Any = function.preprocessing.size
        return size
    return None


def _takes(classifier: jaxrob.Classifier, shape: tuple[int, ...]) -> bool:
    try:
        classifier.num_classes(shape)
    except ValueError:
        return False
    return True


_FEW = 16


def first_look(subject: Subject, seed: int) -> None:
    """Rejects a network whose outputs are NaN, or not what `--outputs` declares."""
    classifier, dataset = subject
    # From all over the data, because sorted folders start with one class.
    few = np.unique(np.linspace(0, len(dataset) - 1, _FEW).astype(int))
    key = jax.random.key(seed)
    try:
        with warnings.catch_warnings():
            # They come again from the work itself.
            warnings.simplefilter("ignore", jaxrob.RobustnessWarning)
            jaxrob.evaluate(classifier, dataset[few], UNALTERED, [0.0], key=key)
    except ValueError as error:
        if not was_computing(error):
            raise
        found = f"{subject.name}, unaltered: {error}"
        if classifier.outputs in ("probabilities", "sigmoid"):
            about = f"--outputs={classifier.outputs}: {found}, or --outputs=scores"
            raise Refused(about) from error
        raise FloatingPointError(
            f"{found}. Look at the network, and at what it expects (--scale, --mean, "
            "--std)"
        ) from error


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


def load_images(values: Values, class_names: Sequence[str] | None) -> jaxrob.Dataset:
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


def read_class_names(values: Values) -> tuple[str, ...] | None:
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
    load_images = data.image_folder
    if _are_shards(values):
        load_images = data.tar_shards
        if not values["labels"].present:
            labels = "cls"
    return load_images(
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
