"""Keras models: inside the step on the JAX backend, otherwise on the host."""

import contextlib
import copy
import dataclasses
import os
import re
import sys
from typing import Any, NamedTuple

import numpy as np

from jaxrob._adapters.code import class_parts
from jaxrob._adapters.keras_file import load_keras
from jaxrob._adapters.preprocessing import Preprocessed
from jaxrob._arguments.checks import check_type
from jaxrob._arguments.class_outputs import (
    IF_NO_CLASSES,
    class_outputs,
    with_arrays,
)
from jaxrob._arguments.extra import required
from jaxrob._identity.digest import digest

_PURPOSE = "Classifier.from_keras"
# The last layer's activation, and the kind of outputs that it returns.
_ACTIVATIONS = {
    "softmax": "probabilities",
    "sigmoid": "sigmoid",
    "hard_sigmoid": "sigmoid",
    "log_softmax": "logits",
    "linear": "logits",
}
# Layers that do not change the kind of outputs.
_PASS_THROUGH = ("Dropout", "Flatten", "Reshape", "Identity")


class KerasNetwork(NamedTuple):
    """A Keras model and its properties.

    Attributes:
      model: a copy of it; on JAX the model itself.
      outputs: the kind of outputs by its last layer, None if unknown.
      num_classes: K, None if unknown.
      digest: that of its layers and weights; None on JAX, where it is traced.
      backend: "jax", or another backend's name.
    """

    model: Any
    outputs: str | None
    num_classes: int | None
    digest: str | None
    backend: str


@dataclasses.dataclass(frozen=True)
class KerasStep:
    """A model on the JAX backend, as a pure function of its variables' values.

    Instances of the same model are equal, and share compiled programs.

    Attributes:
      model: the model itself, since each copy would be recompiled.
      variables: its variables.
      layers: its layers, each with its settings, which must not change.
    """

    model: Any
    variables: tuple[Any, ...] = dataclasses.field(compare=False)
    layers: tuple[tuple[Any, str], ...] = dataclasses.field(compare=False)

    def __call__(self, values: list[Any], images: Any) -> Any:
        check_layers(self)
        keras = required("keras", _PURPOSE, "keras")
        # Not `stateless_call`, which fails after layers are frozen or unfrozen.
        given = list(zip(self.variables, values, strict=True))
        with keras.StatelessScope(state_mapping=given):
            return self.model(images, training=False)


@dataclasses.dataclass(frozen=True, eq=False)
class KerasRun:
    """A model on another backend, as a function from arrays to arrays."""

    model: Any
    is_any: bool = False

    def __call__(self, images: np.ndarray) -> Any:
        keras = required("keras", _PURPOSE, "keras")
        returned = self.model(images, training=False)
        if self.is_any:
            return with_arrays(returned, lambda tensor: _numbers(keras, tensor))
        return _numbers(keras, class_outputs("the Keras model", returned, len(images)))


def read_keras(model: Any, is_any: bool = False) -> KerasNetwork:
    """Reads a Keras model or a `.keras` file."""
    keras = _keras()
    backend = keras.backend.backend()
    if isinstance(model, str) or hasattr(model, "__fspath__"):
        own = load_keras(keras, model)
    else:
        wanted = "a keras.Model or the path of a .keras file"
        check_type("model", model, keras.Model, wanted)
        _check_built(model)
        # On JAX its values are copied later, and changed layers are rejected.
        own = model if backend == "jax" else _copied(keras, model)
    for what in ("inputs",) if is_any else ("inputs", "outputs"):
        number = len(getattr(own, what, None) or [None])
        if number != 1:
            hint = f". {IF_NO_CLASSES}" * (what == "outputs")
            raise ValueError(f"model must have one of {what}; got {number}{hint}")
    shape = getattr(own, "output_shape", None)
    is_plain = isinstance(shape, tuple) and len(shape) == 2
    return KerasNetwork(
        own,
        _activation(own),
        shape[1] if isinstance(shape, tuple) and is_plain else None,
        None if backend == "jax" else _digest(keras, own),
        backend,
    )


def jax_step(model: Any) -> tuple[KerasStep, list[Any]]:
    """Returns a JAX-backend model as a function of its variables, and their values."""
    variables = tuple(model.variables)
    step = KerasStep(model, variables, _layer_settings(model))
    return step, [variable.value for variable in variables]


