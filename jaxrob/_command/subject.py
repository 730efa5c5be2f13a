"""The subject of an assessment: a network and pictures."""

import dataclasses
import pathlib
import re
from typing import Any, NamedTuple

import jax
import numpy as np

import jaxrob
from jaxrob import data
from jaxrob._adapters.network import OnHost, Preprocessed, on_host
from jaxrob._arguments.computing import computing
from jaxrob._arguments.texts import counted
from jaxrob._command import images, network
from jaxrob._command.define import Values
from jaxrob._command.refused import Refused
from jaxrob._dataset import check_labels_below

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


def load(values: Values) -> Subject:
    """Loads the network and the pictures of the flags, and checks them together.

    Raises:
      Refused: if they do not go together.
      ValueError: if a file is invalid; and as `network.load`.
    """
    if values.classifier is None:
        return _digits(values)
    if values.images is None:
        raise Refused(
            "--images must say which pictures: a folder, an archive, an .npz file, or "
            "digits"
        )
    names = images.class_names(values)
    classifier = network.load(values, names)
    dataset = images.load(values, names)
    found = Subject(classifier, dataset)
    _check(found)
    shape = dataset.images.shape[1:]
    return Subject(network.identified(classifier, values.classifier, shape), dataset)


def journal(values: Values, kind: str, subject: Subject) -> str | None:
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

    dataset = images.load(values, None)
    print("training a small network on the embedded digits", flush=True)
    with computing():
        classifier = training.fit(
            networks.MLP(),
            data.digits("train"),
            key=jax.random.key(values.seed),
            epochs=_EPOCHS,
        )
    name = values.name or "small network trained on the spot"
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
