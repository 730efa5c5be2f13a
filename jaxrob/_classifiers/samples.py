"""Batches and items of other libraries' data sources, as arrays."""

import contextlib
import dataclasses
import itertools
import sys
from collections.abc import Iterable, Iterator, KeysView, Mapping, ValuesView
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxrob._arguments.checks import check_type, checked_flag, checked_text, plain_array
from jaxrob._arguments.messages import named, wrong_type
from jaxrob._arguments.texts import warn

_PICTURE_MODES = ("L", "RGB")
_OTHER = "what is no array of the image's size"
# A loader of a part of a data set of ...: nobody nests more.
_MOST_NESTED = 8
_OF_NAMES = "classes", "class_names", "class_to_idx"
_BATCH_BYTES = 1 << 26
_MOST_IN_BATCH = 1024


class Parts(NamedTuple):
    """Where an item or a batch of a source has its image and its label."""

    image: str = "image"  # The key of the image, where it is a mapping
    label: str = "label"  # The key of the label
    # Whether images are `[C, H, W]`; None if that is not known
    channels_first: bool | None = None


def checked_parts(image: Any, label: Any, channels_first: Any) -> Parts:
    if channels_first is not None:
        channels_first = checked_flag("channels_first", channels_first)
    return Parts(
        checked_text("image", image), checked_text("label", label), channels_first
    )


def check_source(name: str, source: Any, wanted: str, *, has_items: bool) -> None:
    """Rejects a source that cannot be read to its end, or only once."""
    if isinstance(source, Iterator):
        raise TypeError(
            f"{name} must be iterable more than once; got {named(source)}, "
            "which is used up after one pass (wrap its maker in a class with "
            "__iter__)"
        )
    if isinstance(source, Mapping):
        keys = ", ".join(repr(key) for key in itertools.islice(source, 8))
        raise TypeError(
            f"{name} must be {wanted}; got {named(source)} with the keys {keys} "
            "(take one, such as a split)"
        )
    kind = type(source)
    is_sequence = hasattr(kind, "__getitem__") and hasattr(kind, "__len__")
    if not (isinstance(source, Iterable) or (has_items and is_sequence)) or isinstance(
        source, str | bytes | type | np.ndarray | jax.Array
    ):
        raise wrong_type(name, wanted, source)
    if _has_no_end(source):
        raise ValueError(
            f"{name} must end; got {named(source)}, which repeats (leave out repeat)"
        )


def as_array(value: Any) -> Any:
    if _is_tensor(value):
        return _of_tensor(value)
    if _is_picture(value):
        if value.mode not in _PICTURE_MODES:
            raise ValueError(
                f"pictures must be grey (L) or RGB; got one of mode {value.mode}: "
                'convert them in the source, as by picture.convert("RGB")'
            )
        return np.atleast_3d(value)
    if _is_list_of_arrays(value):
        return _stacked([as_array(one) for one in value])
    return value


def read_batch(batch: Any, parts: Parts) -> tuple[Any, Any]:
    images, labels = _image_and_label(batch, "a batch", "images, labels", parts)
    is_single = isinstance(labels, int | str) or getattr(labels, "ndim", None) == 0
    if is_single or _is_picture(images):
        raise ValueError(
            "a batch must have several images, and a label for each; got "
            f"{named(images)} and {named(labels)}: of single items make a data set by "
            "Dataset.from_items"
        )
    if _is_list_of_arrays(images):
        found = _stacked([_image(one, parts) for one in images])
    else:
        found = as_array(images)
        if not isinstance(found, np.ndarray | jax.Array):
            found = plain_array("images", found, "an array [N, ...]")
        found = _own(_channels_last(found, parts.channels_first, 1))
    labels = _as_label(labels)
    if _is_list_of_arrays(labels):
        labels = _together(labels, found.shape[1:])
    return found, labels


def read_items(
    source: Any, parts: Parts, name: str, most_bytes: int
) -> tuple[np.ndarray, Any] | None:
    images, labels, size, number = [], [], 0, _length(source) or 1
    for image, label in _read_each(source, parts, name):
        size += (each := _bytes(image, label))
        if max(size, number * each) > most_bytes:
            return None
        images.append(image)
        labels.append(label)
    if not images:
        raise ValueError(f"items is empty; {name} needs at least one")
    again, _ = next(_read_each(source, parts, name))
    if again.tobytes() != images[0].tobytes():
        raise ValueError(
            f"items of {name} must be the same whenever they are read; item 0 is not "
            "what it was before. Leave out shuffling and random augmentation."
        )
    return np.stack(images), _together(labels, images[0].shape)


