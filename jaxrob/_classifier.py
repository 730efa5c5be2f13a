"""A classifier, from any framework, as a function from images to class outputs."""

import dataclasses
import functools
import math
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr

from jaxrob._adapters.keras_model import check_layers
from jaxrob._adapters.networks import (
    Network,
    keras_network,
    nnx_network,
    onnx_network,
    torch_network,
)
from jaxrob._adapters.on_host import OnHost
from jaxrob._adapters.preprocessing import checked_preprocessing
from jaxrob._arguments.checks import (
    check_choice,
    check_hashable,
    check_type,
    checked_flag,
    checked_integer,
    checked_names,
    checked_sequence,
)
from jaxrob._arguments.failures import check_one_array, failed_on_images
from jaxrob._arguments.naming import named
from jaxrob._devices.host_function import MOST_IMAGES, HostFunction
from jaxrob._identity.fingerprinted import Fingerprinted
from jaxrob._identity.hashable_partial import hashable_partial
from jaxrob._identity.program import traced
from jaxrob._identity.trace import Trace, seen
from jaxrob._log_probabilities import log_normalised

# What `apply_fn` may return.
OUTPUTS = ("logits", "probabilities", "sigmoid", "scores")

# One number, or one for each channel; a height and a width, or one number for both.
Numbers = float | Sequence[float] | np.ndarray
Size = int | tuple[int, int] | None

