"""MAITE's models as ours."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jaxrob._adapters.samples import as_array
from jaxrob._arguments.checks import check_choice, check_type
from jaxrob._arguments.naming import named
from jaxrob._classifier import Classifier
from jaxrob.maite._metadata import checked_metadata, class_names_in

_PIXELS = ("bytes", "unit")


def classifier(
    model: Any,
    outputs: str,
    pixels: str,
    num_classes: int | None = None,
    *,
    batch_size: int | None = None,
    version: str | None = None,
    class_names: Sequence[str] | None = None,
) -> Classifier:
    """A model of MAITE's, as `jaxrob.assess` and the others take it.

    Example::

        classifier = jaxrob.maite.classifier(model, "probabilities", "bytes")

    It runs on the host and has no gradients. MAITE's protocol leaves open what a model
    returns and which pixels it takes, so both must be said.

    Args:
      model: a `maite.protocols.image_classification.Model`. It is called with a list of
        NumPy arrays `[C, H, W]`. An image's answer must not depend on its batch.
      outputs: what it returns for each image: "logits", "probabilities", "sigmoid" or
        "scores", see `jaxrob.Classifier`.
      pixels: what it takes: "bytes", uint8 in 0-255 (altered images are clipped and
        rounded), or "unit", float32 in [0, 1]. Its normalisation is its own affair.
      num_classes: number of classes; by default as many as `index2label` in its
        metadata names.
      batch_size: see `jaxrob.Classifier.from_torch`.
      version: identifies it in a journal, together with the id in its metadata, see
        `jaxrob.Classifier.from_host`.
      class_names: one name for each output; by default those of `index2label`.

    Raises:
      TypeError: if it is no function with metadata.
      ValueError: if the number of classes is not known, `index2label` leaves classes
        out, or as `jaxrob.Classifier.from_host`.
    """
    metadata = checked_metadata("model", model)
    check_type("model", model, Callable, "a model of MAITE's, which can be called")
    check_choice("pixels", pixels, _PIXELS)
    if class_names is None:
        class_names = class_names_in("model", metadata)
    if num_classes is None:
        if class_names is None:
            raise ValueError(
                "num_classes must be given where the model's metadata has no "
                "index2label; got None"
            )
        num_classes = len(class_names)
    return Classifier.from_host(
        _Called(model, pixels == "bytes"),
        num_classes,
        outputs,
        name=metadata["id"],
        version=version,
        batch_size=batch_size,
        channels_first=True,
        class_names=class_names,
    )


@dataclasses.dataclass(frozen=True, eq=False)
class _Called:
    """A model as a function of arrays.

    Attributes:
      model: the model.
      takes_bytes: whether it takes uint8.
    """

    model: Any
    takes_bytes: bool

    def __call__(self, images: np.ndarray) -> np.ndarray:
        if self.takes_bytes:
            images = np.rint(np.clip(images, 0, 1) * 255).astype(np.uint8)
        found = as_array(self.model([*images]))
        if not hasattr(found, "__len__") or len(found) != len(images):
            raise ValueError(
                f"the model must return a sequence of {len(images)} outputs, one for "
                f"each image; got {named(found)}"
            )
        return np.stack([np.asarray(as_array(one)) for one in found])
