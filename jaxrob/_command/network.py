"""The network of `--classifier`."""

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
from jaxrob._classifiers.network import OnHost, on_host
from jaxrob._command import user_code
from jaxrob._command.define import Values
from jaxrob._command.refused import Refused
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
    """Loads the classifier that the flags describe.

    Raises:
      Refused: if the file type is not supported, or a flag contradicts the file.
      ValueError: if the file is invalid.
      FileNotFoundError: if there is no such file.
      ImportError: if a package that reads the file is not installed.
    """
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
    """Returns a classifier of `load` with the version of a function in a user's file.

    Journals and results tell networks apart by it. It is a digest of the file, of the
    files that it read as it was loaded, and of answers, which also depend on what it
    reads later or by other languages.
    """
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
    return jaxrob.Preprocessing(
        _numbers(values, "scale", 1.0),
        _numbers(values, "mean", 0.0),
        _numbers(values, "std", 1.0),
        values.channels_first,
    )


def _numbers(values: Values, name: str, otherwise: float) -> list[float]:
    texts = getattr(values, name)
    if texts is None:
        return [otherwise]
    try:
        return [float(text) for text in texts]
    except ValueError as error:
        raise Refused(
            f"--{name} must be a number, or one for each channel with commas between "
            f"them; got {','.join(texts)}"
        ) from error


def _from_code(
    text: str, values: Values, class_names: Sequence[str] | None
) -> jaxrob.Classifier:
    """Makes the classifier of a user's file: a classifier, a module, or a function."""
    found: Any = user_code.load(text, "classifier")
    if inspect.isroutine(found) and not user_code.parameters(found):
        with user_code.reading(text):
            found = found()
    if isinstance(found, jaxrob.Classifier):
        refused = [
            name for name in (*_PREPROCESSING, "outputs") if values[name].present
        ]
        if refused:
            raise Refused(
                f"--{refused[0]}: {text} is a jaxrob.Classifier, which says that itself"
            )
        return _named(found, values.name, class_names)
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
    # As `Classifier.from_host`, but the classes are inferred from the function. Its
    # version is missing, see `identified`.
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


def _named(
    classifier: jaxrob.Classifier, name: str | None, class_names: Sequence[str] | None
) -> jaxrob.Classifier:
    names = classifier.class_names if class_names is None else tuple(class_names)
    return dataclasses.replace(
        classifier, name=name or classifier.name, class_names=names
    )
