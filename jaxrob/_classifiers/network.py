"""What surrounds a network: preprocessing, the host, a trace, a score of outputs."""

import dataclasses
import functools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr

from jaxrob._arguments.checks import (
    as_written,
    check_choice,
    check_hashable,
    check_type,
    checked_array,
    checked_flag,
    checked_integer,
    checked_size,
)
from jaxrob._arguments.messages import (
    IF_NO_CLASSES,
    class_outputs,
    failed_on_images,
    if_no_classes,
    looks_channels_first,
)
from jaxrob._arguments.texts import required
from jaxrob._devices.host_function import HostFunction, host_callback
from jaxrob._identity.identity import Fingerprinted, hashable_partial, traced

_LARGEST = float(np.finfo(np.float32).max)

_PURPOSE = "Classifier.from_equinox"
_ACTIVATIONS = {
    "softmax": "probabilities",
    "sigmoid": "sigmoid",
    "hardsigmoid": "sigmoid",
    "logsoftmax": "logits",
}


# Images in a trace: more than one, so that a batch cannot pass for an image.
ROWS = 2

# How the labels lie in the picture, and so how they move with its pixels.
LABELS = ("fixed", "masks", "boxes")
#: The name of a score: it stands in tables and file names.
SCORE_NAME = r"[^\s\x00-\x1f\x7f]([^\x00-\x1f\x7f]{0,58}[^\s\x00-\x1f\x7f])?"

# One number, or one for each channel; a height and a width, or one number for both.
Numbers = float | Sequence[float] | np.ndarray
Size = int | tuple[int, int] | None


@dataclasses.dataclass(frozen=True)
class Preprocessing:
    """What is done to pixels in [0, 1] before a network's first layer.

    Alterations see images `[B, H, W, C]`; the network sees
    `(scale * pixels - mean) / std`, in its own layout.

    Example::

        imagenet = jaxrob.Preprocessing(
            mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225), size=224
        )
        classifier = jaxrob.Classifier.from_torch(module, preprocessing=imagenet)

    Attributes:
      scale: the factor of pixels, one number or one for each channel; 255 for a network
        that takes 0 to 255.
      mean: the number subtracted then, or one for each channel.
      std: the divisor applied last, or one for each channel.
      channels_first: whether the network takes `[B, C, H, W]`, or `[B, H, W, C]`. By
        default what its framework does: the former for torch and Equinox, the latter
        for NNX, Keras and functions; of ONNX what the input's shape says.
      size: the height and width of the images that it takes, or one number for both;
        by default any, and of ONNX what the input's shape says. Images of other sizes
        are rejected. Resize images on loading, see `jaxrob.data.image_folder`, so that
        levels in pixels keep their meaning.

    Raises:
      TypeError: if one has a wrong type.
      ValueError: if one is outside its range.
    """

    scale: Numbers = 1.0
    mean: Numbers = 0.0
    std: Numbers = 1.0
    channels_first: bool | None = None
    size: Size = None

    def __post_init__(self) -> None:
        for name in ("scale", "mean", "std"):
            object.__setattr__(self, name, _numbers(name, getattr(self, name)))
        if (np.array(self.scale, np.float32) == 0).any():
            raise ValueError(
                f"scale must not be 0, which makes images black; got {self.scale}"
            )
        if (np.array(self.std, np.float32) <= 0).any():
            raise ValueError(f"std must be positive; got {self.std}")
        if len({1, *map(np.size, (self.scale, self.mean, self.std))}) > 2:
            raise ValueError(
                "scale, mean and std must be one number, or one for each channel; got "
                f"{self.scale}, {self.mean} and {self.std}"
            )
        if self.channels_first is not None:
            first = checked_flag("channels_first", self.channels_first)
            object.__setattr__(self, "channels_first", first)
        object.__setattr__(self, "size", checked_size(self.size))

    @property
    def is_none(self) -> bool:
        """Whether images are unchanged."""
        return self.laid_out(False) == Preprocessing(channels_first=False)

    def laid_out(self, channels_first: bool) -> "Preprocessing":
        """Returns it with a framework's layout, unless it has one."""
        if self.channels_first is not None:
            return self
        return dataclasses.replace(self, channels_first=channels_first)

    def __call__(self, images: jax.Array) -> jax.Array:
        """Preprocesses images for the network."""
        if self.is_none:
            return images
        self._check(images.shape)
        scale, mean, std = map(_row, (self.scale, self.mean, self.std))
        if self.scale != (1.0,):
            images = images * scale
        if self.mean != (0.0,) or self.std != (1.0,):
            images = (images - mean) / std
        return jnp.moveaxis(images, -1, 1) if self.channels_first else images

    def _check(self, shape: tuple[int, ...]) -> None:
        if len(shape) != 4:
            raise ValueError(
                "the classifier's preprocessing needs images [B, H, W, C]; got the "
                f"shape {shape}"
            )
        if self.size is not None and shape[1:3] != self.size:
            advice = (
                ". Resize and crop them on loading, for instance by "
                f"jaxrob.data.image_folder(path, size={self.size}); or, if the network "
                f"takes their size, make its Preprocessing with size={shape[1:3]}"
            )
            raise ValueError(
                f"the classifier takes images of size={self.size}; got "
                f"{shape[1]}x{shape[2]} pixels"
                + ("" if looks_channels_first(shape[1:]) else advice)
            )
        names = "scale", "mean", "std"
        number, name = max((np.size(getattr(self, name)), name) for name in names)
        if number not in (1, shape[3]):
            grey = (
                ". Give one number if the network takes grey pictures, or else make "
                'them RGB in the source, convert("RGB"), or by np.repeat(images, 3, -1)'
            )
            raise ValueError(
                f"{name} has {number} numbers, but the images have {shape[3]} "
                f"channel{'s' * (shape[3] > 1)}{grey * (shape[3] == 1)}"
            )


