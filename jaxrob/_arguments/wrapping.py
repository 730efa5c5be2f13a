"""How values of other libraries become what an argument must be, for messages."""

from collections.abc import Iterable
from typing import Any

import jax
import numpy as np

# The packages of networks' classes, and what makes a classifier of them. Those of
# transformers and timm are torch's too: a class's own package comes before its bases'.
_CLASSIFIERS = {
    "transformers": "from_transformers(model)",
    "timm": "from_timm(model)",
    "torch": "from_torch(module)",
    "keras": "from_keras(model)",
    "flax.nnx": "from_nnx(module)",
    "flax.linen": "from_linen(module, variables)",
    "equinox": "from_equinox(module)",
}


def classifier_wanted(given: Any) -> str:
    """Returns the words for a classifier, and how to make one of what was given."""
    wanted = "a jaxrob.Classifier"
    for kind in type(given).__mro__:
        for package, call in _CLASSIFIERS.items():
            if f"{kind.__module__}.".startswith(f"{package}."):
                return f"{wanted}: say jaxrob.Classifier.{call}"
    return wanted


def dataset_wanted(given: Any) -> str:
    """Returns the words for a data set, and how to make one of what was given."""
    wanted, kind = "a jaxrob.Dataset", type(given)
    if isinstance(given, np.ndarray | jax.Array):
        return f"{wanted}: say jaxrob.Dataset(images, labels)"
    if isinstance(given, str | bytes | dict | type):
        return wanted
    package = kind.__module__.partition(".")[0]
    if kind.__name__ == "Dataset":
        wanted = f"{wanted}, not one of {package}"
    if hasattr(kind, "__getitem__") and hasattr(kind, "__len__"):
        return f"{wanted}: say jaxrob.Dataset.from_items(items)"
    if isinstance(given, Iterable):
        return (
            f"{wanted}: say jaxrob.Dataset.from_batches(batches), or from_items(items) "
            "of single images"
        )
    return wanted
