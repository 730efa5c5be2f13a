"""Keras models: inside the step on the JAX backend, otherwise on the host."""

import contextlib
import copy
import dataclasses
import io
import math
import os
import pathlib
import re
import sys
import zipfile
from typing import Any

import numpy as np

from jaxrob._arguments.checks import check_type, checked_path
from jaxrob._arguments.messages import IF_NO_CLASSES, class_outputs, with_arrays
from jaxrob._arguments.texts import install, required, warn
from jaxrob._classifiers.network import (
    Network,
    OnHost,
    Preprocessed,
    Preprocessing,
    checked_layout,
    outputs_after,
    preprocessed,
    snapshot,
)
from jaxrob._classifiers.torch_module import without_autocast
from jaxrob._devices.host_function import HostFunction
from jaxrob._files import most_unpacked, open_file
from jaxrob._identity.identity import contents, digest

_PURPOSE = "Classifier.from_keras"
# Layers that do not change the kind of outputs.
_PASS_THROUGH = ("Dropout", "Flatten", "Reshape", "Identity")
# The first version whose safe mode never executes a file's code.
_SAFE_VERSION = (3, 11, 3)
_PARTS = ("config.json", "metadata.json", "model.weights.h5")
_MAX_BYTES = 4 << 30


def keras_network(
    model: Any,
    outputs: str | None,
    preprocessing: Preprocessing | None,
    name: str | None,
    batch_size: int | None,
) -> Network:
    layout, is_any = checked_layout(preprocessing, False), outputs == "any"
    keras, own = _read(model, is_any)
    backend = keras.backend.backend()
    outputs = outputs or _activation(own) or "logits"
    name = str(own.name) if name is None else name
    shape: Any = getattr(own, "output_shape", None)
    is_known = isinstance(shape, tuple) and len(shape) == 2
    num_classes = (2 if shape[1] == 1 else shape[1]) if is_known else None
    if backend == "jax":
        if batch_size is not None:
            raise ValueError(
                "batch_size is of networks on the host; this one runs on Keras's JAX "
                f"backend, inside the step; got {batch_size}"
            )
        variables = tuple(own.variables)
        step = KerasStep(own, variables, _layer_settings(own))
        values = snapshot([variable.value for variable in variables])
        return Network(preprocessed(step, layout), outputs, name, num_classes, values)
    warn(
        f"Keras runs on its {backend} backend: {name} is called on the host, and "
        "has no gradients. Set KERAS_BACKEND=jax before Keras is imported to have it "
        "inside the compiled step."
    )

    def run(images: np.ndarray) -> Any:
        around: Any = contextlib.nullcontext()
        if backend == "torch":
            around = without_autocast(keras.ops.zeros(()).device.type)
        with around:
            returned = own(images, training=False)
        if is_any:
            return with_arrays(returned, lambda tensor: _numbers(keras, tensor))
        return _numbers(keras, class_outputs("the Keras model", returned, len(images)))

    host = HostFunction(run, None, name, _digest(keras, own), batch_size, is_any=is_any)
    return Network(OnHost(host, layout), outputs, name, num_classes)


@dataclasses.dataclass(frozen=True)
class KerasStep:
    """A pure function of variables' values; equal ones of a model compile once."""

    model: Any  # The model itself, since each copy would be recompiled
    variables: tuple[Any, ...] = dataclasses.field(compare=False)  # Its variables
    layers: tuple[tuple[Any, str], ...] = dataclasses.field(compare=False)

    def __call__(self, values: list[Any], images: Any) -> Any:
        check_layers(self)
        keras = required("keras", _PURPOSE, "keras")
        # Not `stateless_call`, which fails after layers are frozen or unfrozen.
        state = list(zip(self.variables, values, strict=True))
        with keras.StatelessScope(state_mapping=state):
            return self.model(images, training=False)


def _read(model: Any, is_any: bool) -> tuple[Any, Any]:
    if "keras" not in sys.modules:
        os.environ.setdefault("KERAS_BACKEND", "jax")
    keras = required("keras", _PURPOSE, "keras")
    if isinstance(model, str) or hasattr(model, "__fspath__"):
        own = _load(keras, model)
    else:
        wanted = "a keras.Model or the path of a .keras file"
        check_type("model", model, keras.Model, wanted)
        if not model.built:
            raise ValueError(
                "model must be built, so that it has weights: call it once, or give it "
                "an Input layer"
            )
        # On JAX its values are copied later, and changed layers are rejected.
        own = model if keras.backend.backend() == "jax" else _copied(keras, model)
    for what in ("inputs",) if is_any else ("inputs", "outputs"):
        number = len(getattr(own, what, None) or [None])
        if number != 1:
            hint = f". {IF_NO_CLASSES}" * (what == "outputs")
            raise ValueError(f"model must have one of {what}; got {number}{hint}")
    return keras, own


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
    pairs = []
    for layer in getattr(model, "_flatten_layers", list)():
        settings = None
        if not getattr(layer, "layers", None):  # Inner layers follow by themselves.
            # Keras raises it for a user's layer without get_config.
            with contextlib.suppress(NotImplementedError):
                settings = layer.get_config()
        # Addresses are dropped: a layer may make new objects in each call.
        text = re.sub(r"0x[0-9a-fA-F]+", "", repr(_without_trainable(settings)))
        pairs.append((layer, text))
    return tuple(pairs)