# Images in a trace: more than one, so that no function mistakes the batch for an image.
_ROWS = 2


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Classifier:
    """What the library measures: a pure function from images to class outputs.

    Wrap a network of your own in it, or use `from_linen`, `from_nnx`, `from_torch`,
    `from_onnx`, `from_keras` or `from_host`.
    It is a pytree whose leaves are the variables: new variables of the same shapes run
    in the programs that were compiled for the old ones.

    Example::

        def apply_fn(variables, images):
            return images.reshape(len(images), -1) @ variables["weights"]

        variables = {"weights": jnp.zeros((784, 10))}
        classifier = jaxrob.Classifier(apply_fn, variables)

    Attributes:
      apply_fn: `apply_fn(variables, images)`, or `apply_fn(variables, images, keys)`
        if `stochastic`, with float32 images `[B, H, W, C]` and one key for each
        image. It returns one array, `[B, K]`, or `[S, B, K]` from S posterior samples
        or members of an ensemble. Give the same function object each time: another one
        is compiled anew, even if it does the same. Arrays that the function takes from
        around it, such as a module's weights, become constants of the compiled
        program: new ones are seen, but compiled anew, and draw a warning. Numbers that
        it takes from there stay what they were at first, as under `jax.jit`.
      variables: a pytree of arrays; weights belong here.
      outputs: what `apply_fn` returns:

        * "logits";
        * "probabilities", which sum to 1;
        * "sigmoid", an activation in [0, 1] for each class, normalised to sum to 1
          (a single column is the activation of class 1 of 2);
        * "scores", of which only the largest counts. What needs probabilities refuses
          them.
      stochastic: whether `apply_fn` takes keys.
      name: what provenance and journals call it, or None.
      class_names: one name for each class, in the order of the outputs, or None. A data
        set with other names is refused.

    Raises:
      TypeError: if `apply_fn` is not callable.
      ValueError: if `outputs` is none of the above.
    """

    apply_fn: Callable[..., Any] = dataclasses.field(metadata={"static": True})
    variables: Any = dataclasses.field(default=None, repr=False)
    outputs: str = dataclasses.field(default="logits", metadata={"static": True})
    stochastic: bool = dataclasses.field(default=False, metadata={"static": True})
    name: str | None = dataclasses.field(default=None, metadata={"static": True})
    class_names: tuple[str, ...] | None = dataclasses.field(
        default=None, metadata={"static": True}, repr=False
    )

    def __post_init__(self) -> None:
        check_type(
            "apply_fn", self.apply_fn, Callable, "a function of variables and images"
        )
        check_choice("outputs", self.outputs, OUTPUTS)
        checked_flag("stochastic", self.stochastic)
        check_type("name", self.name, str | None, "text or None")
        if self.class_names is not None:
            names = checked_names("class_names", self.class_names)
            object.__setattr__(self, "class_names", names)
        for leaf in jax.tree.leaves(self.variables):
            is_text = isinstance(leaf, np.ndarray) and leaf.dtype.kind in "US"
            if is_text or isinstance(leaf, str | bytes):
                raise TypeError(f"variables must hold arrays; got {named(leaf)}")

    @staticmethod
    def from_linen(
        module: Any, variables: Any, outputs: str = "logits", **call: Any
    ) -> "Classifier":
        """A Flax Linen module with its variables, as a classifier.

        Example::

            module = jaxrob.networks.MLP()
            variables = module.init(jax.random.key(0), jnp.zeros((1, 28, 28, 1)))
            classifier = jaxrob.Classifier.from_linen(module, variables)

        Args:
          module: the module; `module.apply(variables, images, **call)` is called.
          variables: all collections, as `module.init` returns them: parameters, batch
            statistics and so on. None of them is changed.
          outputs: see `Classifier`.
          **call: further keyword arguments of the module's call, such as
            `train=False`, with hashable values.
        """
        # Flax is imported only where it is used: a plain function needs none of it.
        from flax import linen

        check_type("module", module, linen.Module, "a Flax Linen module")
        check_type("variables", variables, Mapping, "what module.init returns")
        for name, value in call.items():
            check_hashable(name, value)
        return Classifier(
            hashable_partial(_apply_linen, module=module, **call), variables, outputs
        )

    @staticmethod
    def from_nnx(
        module: Any,
        outputs: str = "logits",
        *,
        scale: Numbers | None = None,
        mean: Numbers | None = None,
        std: Numbers | None = None,
        channels_first: bool = False,
        size: Size = None,
        name: str | None = None,
        class_names: Sequence[str] | None = None,
    ) -> "Classifier":
        """A Flax NNX module as it is now, applied in evaluation mode.

        The classifier has a copy of all variables: training that goes on does not
        change it. Nor is the module changed.

        Args:
          module: the module, called with images `[B, H, W, C]`.
          outputs: see `Classifier`.
          scale: see `from_torch`; likewise `mean`, `std`, `channels_first`, `size`,
            `name` and `class_names`.
          mean: likewise.
          std: likewise.
          channels_first: likewise.
          size: likewise.
          name: likewise.
          class_names: likewise.
        """
        given = checked_preprocessing(scale, mean, std, channels_first, size)
        function, variables = nnx_network(module, given)
        return Classifier(
            function, variables, outputs, name=name, class_names=_names(class_names)
        )

    @staticmethod
    def from_torch(
        module: Any,
        outputs: str | None = None,
        *,
        scale: Numbers | None = None,
        mean: Numbers | None = None,
        std: Numbers | None = None,
        channels_first: bool = True,
        size: Size = None,
        batch_size: int | None = None,
        name: str | None = None,
        version: str | None = None,
        class_names: Sequence[str] | None = None,
    ) -> "Classifier":
        """A torch module as it is now, run by torch on the host, with gradients.

        The classifier has a copy of it, in evaluation mode; yours is left as it is.
        Gradients in the images are those of torch's autograd, so attacks and RoMA's
        importance sampling work. Needs the extra `jaxrob[torch]`.

        Example::

            classifier = jaxrob.Classifier.from_torch(
                module, mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225), size=224
            )

        Alterations see images `[B, H, W, C]` of pixels in [0, 1]. What the module sees
        is `(scale * pixels - mean) / std`, in this order, then `[B, C, H, W]`.

        Args:
          module: a `torch.nn.Module` from a batch of images to one tensor `[B, K]`.
          outputs: see `Classifier`. By default what the layer registered last says
            ("probabilities" of a Softmax, "sigmoid" of a Sigmoid), otherwise "logits".
          scale: by what pixels in [0, 1] are multiplied, one number or one for each
            channel; 255 for a network that takes 0 to 255. By default 1.
          mean: what is subtracted then, likewise; by default 0.
          std: by what is divided then, likewise; by default 1.
          channels_first: whether the module takes `[B, C, H, W]`.
          size: the height and width of the images that it takes, or one number for
            both. Others are refused. Images are resized where they are loaded, see
            `jaxrob.data.image_folder`: that keeps levels in pixels what they say.
          batch_size: how many images each call has; the last one is repeated to fill
            it. By default as many as suit the memory.
          name: what provenance and journals call it; by default that of its class.
          version: what tells it from others in a journal; by default a digest of what
            it holds (weights, settings, functions, hooks) and of the code of its
            classes. Functions that these call elsewhere are not looked into.
          class_names: one name for each output. A data set with other names is refused.

        Raises:
          TypeError: if it is no module, or another argument has a wrong type.
          ValueError: if the module cannot be copied, or another argument is outside its
            range; as it is first called, if `outputs` contradicts its last operation.
          ImportError: if torch is missing.
        """
        given = checked_preprocessing(scale, mean, std, channels_first, size)
        identity = _checked_identity(name, version, batch_size, outputs)
        found = torch_network(module, outputs, given, **identity)
        return _from_network(found, class_names)

    @staticmethod
    def from_onnx(
        path: str | os.PathLike[str],
        outputs: str | None = None,
        *,
        scale: Numbers | None = None,
        mean: Numbers | None = None,
        std: Numbers | None = None,
        channels_first: bool | None = None,
        size: Size = None,
        batch_size: int | None = None,
        name: str | None = None,
        class_names: Sequence[str] | None = None,
    ) -> "Classifier":
        """A network in an ONNX file, run by onnxruntime on the host.

        It has no gradient: attacks refuse it, and RoMA's "auto" uses splitting. Needs
        the extra `jaxrob[onnx]`. A file from strangers runs no code of theirs. Weights
        in other files must lie in the same folder.

        Example::

            classifier = jaxrob.Classifier.from_onnx("detector.onnx", scale=255)

        Args:
          path: the file, with one input, the images, and one output `[B, K]`.
          outputs: see `Classifier`. By default what the last operation says
            ("probabilities" of a Softmax, "sigmoid" of a Sigmoid), otherwise "logits".
          scale: see `from_torch`.
          mean: likewise.
          std: likewise.
          channels_first: whether the network takes `[B, C, H, W]`; by default what the
            shape of its input says.
          size: see `from_torch`; by default what the shape of its input says.
          batch_size: likewise; by default what the shape of its input says.
          name: what provenance and journals call it; by default the file's name. The
            file's SHA-256 stands beside it.
          class_names: see `from_torch`.

        Raises:
          FileNotFoundError: if there is nothing at `path`.
          TypeError: if an argument has a wrong type.
          ValueError: if it is no ONNX file, has several inputs or outputs or other
            types than floating ones, keeps weights outside its folder, or contradicts
            an argument.
          ImportError: if onnx or onnxruntime is missing.
        """
        if channels_first is not None:
            channels_first = checked_flag("channels_first", channels_first)
        first = bool(channels_first)
        given = checked_preprocessing(scale, mean, std, first, size)
        identity = _checked_identity(name, None, batch_size, outputs)
        found = onnx_network(path, outputs, given, channels_first, **identity)
        return _from_network(found, class_names)

    @staticmethod
    def from_keras(
        model: Any,
        outputs: str | None = None,
        *,
        scale: Numbers | None = None,
        mean: Numbers | None = None,
        std: Numbers | None = None,
        channels_first: bool = False,
        size: Size = None,
        batch_size: int | None = None,
        name: str | None = None,
        class_names: Sequence[str] | None = None,
    ) -> "Classifier":
        """A Keras model as it is now, or the model in a `.keras` file.

        The classifier has weights of its own. On Keras's JAX backend the model runs
        inside the compiled step, with gradients; once a layer was added, removed or set
        otherwise the classifier is refused, and the model needs another one. On another
        backend it runs on the host, without gradients, and draws a warning that says
        so. Keras takes the backend from the environment variable KERAS_BACKEND when it
        is first imported. If that is here, and it is not set, JAX is taken. Needs the
        extra `jaxrob[keras]`.

        Example::

            classifier = jaxrob.Classifier.from_keras("digits.keras")

        Args:
          model: a `keras.Model` or the path of a `.keras` file, which is read in
            Keras's safe mode and runs no code of strangers. Files of other formats may,
            and are refused.
          outputs: see `Classifier`. By default what the last layer's activation says
            ("probabilities" of a softmax, "sigmoid" of a sigmoid), otherwise "logits".
          scale: see `from_torch`.
          mean: likewise.
          std: likewise.
          channels_first: likewise.
          size: likewise.
          batch_size: see `from_torch`; of a model on the host alone.
          name: what provenance and journals call it; by default that of the model.
          class_names: see `from_torch`.

        Raises:
          FileNotFoundError: if there is nothing at the path.
          TypeError: if an argument has a wrong type.
          ValueError: if the file is refused, the model is not built, has several inputs
            or outputs or cannot be copied.
          ImportError: if Keras is missing.
        """
        given = checked_preprocessing(scale, mean, std, channels_first, size)
        identity = _checked_identity(name, None, batch_size, outputs)
        found = keras_network(model, outputs, given, **identity)
        return _from_network(found, class_names)

    @staticmethod
    def from_host(
        function: Callable[[np.ndarray], np.ndarray],
        num_classes: int,
        outputs: str = "logits",
        *,
        name: str | None = None,
        version: str | None = None,
        batch_size: int | None = None,
        scale: Numbers | None = None,
        mean: Numbers | None = None,
        std: Numbers | None = None,
        channels_first: bool = False,
        size: Size = None,
        class_names: Sequence[str] | None = None,
    ) -> "Classifier":
        """A function on the host, of any framework or service, without gradients.

        What it raises comes out as it is, with a note of the batch's shape.

        Args:
          function: takes float32 images `[B, H, W, C]` as a NumPy array, which it may
            write to, and returns `[B, num_classes]`, real numbers of any type, which
            become float32. It must give an image the same answer in any batch.
          num_classes: number of classes, K.
          outputs: see `Classifier`.
          name: what tells the function from others, together with the version. A
            journal asks for both, because it cannot look into the function.
          version: to be changed whenever the function's answers may, such as the date
            or the checksum of its weights.
          batch_size: see `from_torch`; likewise the others.
          scale: likewise.
          mean: likewise.
          std: likewise.
          channels_first: likewise.
          size: likewise.
          class_names: likewise.

        Raises:
          TypeError: if the name or the version is no text.
          ValueError: if there is not one class name for each class.
        """
        check_type(
            "function", function, Callable, "a function of a NumPy array of images"
        )
        num_classes = checked_integer("num_classes", num_classes, at_least=1)
        given = checked_preprocessing(scale, mean, std, channels_first, size)
        identity = _checked_identity(name, version, batch_size)
        return Classifier(
            OnHost(HostFunction(function, num_classes, **identity), given),
            (),
            outputs,
            name=name,
            class_names=_names(class_names, max(num_classes, 2)),
        )

    def log_probabilities(
        self, images: jax.Array, keys: jax.Array | None = None
    ) -> jax.Array:
        """The classifier's log-probabilities of the classes.

        Args:
          images: float32 `[B, H, W, C]` in [0, 1].
          keys: `[B]` random keys, needed if the classifier is stochastic.

        Returns:
          float32 `[S, B, K]`. Rows that are no distribution (NaN, activations outside
          [0, 1], probabilities that do not sum to 1 within 1e-2) are NaN.

        Raises:
          ValueError: if the outputs are "scores", or their shape is not
            `[B, K]` or `[S, B, K]` with at least two classes.
        """
        if self.outputs == "scores":
            raise ValueError(
                'a classifier with outputs="scores" has no probabilities; this needs '
                'outputs="logits", "probabilities" or "sigmoid"'
            )
        return log_normalised(self.raw_outputs(images, keys), self.outputs)

    def raw_outputs(
        self, images: jax.Array, keys: jax.Array | None = None
    ) -> jax.Array:
        """What `apply_fn` returns, as float32 `[S, B, K]` with K at least 2.

        The one column of a binary sigmoid head, `s`, becomes `[1 - s, s]`.

        Raises:
          TypeError: if `apply_fn` returns several arrays: a tuple, a list, a dict.
          ValueError: as `log_probabilities`, but "scores" are not refused.
        """
        check_type("images", images, jax.Array | np.ndarray, "an array [B, H, W, C]")
        if self.stochastic and keys is None:
            raise ValueError("the classifier is stochastic and needs keys; got None")
        args = (images, keys) if self.stochastic else (images,)
        returned = self.apply_fn(self.variables, *args)
        check_one_array("the classifier", returned)
        outputs = jnp.asarray(returned).astype(jnp.float32)
        if outputs.ndim == 2:
            outputs = outputs[None]
        if outputs.ndim != 3 or outputs.shape[1] != len(images):
            raise ValueError(
                f"the classifier must return [B, K] or [S, B, K] for B = {len(images)} "
                f"images; got the shape {outputs.shape}"
            )
        if outputs.shape[-1] == 1 and self.outputs == "sigmoid":
            outputs = jnp.concatenate([1 - outputs, outputs], axis=-1)
        if outputs.shape[-1] < 2:
            raise ValueError(
                "the classifier must return at least two classes; got the shape "
                f'{outputs.shape} (a binary head of one column needs outputs="sigmoid")'
            )
        return outputs

    def num_classes(self, image_shape: tuple[int, ...]) -> int:
        """The number of classes, K, found without running the classifier.

        Args:
          image_shape: the shape of one image, `(H, W, C)`.

        Raises:
          ValueError: if the classifier does not take images of this shape, or what it
            returns has a wrong shape.
        """
        image_shape = checked_sequence("image_shape", image_shape, int, "integers")
        return trace_info(self, image_shape).num_classes


