"""torch modules, run by torch."""

import copy
import dataclasses
import functools
from typing import Any

import numpy as np

from jaxrob._adapters.code import Parts, class_parts, value_parts
from jaxrob._adapters.network import Network, OnHost, Preprocessing
from jaxrob._arguments.checks import check_type
from jaxrob._arguments.classes import class_outputs, with_arrays
from jaxrob._arguments.messages import named
from jaxrob._arguments.texts import required
from jaxrob._devices.host_function import HostFunction
from jaxrob._identity.digest import digest

_PURPOSE = "Classifier.from_torch"
# The class name of the last layer, and the kind of outputs that it returns.
_ACTIVATIONS = {
    "Softmax": "probabilities",
    "Sigmoid": "sigmoid",
    "Hardsigmoid": "sigmoid",
    "LogSoftmax": "logits",
}
# Autograd's name of the last operation, and the kind of outputs that it returns.
_OPERATIONS = {
    "SoftmaxBackward0": "probabilities",
    "SigmoidBackward0": "sigmoid",
    "LogSoftmaxBackward0": "logits",
}


def torch_network(
    module: Any,
    outputs: str | None,
    preprocessing: Preprocessing,
    *,
    name: str | None,
    version: str | None,
    batch_size: int | None,
) -> Network:
    """See `Classifier.from_torch`."""
    own = _copied(module)
    outputs = outputs or _activation(own) or "logits"
    name = type(module).__qualname__ if name is None else name
    run, is_any = TorchRun(own, outputs), outputs == "any"
    host = HostFunction(
        run,
        None,
        name,
        version or digest(_parts(required("torch", _PURPOSE, "torch"), own)),
        batch_size,
        gradient=None if is_any else run.gradient,
        check=None if is_any else run.check,
        is_any=is_any,
    )
    return Network(OnHost(host, preprocessing), outputs, name)


@dataclasses.dataclass(frozen=True, eq=False)
class TorchRun:
    """A copy of a torch module in evaluation mode, as a function of arrays."""

    module: Any  # The copy
    outputs: str  # The kind of outputs assumed

    def __call__(self, images: np.ndarray) -> Any:
        """Computes the outputs, float32 `[B, K]`; of "any", all of them as arrays."""
        torch = required("torch", _PURPOSE, "torch")
        with torch.inference_mode():
            found = self.module(self._placed(torch.from_numpy(images)))
            if self.outputs == "any":
                return with_arrays(found, _array)
            return _tensor(torch, found, len(images)).float().cpu().numpy()

    def gradient(self, images: np.ndarray, change: np.ndarray) -> np.ndarray:
        """Computes the gradient of `sum(change * outputs)` in the images."""
        torch = required("torch", _PURPOSE, "torch")
        with torch.enable_grad():
            pixels = torch.from_numpy(images).requires_grad_()
            # A copy, because the first layer may write to its input.
            found = self.module(self._placed(pixels.clone()))
            found = _tensor(torch, found, len(images)).float().cpu()
            if not found.requires_grad:
                raise ValueError(
                    "the torch module cuts its gradient off (no_grad, detach or an "
                    "operation without one)"
                )
            (gradient,) = torch.autograd.grad(found, pixels, torch.from_numpy(change))
        return gradient.numpy()

    def check(self, images: np.ndarray) -> None:
        """Rejects a kind of outputs that contradicts the last operation."""
        torch = required("torch", _PURPOSE, "torch")
        with torch.enable_grad():
            pixels = torch.from_numpy(images).requires_grad_()
            found = self.module(self._placed(pixels.clone()))
            found = _tensor(torch, found, len(images))
        kind = _OPERATIONS.get(getattr(found.grad_fn, "name", str)())
        if kind is not None and kind != self.outputs and self.outputs != "scores":
            raise ValueError(
                f'outputs="{self.outputs}", but the module\'s last operation makes '
                f'"{kind}": pass outputs="{kind}"'
            )

    def _placed(self, images: Any) -> Any:
        """Moves images to the device and dtype of the module's parameters."""
        first = next(self.module.parameters(), None)
        if first is None or not first.is_floating_point():
            return images
        return images.to(first.device, first.dtype)


def _copied(module: Any) -> Any:
    """Copies a torch module, in evaluation mode. The module itself is not changed."""
    if isinstance(module, str | bytes) or hasattr(module, "__fspath__"):
        raise TypeError(
            f"module must be a torch.nn.Module; got {named(module)}. Files of torch "
            "are pickles, which run code as they are loaded: load yours yourself, by "
            "module.load_state_dict(torch.load(path, weights_only=True))"
        )
    torch = required("torch", _PURPOSE, "torch")
    check_type("module", module, torch.nn.Module, "a torch.nn.Module")
    lazy = torch.nn.parameter.UninitializedTensorMixin
    for name, tensor in (*module.named_parameters(), *module.named_buffers()):
        if tensor.is_meta or isinstance(tensor, lazy):
            raise ValueError(
                f"module must have weights; got one whose {name!r} has no values yet"
            )
    try:
        own = copy.deepcopy(module)
    except (RuntimeError, TypeError, AttributeError) as error:
        raise ValueError(
            f"module must be one that copy.deepcopy copies, because the classifier has "
            f"weights of its own: {error}"
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
    """Returns a module's class outputs, checked to be a real tensor."""
    found = class_outputs("the torch module", returned, number)
    if not isinstance(found, torch.Tensor):
        raise TypeError(f"the torch module must return tensors; got {named(found)}")
    if found.is_complex():
        raise TypeError(f"the torch module must return numbers; got {found.dtype}")
    return found


def _activation(module: Any) -> str | None:
    """Returns the kind of outputs by the last layer; None if unknown."""
    *_, last = module.modules()
    return _ACTIVATIONS.get(type(last).__name__)


def _parts(torch: Any, module: Any) -> Parts:
    """Yields the parts that identify a module: weights, settings and code."""
    describe = functools.partial(_describe, torch)
    for name, layer in module.named_modules():
        yield f"{name} {type(layer).__qualname__}"
        # The code that TorchScript and torch.fx keep of a module.
        if isinstance(code := getattr(layer, "code", None), str):
            yield code
        if not isinstance(layer, torch.jit.ScriptModule):
            yield from value_parts(_settings(layer), describe)
    # Quantized and scripted layers do not hold their weights as attributes.
    yield from value_parts(dict(module.state_dict()), describe)
    classes = {kind for layer in module.modules() for kind in type(layer).__mro__}
    for kind in sorted(classes, key=lambda kind: (kind.__module__, kind.__qualname__)):
        if kind is not object and not kind.__module__.startswith("torch."):
            yield from class_parts(kind, describe)


def _settings(layer: Any) -> dict[str, Any]:
    """Returns a layer's attributes; of hooks only the values, as their keys vary."""
    return {
        name: list(value.values()) if "_hooks" in name else value
        for name, value in sorted(vars(layer).items())
        if name != "_modules" and not (name.endswith("_hooks") and not value)
    }


def _describe(torch: Any, value: Any) -> Parts | None:
    """Returns the identifying parts of torch's own values; None for other values."""
    if isinstance(value, torch.nn.Module):
        return iter([type(value).__qualname__])  # Layers are described by themselves.
    if isinstance(value, torch.dtype | torch.device | torch.Size):
        return iter([str(value)])
    if not isinstance(value, torch.Tensor):
        return None
    value = value.detach().cpu()
    if value.is_quantized:
        value = value.dequantize()
    if value.layout != torch.strided:
        value = value.to_dense()
    if value.is_floating_point():
        value = value.double() if value.itemsize > 4 else value.float()
    return iter([value.numpy()])
