"""The network and the pictures that the flags name."""

import contextlib
import dataclasses
import hashlib
import inspect
import pathlib
import sys
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

import jaxrob
from jaxrob import data
from jaxrob._classifiers.network import OnHost, on_host
from jaxrob._command import user_code
from jaxrob._command.define import Refused, Values
from jaxrob._devices.host_function import HostFunction

# Of the answers by which networks are told apart: so many outputs, to so many digits.
_OUTPUTS, _DIGITS = 8, 3
_PREPROCESSING = ("scale", "mean", "std", "channels_first")
_OTHERS = {
    ".h5": "save it as .keras: model.save('network.keras')",
    ".hdf5": "save it as .keras: model.save('network.keras')",
    ".pt": "export it by torch.onnx.export, or load it in a file.py:function",
    ".pth": "export it by torch.onnx.export, or load it in a file.py:function",
    ".pb": "convert it by tf2onnx, or load it in a file.py:function",
    ".tflite": "convert it by tf2onnx, or load it in a file.py:function",
    ".py": "say which function in it: --classifier=file.py:function",
}


def load_network(
    values: Values, class_names: Sequence[str] | None
) -> jaxrob.Classifier:
    text = values.classifier
    if user_code.is_code(text):
        return _from_code(text, values, class_names)
    path = pathlib.Path(text)
    makers = {
        ".onnx": jaxrob.Classifier.from_onnx,
        ".keras": jaxrob.Classifier.from_keras,
    }
    suffix = path.suffix.lower()
    if suffix not in makers:
        hint = _OTHERS.get(suffix, "it must be .onnx, .keras or file.py:function")
        raise Refused(f"--classifier={text}: {hint}")
    return makers[suffix](
        text,
        values.outputs,
        preprocessing=_preprocessing(values),
        name=values.name or path.name,
        class_names=class_names,
    )


def identified(
    classifier: jaxrob.Classifier, text: str, image_shape: tuple[int, ...]
) -> jaxrob.Classifier:
    """Adds a function's version: a digest of its file, what that read, and answers."""
    network = on_host(classifier.apply_fn)
    if network is None or not network.function.name or network.function.version:
        return classifier
    parts = [*user_code.digests(text), _answers(network, image_shape)]
    version = f"sha256:{hashlib.sha256(repr(parts).encode()).hexdigest()}"
    function = dataclasses.replace(network.function, version=version)
    return dataclasses.replace(
        classifier, apply_fn=dataclasses.replace(network, function=function)
    )


def _answers(network: OnHost, image_shape: tuple[int, ...]) -> str:
    """Returns outputs on fixed noise in words; "" if they are not always the same."""
    noise = np.random.default_rng(0).random((2, *image_shape), np.float32)
    images = np.asarray(network.preprocessing(jnp.asarray(noise)))
    outputs, again = (network.function(images)[:, :_OUTPUTS] for _ in range(2))
    if not np.array_equal(outputs, again, equal_nan=True):
        return ""
    # Other machines round differently, by far less.
    largest = np.abs(outputs[np.isfinite(outputs)]).max(initial=0) or 1
    rounded = np.round(outputs / largest, _DIGITS) + 0.0
    return f"{largest:.{_DIGITS - 1}e} {rounded.tolist()}"


def _preprocessing(values: Values) -> jaxrob.Preprocessing:
    names = "scale", "mean", "std"
    given: Any = {one: _numbers(values, one) for one in names if values[one].present}
    return jaxrob.Preprocessing(**given, channels_first=values.channels_first)


def _from_code(
    text: str, values: Values, class_names: Sequence[str] | None
) -> jaxrob.Classifier:
    found: Any = user_code.load(text, "classifier")
    if inspect.isroutine(found) and not user_code.parameters(found):
        with user_code.reading(text):
            found = found()
    if isinstance(found, jaxrob.Classifier):
        refused = [one for one in (*_PREPROCESSING, "outputs") if values[one].present]
        if refused:
            raise Refused(
                f"--{refused[0]}: {text} is a jaxrob.Classifier, which says that itself"
            )
        names = found.class_names if class_names is None else tuple(class_names)
        name = values.name or found.name
        return dataclasses.replace(found, name=name, class_names=names)
    for module, kind, make in (
        ("torch.nn", "Module", jaxrob.Classifier.from_torch),
        ("keras", "Model", jaxrob.Classifier.from_keras),
    ):
        known = getattr(sys.modules.get(module), kind, None)
        if known is not None and isinstance(found, known):
            return make(
                found,
                values.outputs,
                preprocessing=_preprocessing(values),
                name=values.name,
                class_names=class_names,
            )
    if (
        not callable(found)
        or inspect.isclass(found)
        or len(user_code.parameters(found)) != 1
    ):
        raise Refused(
            f"--classifier={text}: it must be a function of images [B, H, W, C], a "
            "NumPy array in [0, 1], that returns [B, K]; or a jaxrob.Classifier, a "
            "module of torch or Keras, or a function without parameters that returns "
            f"one of these; got {type(found).__name__}"
        )
    # As `from_host`, with classes that the function tells; `identified` adds a version.
    function: Any = found
    name = values.name or f"{user_code.path_of(text).name}:{text.rpartition(':')[2]}"
    return jaxrob.Classifier(
        OnHost(
            HostFunction(function, None, name), _preprocessing(values).laid_out(False)
        ),
        (),
        values.outputs or "logits",
        name=name,
        class_names=None if class_names is None else tuple(class_names),
    )


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
    "groups",
    "slices",
)


_OF_ARRAYS = ("images_array", "labels_array")


def load_images(values: Values, class_names: Sequence[str] | None) -> jaxrob.Dataset:
    """Loads the data set of the flags, evenly subsampled if it has too many images."""
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
    load_images, table = data.image_folder, {}
    for name in ("groups", "slices"):
        if values[name].present and not pathlib.Path(values.labels).is_file():
            raise Refused(
                f"--{name} names columns of a CSV file of labels; say --labels=FILE.csv"
            )
    if values.groups is not None or values.slices is not None:
        table = {"metadata": values.slices or (), "groups": values.groups}
    elif _are_shards(values):
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
        value_range=_numbers(values, "value_range", float, 2),
        slice_at=_numbers(values, "slice_at", int, 2),
        **table,
    )


def _are_shards(values: Values) -> bool:
    """Whether pictures are in shards of WebDataset: by their labels or by the path."""
    if values.labels.partition(":")[0] in ("cls", "json"):
        return True
    path = pathlib.Path(values.images)
    if path.is_dir():
        return any(one.suffix.lower() == ".tar" for one in path.iterdir())
    return not path.exists() and "{" in path.name


def _numbers(values: Values, name: str, kind: Any = float, number: int = 0) -> Any:
    if (texts := getattr(values, name)) is None:
        return None
    with contextlib.suppress(ValueError):
        if number in (0, len(texts)):
            return [kind(text) for text in texts]
    wanted = "two numbers" if number else "a number, or one for each channel,"
    raise Refused(
        f"--{name} must be {wanted} with commas between them; got {','.join(texts)}"
    )


def pair(values: Values, name: str) -> tuple[int, int] | None:
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