class TraceInfo(NamedTuple):
    """What a trace tells about a classifier that was not run.

    Attributes:
      num_classes: the number of classes, K.
      largest_array: the bytes that one image takes in the largest array computed.
      operations: multiplications and additions for one image in matrix products and
        convolutions; infinity if a trace cannot tell.
    """

    num_classes: int
    largest_array: int
    operations: float


def trace_info(classifier: Classifier, image_shape: tuple[int, ...]) -> TraceInfo:
    """What is known of a classifier; of a fingerprinted one without a look at it.

    Args:
      classifier: the classifier.
      image_shape: the shape of one image, `(H, W, C)`.

    Raises:
      ValueError: as `Classifier.num_classes`.
    """
    function = classifier.apply_fn
    found = function.info if isinstance(function, Fingerprinted) else None
    return info_of(found or looked_at(classifier, image_shape)[0], image_shape)


def info_of(found: Trace, image_shape: tuple[int, ...]) -> TraceInfo:
    """What a classifier's trace tells for one image of a shape."""
    images_bytes = 4 * _ROWS * math.prod(image_shape)
    return TraceInfo(
        num_classes=found.outputs.shape[-1],
        largest_array=max(images_bytes, found.largest_array) // _ROWS,
        operations=found.operations / _ROWS,
    )


