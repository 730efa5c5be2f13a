"""torch modules, and models of transformers and timm, run by torch."""

import copy
import dataclasses
import functools
import io
import re
import zipfile
from collections.abc import Container, Iterator
from typing import Any

import numpy as np

from jaxrob._arguments.checks import check_type
from jaxrob._arguments.messages import class_outputs, named, with_arrays, wrong_type
from jaxrob._arguments.texts import error_text, required
from jaxrob._classifiers.network import (
    Network,
    OnHost,
    Preprocessing,
    checked_layout,
    outputs_after,
)
from jaxrob._devices.host_function import HostFunction
from jaxrob._identity.identity import contents, digest

# A colour whose channels differ, and pictures of two shapes that no processor makes.
_COLOUR = (31, 122, 213, 180)
_SHAPES = ((61, 83), (83, 61))
# The most by which a value may differ from the processor's, which rounds otherwise.
_TOLERANCE = 1e-4
# A line of TorchScript's that sets one of a layer's settings.
_SETTING = re.compile(rb"\n +\w+ : Final\[.*")


def torch_network(
    module: Any,
    outputs: str | None,
    preprocessing: Preprocessing | None,
    name: str | None,
    version: str | None,
    batch_size: int | None,
) -> Network:
    own = _copied(module)
    *_, last = own.modules()
    outputs = outputs or outputs_after(type(last).__name__) or "logits"
    name = type(module).__qualname__ if name is None else name
    run, is_any = TorchRun(own, outputs), outputs == "any"
    gradient, check = (None, None) if is_any else (run.gradient, run.check)
    version = version or _version(_torch(), own)
    host = HostFunction(
        run, None, name, version, batch_size, gradient, check, is_any=is_any
    )
    return Network(OnHost(host, checked_layout(preprocessing, True)), outputs, name)


def transformers_network(
    model: Any,
    processor: Any,
    size: Any,
    name: str | None,
    version: str | None,
    batch_size: int | None,
) -> Network:
    # Pictures of one colour show whether the processor does only what it says.
    transformers = required(
        "transformers", "Classifier.from_transformers", "transformers"
    )
    check_type("model", model, transformers.PreTrainedModel, "a model of transformers")
    _check_model(model)
    processor = _processor(transformers, model) if processor is None else processor
    wanted = "an image processor of transformers"
    check_type("processor", processor, transformers.BaseImageProcessor, wanted)
    channels = getattr(model.config, "num_channels", 3)
    made = [_made(processor, shape, channels) for shape in _SHAPES]
    size = _size(made) if size is None else size
    scale, mean, std = _normalisation(processor)
    preprocessing = Preprocessing(scale, mean, std, channels_first=True, size=size)
    for values in made:
        _check_same(processor, preprocessing, values)
    network = torch_network(model, "logits", preprocessing, name, version, batch_size)
    return network._replace(
        num_classes=max(model.config.num_labels, 2),
        class_names=_class_names(model.config),
    )


def timm_network(
    model: Any, size: Any, name: str | None, version: str | None, batch_size: int | None
) -> Network:
    timm = required("timm", "Classifier.from_timm", "timm")
    if not isinstance(getattr(model, "pretrained_cfg", None), dict):
        raise wrong_type("model", "what timm.create_model returns", model)
    number = getattr(model, "num_classes", 0)
    if number < 1:
        raise ValueError(
            f"model must have classes; got one of num_classes={number}, "
            "which returns features"
        )
    settings = timm.data.resolve_model_data_config(model)
    if size is None:
        size = _own_size(model) or settings["input_size"][1:]
    preprocessing = Preprocessing(
        mean=settings["mean"], std=settings["std"], channels_first=True, size=size
    )
    network = torch_network(model, "logits", preprocessing, name, version, batch_size)
    names = model.pretrained_cfg.get("label_names")
    # Otherwise the head is another.
    fit = isinstance(names, list | tuple) and len(names) == max(number, 2)
    names = tuple(map(str, names)) if fit else None
    return network._replace(num_classes=max(number, 2), class_names=names)


@dataclasses.dataclass(frozen=True, eq=False)
class TorchRun:
    module: Any  # The copy
    outputs: str  # The kind of outputs assumed

    def __call__(self, images: np.ndarray) -> Any:
        torch = _torch()
        with torch.inference_mode():
            returned = self._called(torch.from_numpy(images))
            if self.outputs == "any":
                return with_arrays(returned, _array)
            return _tensor(torch, returned, len(images)).float().cpu().numpy()

    def gradient(self, images: np.ndarray, change: np.ndarray) -> np.ndarray:
        torch = _torch()
        pixels, outputs = self._recorded(images)
        if not outputs.requires_grad:
            raise ValueError(
                "the torch module cuts its gradient off (no_grad, detach or an "
                "operation without one)"
            )
        change = torch.from_numpy(change).to(outputs).reshape(outputs.shape)
        return torch.autograd.grad(outputs, pixels, change)[0].numpy()

    def check(self, images: np.ndarray) -> None:
        _, outputs = self._recorded(images)
        operation = getattr(outputs.grad_fn, "name", str)()
        kind = outputs_after(operation.removesuffix("Backward0"))
        if kind is not None and kind != self.outputs and self.outputs != "scores":
            raise ValueError(
                f'outputs="{self.outputs}", but the module\'s last operation makes '
                f'"{kind}": pass outputs="{kind}"'
            )

    def _recorded(self, images: np.ndarray) -> tuple[Any, Any]:
        """Returns the images, and the outputs as autograd follows them from there."""
        torch = _torch()
        with torch.enable_grad():
            pixels = torch.from_numpy(images).requires_grad_()
            # A copy, because the first layer may write to its input.
            return pixels, _tensor(torch, self._called(pixels.clone()), len(images))

    def _called(self, images: Any) -> Any:
        first = next(self.module.parameters(), None)
        if first is not None and first.is_floating_point():
            images = images.to(first.device, first.dtype)
        with without_autocast(images.device.type):
            return self.module(images)