class Network(NamedTuple):
    """The parts of a classifier, as its framework says them; see `Classifier`."""

    function: Callable[..., Any]
    outputs: str = "logits"
    name: str | None = None
    num_classes: int | None = None  # None if not yet known
    variables: Any = ()
    class_names: tuple[str, ...] | None = None


def linen_network(
    module: Any, variables: Any, outputs: str, call: dict[str, Any]
) -> Network:
    # Flax is imported only where it is used: a plain function does not need it.
    from flax import linen

    check_type("module", module, linen.Module, "a Flax Linen module")
    check_type("variables", variables, Mapping, "what module.init returns")
    for name, value in call.items():
        check_hashable(name, value)
    function = hashable_partial(_apply_linen, module=module, **call)
    return Network(function, outputs, variables=variables)


def nnx_network(
    module: Any, outputs: str, preprocessing: Preprocessing | None, name: str | None
) -> Network:
    from flax import nnx

    check_type("module", module, nnx.Module, "a Flax NNX module")
    graph, state = nnx.split(module)
    layout = checked_layout(preprocessing, False)
    function = preprocessed(hashable_partial(_apply_nnx, graph=graph), layout)
    return Network(function, outputs, name, variables=snapshot(state))


def equinox_network(
    module: Any,
    state: Any,
    outputs: str,
    preprocessing: Preprocessing | None,
    name: str | None,
) -> Network:
    equinox = required("equinox", _PURPOSE, "equinox")
    check_type("module", module, equinox.Module, "an Equinox module")
    wanted = "an equinox.nn.State or None"
    check_type("state", state, equinox.nn.State | None, wanted)
    own = equinox.nn.inference_mode(module)
    arrays, rest = equinox.partition(
        own, lambda leaf: isinstance(leaf, jax.Array | np.ndarray)
    )
    check_hashable("module", rest)
    layout = checked_layout(preprocessing, True)
    function = preprocessed(hashable_partial(_apply_equinox, rest=rest), layout)
    return Network(function, outputs, name, variables=snapshot((arrays, state)))


def host_network(
    function: Any,
    num_classes: int | None,
    outputs: str,
    preprocessing: Preprocessing | None,
    name: str | None,
    version: str | None,
    batch_size: int | None,
) -> Network:
    check_type("function", function, Callable, "a function of a NumPy array of images")
    is_any = outputs == "any"
    if is_any and num_classes is not None:
        raise ValueError(
            f'num_classes must be None with outputs="any"; got {num_classes}'
        )
    if not is_any:
        if num_classes is None:
            raise TypeError(
                f"num_classes must be an integer, the K of [B, K]; got None. "
                f"{IF_NO_CLASSES}"
            )
        num_classes = checked_integer("num_classes", num_classes, at_least=1)
    host = HostFunction(function, num_classes, name, version, batch_size, is_any=is_any)
    expected = None if num_classes is None else max(num_classes, 2)
    layout = checked_layout(preprocessing, False)
    return Network(OnHost(host, layout), outputs, name, expected)


def checked_layout(
    preprocessing: Preprocessing | None, channels_first: bool
) -> Preprocessing:
    wanted = "a jaxrob.Preprocessing or None"
    check_type("preprocessing", preprocessing, Preprocessing | None, wanted)
    return (preprocessing or Preprocessing()).laid_out(channels_first)