def _without_trainable(settings: Any) -> Any:
    """Removes the settings `trainable`, on which answers do not depend."""
    if not isinstance(settings, dict):
        return settings
    return {k: _without_trainable(v) for k, v in settings.items() if k != "trainable"}


def _digest(keras: Any, model: Any) -> str:
    config = model.to_json() if hasattr(model, "to_json") else type(model).__qualname__
    parts: list[Any] = [config]
    for variable in model.variables:
        parts += [variable.path, _numbers(keras, variable)]
    layers = (model, *getattr(model, "_flatten_layers", list)())
    return digest([*parts, *contents(map(type, layers), "keras", lambda value: value)])


def _numbers(keras: Any, tensor: Any) -> np.ndarray:
    """Converts a tensor to an array; bfloat16, which NumPy lacks, becomes float32."""
    if keras.backend.standardize_dtype(tensor.dtype) == "bfloat16":
        tensor = keras.ops.cast(tensor, "float32")
    return np.asarray(keras.ops.convert_to_numpy(tensor))


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
    layers = list(getattr(model, "layers", ()))
    while layers:
        last = layers.pop()
        if type(last).__name__ in _PASS_THROUGH:
            continue
        if getattr(last, "layers", None):
            return _activation(last)
        activation = getattr(last, "activation", type(last))
        return outputs_after(getattr(activation, "__name__", ""))
    return None


def _load(keras: Any, path: Any) -> Any:
    path = checked_path("model", path)
    if path.suffix != ".keras":
        raise ValueError(
            f"{path}: only .keras files are read; got {path.suffix!r}. Files of .h5, "
            "saved models and pickles may run code as they are loaded: load it "
            "yourself, and pass the model"
        )
    version = tuple(map(int, re.findall(r"\d+", keras.__version__)[:3]))
    if version < _SAFE_VERSION:
        raise ValueError(
            f"{path}: Keras {keras.__version__} may run code of a file in spite of its "
            f"safe mode; 3.11.3 and later do not: {install('keras')}"
        )
    _check_archive(path)
    try:
        return keras.saving.load_model(path, compile=False, safe_mode=True)
    except Exception as error:  # Damaged files raise errors of all kinds in Keras.
        raise ValueError(f"{path}: Keras cannot read it safely: {error}") from error


def _check_archive(path: pathlib.Path) -> None:
    with open_file(path) as file:
        size = file.seek(0, io.SEEK_END)
        try:
            with zipfile.ZipFile(file) as archive:
                members = archive.infolist()
                weights = archive.getinfo(_PARTS[-1])
                total = sum(member.file_size for member in members)
                if total > min(most_unpacked(size), _MAX_BYTES):
                    raise ValueError(f"it claims to unpack to {total} bytes")
                names = [member.filename for member in members]
                if not set(_PARTS) <= set(names) or len(set(names)) < len(names):
                    raise ValueError(f"it must hold {', '.join(_PARTS)}, each once")
                _check_weights(archive.read(weights))
        except (zipfile.BadZipFile, KeyError, OSError, RuntimeError, ValueError) as e:
            raise ValueError(f"{path}: not a .keras file to read: {e}") from e


def _check_weights(weights: bytes) -> None:
    """Rejects weights in other files, or of a claimed size far above the file's."""
    total, most = 0, min(most_unpacked(len(weights)), _MAX_BYTES)
    h5py = required("h5py", "reading .keras files", "keras")  # Keras needs it too.
    with h5py.File(io.BytesIO(weights), "r") as file:
        groups, seen = [file], set()
        while groups:
            group = groups.pop()
            if (address := h5py.h5o.get_info(group.id).addr) in seen:
                continue
            seen.add(address)
            for name in group:
                if not isinstance(group.get(name, getlink=True), h5py.HardLink):
                    raise ValueError(f"its weights hold a link, {name!r}")
                member = group[name]
                if isinstance(member, h5py.Group):
                    groups.append(member)
                elif isinstance(member, h5py.Dataset) and (
                    member.external or member.is_virtual
                ):
                    raise ValueError(f"its weights {name!r} lie in another file")
                elif isinstance(member, h5py.Dataset):
                    total += math.prod(member.shape or ()) * member.dtype.itemsize
                    if total > most:
                        raise ValueError(f"its weights claim to have {total} bytes")
