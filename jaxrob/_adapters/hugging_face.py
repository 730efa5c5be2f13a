"""Image classifiers of transformers and timm, with their processors and settings."""

from typing import Any

import numpy as np

from jaxrob._adapters.network import Network, Preprocessing
from jaxrob._adapters.torch_module import torch_network
from jaxrob._arguments.checks import check_type
from jaxrob._arguments.messages import wrong_type
from jaxrob._arguments.texts import error_text, required

_PURPOSE = "Classifier.from_transformers"
# A colour whose channels differ, and pictures of two shapes that no processor makes.
_COLOUR = (31, 122, 213, 180)
_SHAPES = ((61, 83), (83, 61))
# The most by which a value may differ from the processor's, which rounds otherwise.
_TOLERANCE = 1e-4


def transformers_network(
    model: Any,
    processor: Any,
    size: Any,
    *,
    name: str | None,
    version: str | None,
    batch_size: int | None,
) -> Network:
    """See `Classifier.from_transformers`."""
    # The processor is run on pictures of one colour, to see whether it does what its
    # settings say and no more.
    transformers = required("transformers", _PURPOSE, "transformers")
    wanted = "a model of transformers"
    check_type("model", model, transformers.PreTrainedModel, wanted)
    _check_model(model)
    processor = _processor(transformers, model) if processor is None else processor
    wanted = "an image processor of transformers"
    check_type("processor", processor, transformers.BaseImageProcessor, wanted)
    channels = getattr(model.config, "num_channels", 3)
    made = [_made(processor, shape, channels) for shape in _SHAPES]
    if size is None:
        size = _size(made)
    scale, mean, std = _normalisation(processor)
    given = Preprocessing(scale, mean, std, channels_first=True, size=size)
    for values in made:
        _check_same(processor, given, values)
    found = torch_network(
        model, "logits", given, name=name, version=version, batch_size=batch_size
    )
    return found._replace(
        num_classes=max(model.config.num_labels, 2),
        class_names=_class_names(model.config),
    )


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
    config = model.config
    kind = getattr(config, "problem_type", None)
    known = (None, "single_label_classification")
    if config.num_labels == 1:  # One logit, of class 1.
        known = ("single_label_classification", "multi_label_classification")
    if kind not in known:
        raise ValueError(
            f"model must choose one of several classes; got {config.num_labels} "
            f"of the problem_type {kind!r}"
        )


def _processor(transformers: Any, model: Any) -> Any:
    """Reads the processor that lies beside the model's weights on this machine."""
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
    """Returns what the processor makes of a picture of one colour, `[C, H, W]`."""
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
    """Returns scale, mean and standard deviation, of pixels in [0, 1]."""

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


_OF_TIMM = "Classifier.from_timm"


def timm_network(
    model: Any,
    size: Any,
    *,
    name: str | None,
    version: str | None,
    batch_size: int | None,
) -> Network:
    """See `Classifier.from_timm`."""
    timm = required("timm", _OF_TIMM, "timm")
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
        num_classes=max(model.num_classes, 2), class_names=_names_of_classes(model)
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


def _names_of_classes(model: Any) -> tuple[str, ...] | None:
    """Returns the names that come with the weights; None if the head is another."""
    names = model.pretrained_cfg.get("label_names")
    if not isinstance(names, list | tuple) or len(names) != max(model.num_classes, 2):
        return None
    return tuple(map(str, names))