def looked_at(
    classifier: Classifier, image_shape: tuple[int, ...]
) -> tuple[Trace, bool]:
    """What a classifier's trace finds, and whether what it captures has changed.

    See `trace.seen`.

    Raises:
      ValueError: as `Classifier.num_classes`.
    """
    check_layers(classifier.apply_fn)
    leaves, tree = jax.tree.flatten(classifier.variables)
    types = tuple(map(jax.typeof, leaves))
    settings = classifier.outputs, classifier.stochastic, tuple(image_shape)
    return seen(
        [classifier.apply_fn],
        (tree, types, settings),
        lambda: _program(structure(classifier), image_shape),
    )


def gradient_obstacle(
    classifier: Classifier, image_shape: tuple[int, ...]
) -> str | None:
    """Why JAX cannot differentiate a classifier with respect to the images.

    Nothing is computed. What runs on the host (`Classifier.from_host`) has no gradient.

    Args:
      classifier: the classifier.
      image_shape: the shape of one image, `(H, W, C)`.

    Returns:
      JAX's message, or None if the classifier can be differentiated.
    """
    find = _gradient_obstacle
    if not isinstance(classifier.apply_fn, Fingerprinted):  # It may have changed since.
        find = find.__wrapped__
    return find(structure(classifier), tuple(image_shape))