def without_autocast(device: str) -> Any:
    # A journal would mix the answers of two precisions.
    return _torch().autocast(device, enabled=False)


def _torch() -> Any:
    return required("torch", "Classifier.from_torch", "torch")


def _copied(module: Any) -> Any:
    if isinstance(module, str | bytes) or hasattr(module, "__fspath__"):
        raise TypeError(
            f"module must be a torch.nn.Module; got {named(module)}. Files of torch "
            "are pickles, which run code as they are loaded: load yours yourself, by "
            "module.load_state_dict(torch.load(path, weights_only=True))"
        )
    torch = _torch()
    check_type("module", module, torch.nn.Module, "a torch.nn.Module")
    lazy = torch.nn.parameter.UninitializedTensorMixin
    for name, tensor in (*module.named_parameters(), *module.named_buffers()):
        if tensor.is_meta or isinstance(tensor, lazy):
            raise ValueError(
                f"module must have weights; got one whose {name!r} has no values yet"
            )
    # Features that it kept of a forward pass, which torch does not copy.
    kept = [one for layer in module.modules() for one in vars(layer).values()]
    kept = [one for one in kept if isinstance(one, torch.Tensor) and not one.is_leaf]
    try:
        own = copy.deepcopy(module, {id(one): one.detach().clone() for one in kept})
    except (RuntimeError, TypeError, AttributeError) as error:
        raise ValueError(
            "module must be one that copy.deepcopy copies, because the classifier has "
            "weights of its own. If it keeps features of a forward pass, call it under "
            f"torch.no_grad(), or delete them first. torch says: {error}"
        ) from error
    own.eval()
    for parameter in own.parameters():
        if parameter.is_leaf:  # Copies of scripted modules have non-leaf parameters.
            parameter.requires_grad_(False)
    return own


def _array(tensor: Any) -> np.ndarray:
    """Converts a tensor; floating ones become float32, as NumPy lacks bfloat16."""
    tensor = tensor.float() if tensor.is_floating_point() else tensor
    return tensor.cpu().numpy()


def _tensor(torch: Any, returned: Any, number: int) -> Any:
    outputs = class_outputs("the torch module", returned, number)
    if not isinstance(outputs, torch.Tensor):
        raise TypeError(f"the torch module must return tensors; got {named(outputs)}")
    if outputs.is_complex():
        raise TypeError(f"the torch module must return numbers; got {outputs.dtype}")
    return outputs


def _version(torch: Any, module: Any) -> str | None:
    """A digest of all that tells modules apart; None if that cannot be known."""
    simpler = functools.partial(_simpler, torch, {*module.modules()})
    # Quantized layers do not hold their weights as attributes.
    values = module, dict(module.state_dict(keep_vars=True))
    try:
        return digest(contents(values, "torch", simpler))
    except Exception:  # The code of what it holds may raise anything.
        return None


def _simpler(torch: Any, layers: Container[Any], value: Any) -> Any:
    """Returns what torch's own values hold; other values as they are."""
    if isinstance(value, torch.jit.ScriptModule):
        return tuple(_saved(value))
    if isinstance(value, torch.nn.Module):
        weights = None if value in layers else dict(value.state_dict())
        # The code that torch.fx keeps of a module.
        return type(value), getattr(value, "code", None), _settings(value), weights
    if isinstance(value, torch.dtype | torch.device | torch.Size):
        return str(value)
    if not isinstance(value, torch.Tensor):
        return value
    value = value.detach().cpu()
    if value.is_quantized:
        value = value.dequantize()
    if value.layout != torch.strided:
        value = value.to_dense()
    if value.is_floating_point():
        value = value.double() if value.itemsize > 4 else value.float()
    return value.numpy()


def _saved(script: Any) -> Iterator[Any]:
    """Yields what TorchScript's file holds: code, weights, constants and settings."""
    with zipfile.ZipFile(io.BytesIO(script.save_to_buffer())) as file:
        for name in file.namelist():
            if not name.endswith((".debug_pkl", "serialization_id")):
                # A process numbers classes as they come, and writes settings unordered.
                part = re.sub(rb"\.?___torch_mangle_\d+", b"", file.read(name))
                yield sorted(_SETTING.findall(part)), _SETTING.sub(b"", part)