def preprocessed(
    function: Callable[..., Any], preprocessing: Preprocessing
) -> Callable[..., Any]:
    return function if preprocessing.is_none else Preprocessed(function, preprocessing)


@dataclasses.dataclass(frozen=True)
class Preprocessed:
    function: Callable[..., Any]
    preprocessing: Preprocessing

    def __call__(self, variables: Any, images: jax.Array) -> Any:
        return self.function(variables, self.preprocessing(images))


@dataclasses.dataclass(frozen=True)
class OnHost:
    """An `apply_fn` that preprocesses images on the device and calls the host."""

    function: HostFunction
    preprocessing: Preprocessing

    def __call__(self, variables: Any, images: jax.Array) -> jax.Array:
        del variables
        return host_callback(self.function, self.preprocessing(images))


def on_host(apply_fn: Any) -> OnHost | None:
    function = apply_fn.function if isinstance(apply_fn, Fingerprinted) else apply_fn
    return function if isinstance(function, OnHost) else None


def outputs_after(activation: str) -> str | None:
    return _ACTIVATIONS.get(activation.replace("_", "").lower())


def snapshot(tree: Any) -> Any:
    # Training in place may write into arrays, assign variables, or donate buffers.
    return jax.tree.map(lambda one: one.copy() if hasattr(one, "copy") else one, tree)


def _numbers(name: str, value: Any) -> tuple[float, ...]:
    array = np.atleast_1d(as_written(checked_array(name, value, "...")))
    if array.ndim != 1 or not array.size:
        raise ValueError(
            f"{name} must be a number, or one for each channel; got the shape "
            f"{array.shape}"
        )
    if np.abs(array).max() > _LARGEST:
        raise ValueError(f"{name} must be numbers that float32 holds; got {value}")
    return tuple(float(number) for number in array)


def _row(values: Any) -> jax.Array:
    """Builds an array inside the program; a constant array would count as captured."""
    return jnp.concatenate([jnp.full(1, value, jnp.float32) for value in values])


def _apply_linen(variables: Any, images: jax.Array, *, module: Any, **call: Any) -> Any:
    return module.apply(variables, images, **call)


def _apply_nnx(state: Any, images: Any, *, graph: Any) -> Any:
    from flax import nnx

    module = nnx.merge(graph, state)
    module.eval()
    return module(images)


def _apply_equinox(variables: Any, images: jax.Array, *, rest: Any) -> Any:
    equinox = required("equinox", _PURPOSE, "equinox")
    arrays, state = variables
    module = equinox.combine(arrays, rest)
    if state is None:
        return jax.vmap(module)(images)
    # In inference mode no image changes the state.
    return jax.vmap(lambda image: module(image, state)[0])(images)


@dataclasses.dataclass(frozen=True)
class Score:
    """How good a network's output is, by a function of yours, image by image.

    `evaluate` and `assess` take one as `score`, or the function alone. The measure at a
    level is then the mean score; robustness, intervals, few images, comparisons and
    reports follow from it.

    Example::

        def iou(outputs, masks):
            found = outputs[..., 0] > 0
            shared = (found & masks).sum((1, 2))
            either = (found | masks).sum((1, 2))
            # Right where nothing is there and nothing is found.
            return jnp.where(either == 0, 1, shared / jnp.maximum(either, 1))

        score = jaxrob.Score(iou, name="IoU", version="1", labels="masks")
        result = jaxrob.assess(network, dataset, blur, threshold=0.7, score=score)

    Attributes:
      function: takes the outputs of B images and their labels, and returns `[B]`
        numbers in [0, 1], where 1 is best. Outputs are those of the network as it
        returns them (of a network with classes, float32 `[B, K]`, or `[S, B, K]` of S
        samples). Labels are an array `[B, ...]`, or a list of B entries where the data
        set has a list. A function that JAX can trace runs on the devices, others
        on the host, with NumPy arrays. Each image's score must depend on its own output
        and label alone.
      name: its name in tables, reports and journals: up to 60 characters on one line;
        by default the function's own. The measure is then "mean IoU", for instance.
      version: identifies the function, together with its name; to be changed whenever
        its values may change. A journal and `compare` need both.
      labels: what an alteration that moves pixels (a translation, rotation or zoom)
        does with the labels:

        * "fixed": nothing, they say nothing about places;
        * "masks": they are arrays `[H, W]` or `[H, W, C]` of the picture's size, which
          are altered as it is, integers and booleans by the nearest pixel;
        * "boxes": each image has an array `[M, 4 + k]` that begins with x1, y1, x2, y2
          in pixels (fractions of the picture are refused), or a dict with such "boxes"
          and M classes, ids or scores beside them, by these names. Boxes are moved and
          clipped to the picture; those outside are left out, with their entries; the k
          columns, single numbers and texts stay, so they must say nothing of places.
          The score then runs on the host, and gets floating arrays, `[0, 4]` for an
          empty list;
        * None: not said. Class indices `[N]` are fixed; other labels are then rejected
          with an alteration that moves pixels.

    Raises:
      TypeError: if the function is not callable, or a text is none.
      ValueError: if the name or `labels` is none of those.
    """

    function: Callable[[Any, Any], Any]
    name: str = ""
    version: str | None = None
    labels: str | None = None

    def __post_init__(self) -> None:
        check_type("score", self.function, Callable, "a function of outputs and labels")
        check_type("name", self.name, str, "text")
        check_type("version", self.version, str | None, "text or None")
        if self.labels is not None:
            check_choice("labels", self.labels, LABELS)
        if not self.name:
            own = getattr(self.function, "__name__", "")
            object.__setattr__(self, "name", own if own.isidentifier() else "score")
        check_score_name("name of a score", self.name)