def unnamed(classifier: Classifier) -> Classifier:
    """The classifier without its names, so that others compile nothing anew."""
    return dataclasses.replace(classifier, name=None, class_names=None)


class Structure(NamedTuple):
    """A classifier without its variables' values: hashable, and enough for a trace."""

    tree: Any  # jax.tree_util.PyTreeDef
    leaves: tuple[jax.ShapeDtypeStruct, ...]


def structure(classifier: Classifier) -> Structure:
    """What there is of a classifier without its variables' values."""
    leaves, tree = jax.tree.flatten(classifier)
    types = map(jax.typeof, leaves)
    return Structure(
        tree, tuple(jax.ShapeDtypeStruct(one.shape, one.dtype) for one in types)
    )


def _program(
    of: Structure, image_shape: tuple[int, ...]
) -> tuple[ClosedJaxpr, jax.ShapeDtypeStruct]:
    """A classifier's program as it is now, for two images, and what it returns.

    Raises:
      ValueError: as `Classifier.num_classes`.
    """
    classifier, images, keys = _abstract(of, image_shape)

    # JAX keeps the types of arguments for long, and so would keep the function there.
    def outputs(variables: Any, images: jax.Array, keys: jax.Array) -> jax.Array:
        of_these = dataclasses.replace(classifier, variables=variables)
        return of_these.raw_outputs(images, keys)

    try:
        return traced(outputs, classifier.variables, images, keys)
    except Exception as error:
        raise failed_on_images("the classifier", image_shape, error) from error


