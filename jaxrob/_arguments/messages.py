"""Messages on what users pass in: values, class names, outputs, failing functions."""

import dataclasses
import difflib
import functools
import types
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import jax
import numpy as np
from jax.core import Tracer

from jaxrob._arguments.texts import error_text


def named(value: Any) -> str:
    """Describes a simple value with its type, an array with its type and shape."""
    # It describes any other value by its type alone, since a `repr` may be long.
    kind = type(value).__name__
    if value is None:
        return "None"
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if isinstance(value, Tracer):
        return f"an array being traced, {value.dtype} of the shape {value.shape}"
    if isinstance(value, bool | int | float | complex | str | bytes | np.generic):
        text = repr(value)
        return f"{text if len(text) <= 80 else text[:77] + '...'}, of type {kind}"
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return f"{kind} of {value.dtype} and the shape {value.shape}"
    if isinstance(value, list | tuple | dict):
        return f"{kind} of length {len(value)}"
    if kind == "Domain":
        return "a jaxrob.Domain, which jaxrob.assess_domain assesses"
    return kind


def wrong_type(name: str, wanted: str, value: Any) -> TypeError:
    return TypeError(f"{name} must be {wanted}; got {named(value)}")


def range_text(
    at_least: float | None,
    above: float | None,
    at_most: float | None,
    below: float | None,
) -> str:
    """Describes a range, such as "lie in [0, 1)"; "" if there are no limits."""
    low = at_least if above is None else above
    high = at_most if below is None else below
    if low is not None and low == high:
        return f"be {low:g}"
    if low is not None and high is not None:
        left, right = "[" if above is None else "(", "]" if below is None else ")"
        return f"lie in {left}{low:g}, {high:g}{right}"
    if above == 0:
        return "be positive and finite"
    if low is not None:
        return f"be at least {low:g}" if above is None else f"be above {low:g}"
    if high is not None:
        return f"be at most {high:g}" if below is None else f"be below {high:g}"
    return ""


# A class's own package (transformers, timm) comes before its bases' (torch).
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
    wanted = "a jaxrob.Classifier"
    for kind in type(given).__mro__:
        for package, call in _CLASSIFIERS.items():
            if f"{kind.__module__}.".startswith(f"{package}."):
                return f"{wanted}: say jaxrob.Classifier.{call}"
    if callable(given) and not isinstance(given, type):
        return (
            f"{wanted}: say jaxrob.Classifier(fn, variables), of fn(variables, images)"
        )
    return wanted


def dataset_wanted(given: Any) -> str:
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


# The way out where labels are numbered in another order than the network's outputs.
TO_RENUMBER = (
    "Labels that are names are numbered by class_names=classifier.class_names; numbers "
    "are translated in the source (Hugging Face: align_labels_with_mapping)"
)
_SEVERAL = -1


def class_number(name: str, text: str, class_names: tuple[str, ...] | None) -> int:
    if class_names is None:
        raise TypeError(
            f"{name} must be an integer, or the name of a class where class_names= is "
            "given, in the order of the network's outputs (classifier.class_names, if "
            f"it has them); got {named(text)}"
        )
    known = _numbers(class_names)
    number = next((known[one] for one in spellings(text) if one in known), None)
    if number == _SEVERAL:
        raise ValueError(
            f"{name} must be the name of one class; got {named(text)}, which stands "
            "several times in class_names: number the labels"
        )
    if number is None:
        raise ValueError(
            f"{name} must be one of the {len(class_names)} class_names"
            f"{_nearest(text, class_names)}; got {named(text)}"
        )
    return number


def spellings(text: str) -> tuple[str, str, str]:
    """A text, its letters put together and taken apart, as some file systems do."""
    together, apart = (unicodedata.normalize(one, text) for one in ("NFC", "NFD"))
    return text, together, apart


def numbered(labels: Any, class_names: tuple[str, ...] | None) -> Any:
    """Returns labels with numbers in place of texts; if there are none, as they are."""
    is_list = isinstance(labels, list | tuple)
    if not is_list and (labels.ndim != 1 or labels.dtype.kind not in "OTU"):
        return labels
    texts = [isinstance(one, str) for one in labels]
    if not any(texts):
        return labels
    if not all(texts):
        at = f"labels[{texts.index(False)}]"
        raise wrong_type(at, "a name, as others are", labels[texts.index(False)])
    return [
        class_number(f"labels[{index}]", str(one), class_names)
        for index, one in enumerate(labels)
    ]


@functools.lru_cache(maxsize=16)
def _numbers(class_names: tuple[str, ...]) -> dict[str, int]:
    found: dict[str, int] = {}
    for number, name in enumerate(class_names):
        found[name] = _SEVERAL if name in found else number
    return found


def _nearest(text: str, class_names: tuple[str, ...]) -> str:
    plain = {name.casefold(): name for name in class_names}
    near = difflib.get_close_matches(text[:80].strip().casefold(), plain, n=1)
    if near:
        return f" (did you mean {plain[near[0]]!r}?)"
    more = ", ..." if len(class_names) > 10 else ""
    return f" ({', '.join(class_names[:10])}{more})"


#: For networks whose outputs cannot be classes.
IF_NO_CLASSES = (
    "A network that returns no classes, but masks or boxes for instance, needs "
    'outputs="any", and assess a score=, see jaxrob.Score'
)