def check_score_name(name: str, value: Any) -> None:
    check_type(name, value, str, "text")
    if not re.fullmatch(SCORE_NAME, value):
        raise ValueError(
            f"{name} must have 1 to 60 characters on one line, without spaces at the "
            f"ends; got {value!r}"
        )


def checked_score(score: Any) -> Score | None:
    if score is None or isinstance(score, Score):
        return score
    wanted = "a jaxrob.Score or a function of outputs and labels"
    check_type("score", score, Callable, wanted)
    return Score(score)


def program_of(
    classifier: Any, image_shape: tuple[int, ...]
) -> tuple[ClosedJaxpr, Any]:
    """Traces a classifier in its present state for two images."""
    plain = dataclasses.replace(classifier, variables=None)

    # Captured, not passed: JAX's caches keep arguments' types, with its function, long.
    def outputs(variables: Any, images: jax.Array, keys: jax.Array) -> Any:
        of_these = dataclasses.replace(plain, variables=variables)
        if plain.outputs != "any":
            return of_these.raw_outputs(images, keys)
        # In a dictionary, so that no array passes for outputs of classes.
        returned = of_these.returned(images, keys)
        _check_images_first(returned)
        return {"any": returned}

    variables = jax.tree.map(abstract, classifier.variables)
    try:
        return traced(outputs, variables, *inputs_of(image_shape))
    except Exception as error:
        raise failed_on_images("the classifier", image_shape, error) from error


def class_columns(returned: Any, number: int, kind: str) -> jax.Array:
    """Returns outputs `[S, B, K]` of B images; a single column becomes two."""
    returned = class_outputs("the classifier", returned, number)
    outputs = jnp.asarray(returned).astype(jnp.float32)
    if outputs.ndim == 2:
        outputs = outputs[None]
    if outputs.ndim != 3 or outputs.shape[1] != number:
        raise ValueError(
            f"the classifier must return [B, K] or [S, B, K] for B = {number} images; "
            f"got the shape {returned.shape}. {if_no_classes(returned.shape)}"
        )
    if outputs.shape[-1] == 1 and kind in ("logits", "sigmoid"):
        other = jnp.zeros_like(outputs) if kind == "logits" else 1 - outputs
        outputs = jnp.concatenate([other, outputs], axis=-1)
    if outputs.shape[-1] < 2:
        raise ValueError(
            "the classifier must return at least two classes; got the shape "
            f'{outputs.shape} (one column alone must be "logits" or "sigmoid")'
        )
    return outputs


def abstract(leaf: Any) -> jax.ShapeDtypeStruct:
    kind = jax.typeof(leaf)
    return jax.ShapeDtypeStruct(kind.shape, kind.dtype)


def inputs_of(image_shape: tuple[int, ...]) -> tuple[Any, Any]:
    return jax.ShapeDtypeStruct((ROWS, *image_shape), jnp.float32), _keys()


@functools.cache
def _keys() -> jax.ShapeDtypeStruct:
    return jax.eval_shape(lambda: jax.random.split(jax.random.key(0), ROWS))


def _check_images_first(returned: Any) -> None:
    for path, leaf in jax.tree_util.tree_flatten_with_path(returned)[0]:
        if np.shape(leaf)[:1] != (ROWS,):
            raise ValueError(
                f'a network with outputs="any" must return arrays [B, ...] for B = '
                f"{ROWS} images; got the shape {np.shape(leaf)}"
                + (f" at {jax.tree_util.keystr(path)}" if path else "")
            )