@functools.lru_cache(maxsize=256)
def _gradient_obstacle(of: Structure, image_shape: tuple[int, ...]) -> str | None:
    classifier, images, keys = _abstract(of, image_shape)

    def total(images: jax.Array, classifier: Classifier, keys: jax.Array) -> jax.Array:
        return classifier.raw_outputs(images, keys).sum()

    try:
        jax.eval_shape(jax.grad(total), images, classifier, keys)
    except Exception as error:  # The user's code may raise anything.
        return str(error)
    return None


def _abstract(of: Structure, image_shape: tuple[int, ...]) -> tuple[Any, ...]:
    """A classifier, images and keys without values."""
    classifier = jax.tree.unflatten(of.tree, of.leaves)
    images = jax.ShapeDtypeStruct((_ROWS, *image_shape), jnp.float32)
    return classifier, images, _keys()


@functools.cache
def _keys() -> jax.ShapeDtypeStruct:
    return jax.eval_shape(lambda: jax.random.split(jax.random.key(0), _ROWS))


def _apply_linen(variables: Any, images: jax.Array, *, module: Any, **call: Any) -> Any:
    return module.apply(variables, images, **call)


def _checked_identity(
    name: Any, version: Any, batch_size: Any, outputs: Any = None
) -> dict[str, Any]:
    """What tells a network on the host from others, and how many images it takes.

    Checks its outputs too, unless they are None.
    """
    check_type("name", name, str | None, "text or None")
    check_type("version", version, str | None, "text or None")
    if batch_size is not None:
        batch_size = checked_integer(
            "batch_size", batch_size, at_least=1, at_most=MOST_IMAGES
        )
    if outputs is not None:
        check_choice("outputs", outputs, OUTPUTS)
    return {"name": name, "version": version, "batch_size": batch_size}


def _from_network(found: Network, class_names: Any) -> Classifier:
    names = _names(class_names, found.num_classes)
    kept = found.function, found.variables, found.outputs
    return Classifier(*kept, name=found.name, class_names=names)


def _names(class_names: Any, num_classes: int | None = None) -> tuple[str, ...] | None:
    """Class names, one for each of the classes if their number is known."""
    if class_names is None:
        return None
    names = checked_names("class_names", class_names)
    if num_classes is not None and len(names) != num_classes:
        raise ValueError(
            f"class_names must be {num_classes}, one for each of the network's "
            f"outputs; got {len(names)}: {', '.join(names[:10])}"
        )
    return names
