"""Each framework's networks, as the parts of a classifier."""

import dataclasses
import pathlib
from collections.abc import Callable
from typing import Any, NamedTuple

from jaxrob._adapters.on_host import OnHost
from jaxrob._adapters.preprocessing import Preprocessing, preprocessed
from jaxrob._adapters.snapshot import snapshot
from jaxrob._arguments.checks import check_type
from jaxrob._arguments.warnings import warn
from jaxrob._devices.host_function import HostFunction
from jaxrob._identity.hashable_partial import hashable_partial

# Numbers of channels of images: grey, RGB, RGB with transparency.
_CHANNELS = (1, 3, 4)


class Network(NamedTuple):
    """The parts of a classifier.

    Attributes:
      function: its `apply_fn`.
      outputs: the kind of outputs of `apply_fn`.
      name: its name.
      num_classes: K, None if not yet known.
      variables: a pytree of arrays.
      class_names: those that come with the network, or None.
    """

    function: Callable[..., Any]
    outputs: str
    name: str
    num_classes: int | None
    variables: Any = ()
    class_names: tuple[str, ...] | None = None


def torch_network(
    module: Any,
    outputs: str | None,
    preprocessing: Preprocessing,
    *,
    name: str | None,
    version: str | None,
    batch_size: int | None,
) -> Network:
    """See `Classifier.from_torch`; the arguments are checked."""
    from jaxrob._adapters.torch_module import read_torch

    found = read_torch(module, outputs)
    outputs = outputs or found.outputs or "logits"
    name = type(module).__qualname__ if name is None else name
    run, is_any = found.run, outputs == "any"
    gradient, check = (None, None) if is_any else (run.gradient, run.check)
    about = run, None, name, version or found.digest, batch_size
    host = HostFunction(*about, gradient, check, is_any=is_any)
    return Network(OnHost(host, preprocessing), outputs, name, None)


def transformers_network(
    model: Any, processor: Any, size: Any, **identity: Any
) -> Network:
    """See `Classifier.from_transformers`; the identity is checked."""
    from jaxrob._adapters.transformers_model import read_transformers

    preprocessing, names = read_transformers(model, processor, size)
    found = torch_network(model, "logits", preprocessing, **identity)
    return found._replace(
        num_classes=max(model.config.num_labels, 2), class_names=names
    )


def timm_network(model: Any, size: Any, **identity: Any) -> Network:
    """See `Classifier.from_timm`; the identity is checked."""
    from jaxrob._adapters.timm_model import read_timm

    preprocessing, names = read_timm(model, size)
    found = torch_network(model, "logits", preprocessing, **identity)
    return found._replace(num_classes=max(model.num_classes, 2), class_names=names)


def onnx_network(
    path: Any,
    outputs: str | None,
    preprocessing: Preprocessing,
    channels_first: bool | None,
    *,
    name: str | None,
    version: None,
    batch_size: int | None,
) -> Network:
    """See `Classifier.from_onnx`; the arguments are checked."""
    from jaxrob._adapters.onnx_file import read_onnx

    del version
    is_any = outputs == "any"
    found = read_onnx(path, is_any)
    # The last operation computes the outputs, so it must not be contradicted (in torch
    # it is only the layer registered last). "scores" may come from any operation.
    if outputs not in (None, "scores", "any", found.outputs or outputs):
        raise ValueError(
            f'outputs must be "{found.outputs}", as the last operation says, or None; '
            f'got "{outputs}"'
        )
    outputs = outputs or found.outputs or "logits"
    name = pathlib.Path(path).name if name is None else name
    fixed, *lengths = found.input_shape
    if batch_size is not None and fixed not in (None, batch_size):
        raise ValueError(
            f"batch_size must be {fixed}, as the input of {name} says, or None; got "
            f"{batch_size}"
        )
    preprocessing = _with_layout(preprocessing, channels_first, lengths, name)
    # Not the number of classes: it is found by a call on black images, so that images
    # that do not fit are rejected before anything is computed.
    about = found.run, None, name, found.digest, batch_size or fixed
    host = HostFunction(*about, writes=False, is_any=is_any)
    num_classes = found.num_classes
    if num_classes == 1:  # A single output stands for two classes.
        num_classes = 2
    return Network(OnHost(host, preprocessing), outputs, name, num_classes)