@dataclasses.dataclass(frozen=True, eq=False)
class ItemBatches:
    source: Any  # A sequence or an iterable of items
    parts: Parts  # Where an item has its image and label
    name: str  # The data set's name, for messages

    def __iter__(self) -> Iterator[tuple[np.ndarray, Any]]:
        """Yields images and labels, about 64 MiB at a time."""
        items = _read_each(self.source, self.parts, self.name)
        for first in items:
            number = max(1, min(_MOST_IN_BATCH, _BATCH_BYTES // _bytes(*first)))
            group = [first, *itertools.islice(items, number - 1)]
            images, labels = zip(*group)
            yield np.stack(images), _together([*labels], images[0].shape)


def class_names_of(
    source: Any, label: str, nested: int = _MOST_NESTED
) -> tuple[str, ...] | None:
    """Finds the class names that a source, or what it is made of, carries."""
    # As Hugging Face, MAITE, torchvision, Keras and torch's `dataset` carry them.
    held = (getattr(source, name, None) for name in ("features", "metadata"))
    features, metadata = (one if isinstance(one, Mapping) else {} for one in held)
    feature = getattr(features.get(label), "feature", features.get(label))  # A batch's.
    own = [getattr(feature, "names", None), metadata.get("index2label")]
    own += [getattr(source, name, None) for name in _OF_NAMES]
    if found := next(filter(None, map(_class_names, own)), None):
        numbers = own[-1]
        if isinstance(numbers, Mapping) and {*numbers} == {*found}:
            found = tuple(sorted(found, key=numbers.__getitem__))
        number = getattr(source, "target_transform", None) or int
        with contextlib.suppress(Exception):  # The user's code may raise anything.
            numbers = [int(number(at)) for at in range(len(found))]
            if sorted(numbers) == [*range(len(found))]:
                return tuple(name for _, name in sorted(zip(numbers, found)))
        return None
    parts = getattr(source, "datasets", None)  # Of several, one after the other.
    if not isinstance(parts, list | tuple):
        parts = [getattr(source, "dataset", None)]
    parts = [one for one in parts if one is not None and nested > 0]
    each = {class_names_of(one, label, nested - 1) for one in parts}
    for number, names in enumerate(itertools.zip_longest(*filter(None, each))):
        if len(differ := sorted({*names} - {None})) > 1:
            warn(
                f"{named(source)} joins data sets whose class {number} is one of "
                f"{differ}: leave it so only if a target_transform renumbers them"
            )
            break
    return each.pop() if len(each) == 1 else None


def _class_names(names: Any) -> tuple[str, ...]:
    """The names in a list, array or index, or by number, in JSON a text; or none."""
    if isinstance(names, Mapping):
        are_numbers = all(isinstance(one, int | np.integer) for one in names.values())
        pairs = (one[::-1] if are_numbers else one for one in names.items())
        known = {int(at): name for at, name in pairs if str(at).isdecimal()}
        names = [known.get(at) for at in range(len(names))]
        names *= None not in names
    elif getattr(getattr(names, "dtype", None), "kind", None) in ("O", "S", "U", "T"):
        names = names.tolist()
    if not isinstance(names, list | tuple | KeysView | ValuesView):
        return ()
    # ImageNet's are tuples of synonyms.
    return tuple(
        ", ".join(map(str, one)) if isinstance(one, list | tuple) else str(one)
        for one in (one.decode() if isinstance(one, bytes) else one for one in names)
    )


def _has_no_end(source: Any) -> bool:
    if (length := _length(source)) is not None:
        return length >= sys.maxsize  # Grain's `repeat`.
    is_tensorflow = callable(getattr(source, "cardinality", None))
    return is_tensorflow and int(source.cardinality()) == -1


def _length(source: Any) -> int | None:
    try:
        return len(source)
    except TypeError:  # It has none, or one that is not known or infinite.
        return None


def _read_each(
    source: Any, parts: Parts, name: str
) -> Iterator[tuple[np.ndarray, Any]]:
    # Images, and labels of their size, have one shape and type; labels one kind.
    each = source
    if not hasattr(type(source), "__iter__"):
        each = (source[index] for index in range(len(source)))
    first = None
    for index, item in enumerate(each):
        try:
            image, label = _read_item(item, parts)
        except (TypeError, ValueError) as error:
            raise type(error)(f"item {index} of {name}: {error}") from error
        kind = image.shape, image.dtype, _kind_of_label(label, image.shape)
        first = first or kind
        if kind[:2] != first[:2]:
            raise ValueError(
                f"item {index} of {name}: an image of the shape {kind[0]} and type "
                f"{kind[1]} after images of the shape {first[0]} and type {first[1]}: "
                "resize and convert them in the source"
            )
        if kind != first:
            raise ValueError(
                f"item {index} of {name}: the labels must be of one kind; got "
                f"{kind[2]} after {first[2]}"
            )
        yield image, label


def _read_item(item: Any, parts: Parts) -> tuple[np.ndarray, Any]:
    image, label = _image_and_label(item, "an item", "image, label", parts)
    image, label = np.array(_image(image, parts)), _as_label(label)
    if isinstance(label, list | dict) or np.ndim(label):
        if image.ndim > 3 and len(label) == len(image):
            raise ValueError(
                f"an item must be one image with its label; got {len(label)} labels, "
                f"and images of the shape {image.shape}: of batches make a data set "
                "by Dataset.from_batches"
            )
        return image, label
    found = plain_array("the label of an item", label, "an integer")
    if found.dtype.kind not in "iuTU":
        raise wrong_type("the label of an item", "an integer", label)
    return image, found.item()


def _as_label(value: Any) -> Any:
    """Returns a label, or a list or dict of them, with own NumPy arrays for tensors."""
    # Pictures become arrays `[H, W]` or `[H, W, C]`, those of a palette its indices.
    if _is_tensor(value):
        return _own(_of_tensor(value))
    if isinstance(value, Mapping):
        return {name: _as_label(one) for name, one in value.items()}
    if isinstance(value, np.ndarray) and value.dtype == object:
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [_as_label(one) for one in value]
    if isinstance(value, np.ndarray):
        return _own(value)
    if isinstance(value, str | bytes | int | float | np.generic | None):
        return value
    copy = np.array(value)  # It may be filled again.
    return value if copy.dtype == object else copy


def _own(value: Any) -> Any:
    """Copies an array in memory: a source may fill the same one again."""
    if isinstance(value, jax.Array):
        # `jax.device_put` may share the memory of a NumPy array.
        return jax.block_until_ready(value.copy())
    if isinstance(value, np.ndarray):
        value = plain_array("an array of a source", value, "an array").copy()
    return value


def _together(labels: list[Any], image_shape: tuple[int, ...]) -> Any:
    """Returns labels as an array if they are single numbers or of the images' size."""
    # Others stay a list. It does not depend on how many boxes each image has.
    kinds = {_kind_of_label(one, image_shape) for one in labels}
    return labels if _OTHER in kinds or len(kinds) > 1 else np.array(labels)


def _kind_of_label(label: Any, image_shape: tuple[int, ...]) -> str:
    """Says what a label is: those of one kind become one array, except `_OTHER`."""
    if not isinstance(label, list | dict) and np.ndim(label) == 0:
        return "a text" if isinstance(label, str) else "a number"
    shape, size = getattr(label, "shape", ()), image_shape[:2]
    if len(shape) > 1 and len(size) == 2 and size in (shape[:2], shape[-2:]):
        return f"an array of the shape {shape} and type {np.asarray(label).dtype}"
    return _OTHER


def _bytes(image: np.ndarray, label: Any) -> int:
    return image.nbytes + getattr(label, "nbytes", 0)


def _image_and_label(
    given: Any, what: str, wanted: str, parts: Parts
) -> tuple[Any, Any]:
    if isinstance(given, Mapping):
        for argument, key in (("image", parts.image), ("label", parts.label)):
            if key not in given:
                keys = ", ".join(repr(one) for one in given)
                raise ValueError(f"{what} has no {key!r} but {keys}: pass {argument}=")
        return given[parts.image], given[parts.label]
    check_type(what, given, list | tuple, f"({wanted}), or a mapping with these")
    if len(given) != 2:
        raise ValueError(
            f"{what} must be ({wanted}), or a mapping of both; got {len(given)} values"
        )
    return given[0], given[1]


def _image(value: Any, parts: Parts) -> Any:
    array = as_array(value)
    if _is_picture(value):
        return array
    if not isinstance(array, jax.Array):
        array = plain_array("an image", array, "an array")
    return _channels_last(array, parts.channels_first, 0)


def _channels_last(array: Any, channels_first: bool | None, leading: int) -> Any:
    """Moves the channels of images behind `leading` axes to the end, if first."""
    shape = array.shape[leading:]
    if len(shape) == 2 and channels_first is not None:
        return array[..., None]  # They are said to be images: of one channel.
    if len(shape) == 3 and channels_first is None and shape[0] < shape[-1]:
        raise ValueError(
            f"images of the shape {shape} have fewer rows than channels, as if the "
            "channels came first: pass channels_first=True, or False if they are "
            "[H, W, C]"
        )
    if len(shape) != 3 or not channels_first:
        return array
    if isinstance(array, jax.Array):
        return jnp.moveaxis(array, leading, -1)
    return np.ascontiguousarray(np.moveaxis(array, leading, -1))


def _stacked(images: list[Any]) -> np.ndarray:
    shapes = [np.shape(image) for image in images]
    for index, shape in enumerate(shapes):
        if shape != shapes[0]:
            raise ValueError(
                f"the images of a batch must have one shape; image {index} has "
                f"{shape}, the first has {shapes[0]}: resize them in the source"
            )
    return np.stack(images)


def _is_list_of_arrays(value: Any) -> bool:
    """Whether it is a list of tensors or pictures: not of numbers, or of lists."""
    plain = bool | int | float | complex | str | bytes | list | tuple | None
    is_list = isinstance(value, list | tuple) and len(value) > 0
    return is_list and not any(isinstance(one, plain) for one in value)


def _of_tensor(value: Any) -> np.ndarray:
    value = value.detach().cpu()
    try:
        return value.numpy()
    except TypeError:  # bfloat16, which NumPy lacks.
        return value.float().numpy()


def _is_tensor(value: Any) -> bool:
    return hasattr(value, "detach") and hasattr(value, "cpu")


def _is_picture(value: Any) -> bool:
    """Whether it is one of Pillow's images. Where it is not loaded, there is none."""
    pillow = sys.modules.get("PIL.Image")
    return pillow is not None and isinstance(value, pillow.Image)
