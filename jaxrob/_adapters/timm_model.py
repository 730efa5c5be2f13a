"""Models of timm, with the settings of their weights."""

from typing import Any

from jaxrob._adapters.network import Network, Preprocessing
from jaxrob._adapters.torch_module import torch_network
from jaxrob._arguments.messages import wrong_type
from jaxrob._arguments.texts import required

_PURPOSE = "Classifier.from_timm"


def timm_network(
    model: Any,
    size: Any,
    *,
    name: str | None,
    version: str | None,
    batch_size: int | None,
) -> Network:
    """See `Classifier.from_timm`."""
    timm = required("timm", _PURPOSE, "timm")
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
    given = Preprocessing(
        mean=settings["mean"], std=settings["std"], channels_first=True, size=size
    )
    found = torch_network(
        model, "logits", given, name=name, version=version, batch_size=batch_size
    )
    return found._replace(
        num_classes=max(model.num_classes, 2), class_names=_class_names(model)
    )


def _own_size(model: Any) -> tuple[int, int] | None:
    """Returns the size that a model was made with, where that is fixed."""
    # The first module with an `img_size` is the model or what cuts it into patches. The
    # settings of the weights do not follow `timm.create_model(name, img_size=32)`.
    for module in model.modules():
        size = getattr(module, "img_size", None)
        if isinstance(size, tuple | list) and len(size) == 2:
            return size[0], size[1]
    return None


def _class_names(model: Any) -> tuple[str, ...] | None:
    """Returns the names that come with the weights; None if the head is another."""
    names = model.pretrained_cfg.get("label_names")
    if not isinstance(names, list | tuple) or len(names) != max(model.num_classes, 2):
        return None
    return tuple(map(str, names))