def keras_network(
    model: Any,
    outputs: str | None,
    preprocessing: Preprocessing,
    *,
    name: str | None,
    version: None,
    batch_size: int | None,
) -> Network:
    """See `Classifier.from_keras`; the arguments are checked."""
    from jaxrob._adapters.keras_model import (
        KerasRun,
        jax_step,
        read_keras,
    )

    del version
    is_any = outputs == "any"
    found = read_keras(model, is_any)
    outputs = outputs or found.outputs or "logits"
    name = str(found.model.name) if name is None else name
    num_classes = 2 if found.num_classes == 1 else found.num_classes
    if found.backend == "jax":
        if batch_size is not None:
            raise ValueError(
                "batch_size is of networks on the host; this one runs on Keras's JAX "
                f"backend, inside the step; got {batch_size}"
            )
        step, values = jax_step(found.model)
        function = preprocessed(step, preprocessing)
        return Network(function, outputs, name, num_classes, snapshot(values))
    warn(
        f"Keras runs on its {found.backend} backend: {name} is called on the host, and "
        "has no gradients. Set KERAS_BACKEND=jax before Keras is imported to have it "
        "inside the compiled step."
    )
    run = KerasRun(found.model, is_any)
    about = None, name, found.digest, batch_size
    host = HostFunction(run, *about, is_any=is_any)
    return Network(OnHost(host, preprocessing), outputs, name, num_classes)


def nnx_network(module: Any, preprocessing: Preprocessing) -> tuple[Any, Any]:
    """Returns the `apply_fn` and its variables, see `Classifier.from_nnx`."""
    from flax import nnx

    check_type("module", module, nnx.Module, "a Flax NNX module")
    graph, state = nnx.split(module)
    function = hashable_partial(_apply_nnx, graph=graph)
    return preprocessed(function, preprocessing), snapshot(state)


def equinox_network(
    module: Any, state: Any, preprocessing: Preprocessing
) -> tuple[Any, Any]:
    """Returns the `apply_fn` and its variables, see `Classifier.from_equinox`."""
    from jaxrob._adapters.equinox_module import read_equinox

    function, variables = read_equinox(module, state)
    return preprocessed(function, preprocessing), variables


def _apply_nnx(state: Any, images: Any, *, graph: Any) -> Any:
    from flax import nnx

    module = nnx.merge(graph, state)
    module.eval()
    return module(images)


def _with_layout(
    preprocessing: Preprocessing,
    channels_first: bool | None,
    lengths: list[int | None],
    name: str,
) -> Preprocessing:
    """Returns the preprocessing with the layout and size given by an input's shape."""
    if len(lengths) != 3:
        return preprocessing
    shape = ["B", *("?" if length is None else length for length in lengths)]
    first = lengths[0] in _CHANNELS and lengths[2] not in _CHANNELS
    last = lengths[2] in _CHANNELS and lengths[0] not in _CHANNELS
    if channels_first is None:
        if not first and not last:
            raise ValueError(
                f"channels_first must be True or False, because the input of {name} of "
                f"the shape {shape} may be either; got None"
            )
        channels_first = first
    elif (first and not channels_first) or (last and channels_first):
        raise ValueError(
            f"channels_first must be {first}, because the input of {name} has the "
            f"shape {shape}; got {channels_first}"
        )
    height, width = lengths[1:] if channels_first else lengths[:2]
    size = preprocessing.size
    for there, asked in zip((height, width), size or (None, None)):
        if None not in (there, asked) and there != asked:
            raise ValueError(
                f"size must be {(height, width)}, because the input of {name} has the "
                f"shape {shape}; got {size}"
            )
    if size is None and height is not None and width is not None:
        size = height, width
    return dataclasses.replace(preprocessing, channels_first=channels_first, size=size)