def check_layers(apply_fn: Any) -> None:
    """Rejects a model on the JAX backend that has changed since it was wrapped."""
    step = apply_fn.function if isinstance(apply_fn, Preprocessed) else apply_fn
    if isinstance(step, KerasStep) and _layer_settings(step.model) != step.layers:
        raise ValueError(
            f"the Keras model {step.model.name} was changed after it was given: a "
            "layer was added, removed or replaced, or a setting of one is another. "
            "Make the classifier anew: jaxrob.Classifier.from_keras(model)"
        )


def _layer_settings(model: Any) -> tuple[tuple[Any, str], ...]:
    """Returns a model's layers, each with its settings as text."""
    found = []
    for layer in getattr(model, "_flatten_layers", list)():
        settings = None
        if not getattr(layer, "layers", None):  # Inner layers follow by themselves.
            # Keras raises it for a user's layer without get_config.
            with contextlib.suppress(NotImplementedError):
                settings = layer.get_config()
        # Addresses are dropped: a layer may make new objects in each call.
        text = re.sub(r"0x[0-9a-fA-F]+", "", repr(_without_trainable(settings)))
        found.append((layer, text))
    return tuple(found)


def _without_trainable(settings: Any) -> Any:
    """Removes the settings `trainable`, on which answers do not depend."""
    if isinstance(settings, dict):
        return {
            key: _without_trainable(value)
            for key, value in settings.items()
            if key != "trainable"
        }
    return settings


def _digest(keras: Any, model: Any) -> str:
    """Computes a digest of a model's layers, weights, and code that is not Keras's."""
    config = model.to_json() if hasattr(model, "to_json") else type(model).__qualname__
    parts: list[Any] = [config]
    for variable in model.variables:
        parts += [variable.path, _numbers(keras, variable)]
    layers = (model, *getattr(model, "_flatten_layers", list)())
    classes = {kind for layer in layers for kind in type(layer).__mro__}
    for kind in sorted(classes, key=lambda kind: (kind.__module__, kind.__qualname__)):
        if kind is not object and not kind.__module__.startswith("keras."):
            parts += class_parts(kind, lambda value: None)
    return digest(parts)


def _numbers(keras: Any, tensor: Any) -> np.ndarray:
    """Converts a tensor to an array; bfloat16, which NumPy lacks, becomes float32."""
    if keras.backend.standardize_dtype(tensor.dtype) == "bfloat16":
        tensor = keras.ops.cast(tensor, "float32")
    return np.asarray(keras.ops.convert_to_numpy(tensor))


def _check_built(model: Any) -> None:
    if not model.built:
        raise ValueError(
            "model must be built, so that it has weights: call it once, or give it an "
            "Input layer"
        )


def _keras() -> Any:
    """Imports Keras; the backend is JAX unless already chosen."""
    if "keras" not in sys.modules:
        os.environ.setdefault("KERAS_BACKEND", "jax")
    return required("keras", _PURPOSE, "keras")


def _copied(keras: Any, model: Any) -> Any:
    layers = getattr(model, "_flatten_layers", lambda: [])()
    classes = {type(layer).__name__: type(layer) for layer in (model, *layers)}
    try:
        with keras.saving.custom_object_scope(classes):
            own = copy.deepcopy(model)
        for theirs, ours in zip(model.variables, own.variables, strict=True):
            ours.assign(theirs)
    # Keras copies a model by saving it, which may fail in any of these ways.
    except (TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise ValueError(
            "model must be one that Keras can copy, because the classifier has weights "
            f"of its own; a class of yours needs get_config: {error}"
        ) from error
    return own


def _activation(model: Any) -> str | None:
    """Returns the kind of outputs by the last layer; None if unknown."""
    layers = list(getattr(model, "layers", ()))
    while layers:
        last = layers.pop()
        if type(last).__name__ in _PASS_THROUGH:
            continue
        if getattr(last, "layers", None):
            return _activation(last)
        if type(last).__name__ == "Softmax":
            return "probabilities"
        name = getattr(getattr(last, "activation", None), "__name__", "")
        return _ACTIVATIONS.get(name)
    return None