def _settings(layer: Any) -> dict[str, Any]:
    """Returns a layer's attributes; of hooks only the values, as their keys vary."""
    return {
        name: list(value.values()) if "_hooks" in name else value
        for name, value in sorted(vars(layer).items())
        if not (name.endswith("_hooks") and not value)
    }


def _check_model(model: Any) -> None:
    kinds = [kind.__name__ for kind in type(model).__mro__]
    if not any("ForImageClassification" in name for name in kinds):
        raise ValueError(
            "model must be an image classifier, as AutoModelForImageClassification "
            f"makes them; got {kinds[0]}. Classifier.from_torch takes any module"
        )
    if model.main_input_name not in ("pixel_values", "inputs"):
        raise ValueError(
            "model must take images, pixel_values; got one that takes "
            f"{model.main_input_name}"
        )
    number = model.config.num_labels
    kind = getattr(model.config, "problem_type", None)
    if number == 1 and kind is None:
        raise ValueError(
            "model must choose one of several classes; got 1 of the problem_type None. "
            "If its output is the logit of class 1 of 2, pass the model to "
            'Classifier.from_torch with outputs="logits", which takes one column so'
        )
    known = "multi_label_classification" if number == 1 else None
    if kind not in (known, "single_label_classification"):
        raise ValueError(
            f"model must choose one of several classes; got {number} of the "
            f"problem_type {kind!r}"
        )


def _processor(transformers: Any, model: Any) -> Any:
    if not model.name_or_path:
        raise ValueError(
            "processor must be given, because the model was not loaded from a folder "
            "or a checkpoint, beside which it would lie; got None"
        )
    try:
        return transformers.AutoImageProcessor.from_pretrained(
            model.name_or_path, local_files_only=True
        )
    except Exception as error:  # Never downloaded whole, or not an image processor's.
        raise ValueError(
            "processor must be given, because none was found on this machine for "
            f"{model.name_or_path!r}: pass AutoImageProcessor.from_pretrained(...). "
            f"transformers says: {error_text(error)}"
        ) from error


def _made(processor: Any, shape: tuple[int, int], channels: int) -> np.ndarray:
    picture = np.empty((*shape, channels), np.uint8)
    picture[:] = _COLOUR[:channels]
    try:
        made = processor(
            images=picture, return_tensors="np", input_data_format="channels_last"
        )
        values = np.asarray(made["pixel_values"])
    except Exception as error:  # Its steps are of several packages.
        raise ValueError(
            f"processor must take pictures of {channels} channels, as the model does: "
            f"{error_text(error)}"
        ) from error
    if values.ndim != 4 or values.shape[:2] != (1, channels):
        raise ValueError(
            f"processor must make one image of {channels} channels, as the model takes "
            f"them; got the shape {values.shape} of {type(processor).__name__}"
        )
    return values[0]


def _size(made: list[np.ndarray]) -> tuple[int, int] | None:
    """The size that the processor gives to every picture; None if it keeps it."""
    sizes = [values.shape[1:] for values in made]
    if sizes == list(_SHAPES):
        return None
    if sizes[0] != sizes[1]:
        raise ValueError(
            "size must be given, because the processor keeps the aspect ratio of "
            "pictures; got None"
        )
    return sizes[0]


def _normalisation(processor: Any) -> tuple[float, Any, Any]:
    def setting(name: str) -> Any:
        return getattr(processor, name, None)

    scale = 255.0 * (setting("rescale_factor") if setting("do_rescale") else 1)
    if not setting("do_normalize"):
        return scale, 0.0, 1.0
    std = setting("image_std")
    if setting("include_top"):  # EfficientNet divides by it twice.
        std = np.square(std)
    return scale, setting("image_mean"), std


def _check_same(processor: Any, found: Preprocessing, values: np.ndarray) -> None:
    row = np.array(_COLOUR[: len(values)]) / 255
    ours = (np.array(found.scale) * row - found.mean) / found.std
    apart = np.abs(values - ours[:, None, None]).max()
    if not apart <= _TOLERANCE * max(1, np.abs(ours).max()):
        raise ValueError(
            "processor must do no more than resize, crop, rescale and normalise; got "
            f"{type(processor).__name__}, whose values are up to {apart:.3g} away from "
            "those of its settings. Put what else it does into a module of yours, for "
            "Classifier.from_torch"
        )


def _class_names(config: Any) -> tuple[str, ...] | None:
    """Returns the names of the classes; None if they are transformers' placeholders."""
    # Some classes of ImageNet have the same name, such as the two cranes.
    names = tuple(str(config.id2label.get(i)) for i in range(config.num_labels))
    if len(names) < 2 or names == tuple(f"LABEL_{i}" for i in range(len(names))):
        return None
    return names


def _own_size(model: Any) -> tuple[int, int] | None:
    """Returns the size that a model was made with, where that is fixed."""
    # The weights' own settings do not follow `timm.create_model(name, img_size=32)`.
    for module in model.modules():
        size = getattr(module, "img_size", None)
        if isinstance(size, tuple | list) and len(size) == 2:
            return size[0], size[1]
    return None