def if_no_classes(shape: Any) -> str:
    if len(shape) == 1 or shape[1:] == (1,):
        return (
            "Of one image keep [1, K]. One number for each is a column, [B, 1], with "
            'outputs="logits" or "sigmoid" for that of class 1 of 2 (from_host: '
            'num_classes=1); labels become np.eye(K)[labels], with outputs="scores"'
        )
    ensemble = "Of an ensemble return the mean probabilities. " * (len(shape) == 3)
    return ensemble + IF_NO_CLASSES


_MOST_LISTED = 10


def class_outputs(what: str, returned: Any, number: int) -> Any:
    # An array itself; among several the one called `logits`, or the only `[B, K]`.
    if _is_array(returned):
        return returned
    arrays = {at: one for at, one in _members(returned).items() if _is_array(one)}
    for at in ("['logits']", ".logits"):
        if at in arrays:
            return arrays[at]
    fitting = {at: one for at, one in arrays.items() if [*one.shape[:-1]] == [number]}
    if len(fitting) == 1:
        return next(iter(fitting.values()))
    shown = [f"{at} of the shape {tuple(one.shape)}" for at, one in arrays.items()]
    listed = ": ".join(["", ", ".join(shown[:_MOST_LISTED])]) if shown else ""
    example = f", for instance outputs{next(iter(fitting))}" if fitting else ""
    raise TypeError(
        f"{what} must return one array [B, K]; got {named(returned)}{listed}. "
        f"{len(fitting) or 'None'} of its arrays can be [B, K] of B = {number} images, "
        f"and none is called logits. Return the class outputs alone{example}; samples, "
        f"[S, B, K], as one array by jnp.stack(outputs). {IF_NO_CLASSES}"
    )


def with_arrays(returned: Any, array: Callable[[Any], Any]) -> Any:
    """Returns what a network returned as tuples, lists and dicts of NumPy arrays."""
    if _is_array(returned):
        return array(returned)
    if isinstance(returned, Mapping):
        return {key: with_arrays(one, array) for key, one in returned.items()}
    if isinstance(returned, tuple | list):
        parts = [with_arrays(one, array) for one in returned]
        return parts if isinstance(returned, list) else tuple(parts)
    return returned


def _is_array(value: Any) -> bool:
    return hasattr(value, "shape") and not isinstance(value, type)


def _members(returned: Any) -> dict[str, Any]:
    """Returns the parts of an object by the code that reaches them."""
    if isinstance(returned, Mapping):
        return {f"[{key!r}]": one for key, one in returned.items()}
    if isinstance(returned, tuple | list):
        names = getattr(returned, "_fields", None)
        if names is not None:
            return {f".{name}": one for name, one in zip(names, returned)}
        return {f"[{place}]": one for place, one in enumerate(returned)}
    if dataclasses.is_dataclass(returned):
        fields = [field.name for field in dataclasses.fields(returned)]
        return {f".{name}": getattr(returned, name, None) for name in fields}
    return {f".{name}": one for name, one in getattr(returned, "__dict__", {}).items()}


def failed_on_images(
    what: str, image_shape: tuple[int, ...], error: Exception
) -> ValueError:
    begin_with_users(error)
    shape, hint = ", ".join(map(str, image_shape)), ""
    if len(image_shape) == 2:
        hint = " (if the axis of the channels is missing, images[..., None] adds it)"
    elif looks_channels_first(image_shape):
        hint = (
            " (they are taken as [B, H, W, C]; if they are [B, C, H, W], pass "
            "np.moveaxis(images, 1, -1))"
        )
    if type(error).__name__ == "TraceContextError":
        hint = " (give a module of Flax NNX to jaxrob.Classifier.from_nnx(module))"
    # The text of a KeyError, or of an assertion, says nothing without its name.
    kind = f"{type(error).__name__}: " * (not isinstance(error, TypeError | ValueError))
    return ValueError(
        f"{what} failed on images of the shape [B, {shape}]{hint}: {kind}"
        f"{error_text(error)}"
    )


# Packages with frames between a call of this library and the user's network.
_CALLERS = ("jaxrob", "jax", "contextlib", "functools")
_FRAMEWORKS = (*_CALLERS, "flax", "torch", "keras", "equinox")


def begin_with_users(error: BaseException) -> None:
    """Drops the frames before those of the user's network from an error's traceback."""
    # Of a framework's own layers it begins with these; without other code it stays.
    if jax.config.jax_traceback_filtering == "off":  # pyright: ignore
        return
    for skipped in (_FRAMEWORKS, _CALLERS):
        trace = error.__traceback__
        while trace is not None and _package(trace.tb_frame) in skipped:
            trace = trace.tb_next
        if trace is not None:
            # A class of the user's may have another method of this name.
            BaseException.with_traceback(error, trace)
            return


def _package(frame: types.FrameType) -> str:
    return frame.f_globals.get("__name__", "").partition(".")[0]


def looks_channels_first(image_shape: tuple[int, ...]) -> bool:
    """Whether an image looks like `[C, H, W]`, which would be taken as `[H, W, C]`."""
    if len(image_shape) != 3 or image_shape[0] not in (1, 3, 4):
        return False
    return min(image_shape[1:]) > 4
