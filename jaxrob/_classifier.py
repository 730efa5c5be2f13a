"""A classifier, from any framework, as a function from images to class outputs."""

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import jaxprs_in_params

from jaxrob._runtime.bound import bind
from jaxrob._runtime.checks import (
    check_callable,
    check_choice,
    check_hashable,
    check_type,
    checked_flag,
    checked_integer,
)
from jaxrob._runtime.failures import failed_on_images
from jaxrob._runtime.snapshot import snapshot

# What `apply_fn` may return.
OUTPUTS = ("logits", "probabilities", "sigmoid", "scores")

# The sum of probabilities may differ from 1 by this much: in bfloat16 2e-3 is common.
_SUM_TOLERANCE = 1e-2
_TINY = float(jnp.finfo(jnp.float32).tiny)

# Ends of the names of primitives whose operations a trace cannot count: they run on the
# host or in foreign code, or as often as the data say.
_OF_UNKNOWN_COST = ("callback", "ffi_call", "call_tf", "pallas_call", "while")


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Classifier:
    """What the library measures: a pure function from images to class outputs.

    Wrap a network of your own in it, or use `from_linen`, `from_nnx` or `from_host`.
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
        image. It returns `[B, K]`, or `[S, B, K]` from S posterior samples or members
        of an ensemble. Give the same function object each time: another one is
        compiled anew, even if it does the same.
      variables: a pytree of arrays.
      outputs: what `apply_fn` returns:

        * "logits";
        * "probabilities", which sum to 1;
        * "sigmoid", an activation in [0, 1] for each class, normalised to sum to 1
          (a single column is the activation of class 1 of 2);
        * "scores", of which only the largest counts. What needs probabilities refuses
          them.
      stochastic: whether `apply_fn` takes keys.

    Raises:
      TypeError: if `apply_fn` is not callable.
      ValueError: if `outputs` is none of the above.
    """

    apply_fn: Callable[..., Any] = dataclasses.field(metadata={"static": True})
    variables: Any = dataclasses.field(default=None, repr=False)
    outputs: str = dataclasses.field(default="logits", metadata={"static": True})
    stochastic: bool = dataclasses.field(default=False, metadata={"static": True})

    def __post_init__(self) -> None:
        check_callable("apply_fn", self.apply_fn, "a function of variables and images")
        check_choice("outputs", self.outputs, OUTPUTS)
        checked_flag("stochastic", self.stochastic)

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
        return Classifier(bind(_apply_linen, module=module, **call), variables, outputs)

    @staticmethod
    def from_nnx(module: Any, outputs: str = "logits") -> "Classifier":
        """A Flax NNX module as it is now, applied in evaluation mode.

        The classifier has a copy of all variables: training that goes on does not
        change it. Nor is the module changed.

        Args:
          module: the module, called with images `[B, H, W, C]`.
          outputs: see `Classifier`.
        """
        from flax import nnx

        check_type("module", module, nnx.Module, "a Flax NNX module")
        graph, state = nnx.split(module)
        return Classifier(bind(_apply_nnx, graph=graph), snapshot(state), outputs)

    @staticmethod
    def from_host(
        function: Callable[[np.ndarray], np.ndarray],
        num_classes: int,
        outputs: str = "logits",
    ) -> "Classifier":
        """A function on the host, of any framework or service, without gradients.

        Args:
          function: takes float32 images `[B, H, W, C]` as a NumPy array and returns
            `[B, num_classes]`. It must give an image the same answer in any batch.
          num_classes: number of classes, K.
          outputs: see `Classifier`.
        """
        check_callable("function", function, "a function of a NumPy array of images")
        num_classes = checked_integer("num_classes", num_classes, at_least=1)
        apply_fn = bind(_apply_host, function=function, num_classes=num_classes)
        return Classifier(apply_fn, (), outputs)

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
          ValueError: as `log_probabilities`, but "scores" are not refused.
        """
        if self.stochastic and keys is None:
            raise ValueError("the classifier is stochastic and needs keys; got None")
        args = (images, keys) if self.stochastic else (images,)
        outputs = jnp.asarray(self.apply_fn(self.variables, *args))
        outputs = outputs.astype(jnp.float32)
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
        return trace_info(self, image_shape).num_classes


def log_normalised(outputs: jax.Array, kind: str, axis: int = -1) -> jax.Array:
    """The log-probabilities of what a classifier returned.

    Args:
      outputs: float32, as `Classifier.raw_outputs` returns them, except that the
        classes lie along `axis`.
      kind: "logits", "probabilities" or "sigmoid".
      axis: the axis of the classes.

    Returns:
      float32, of the shape of `outputs`. It is NaN where
        `Classifier.log_probabilities` is.
    """
    if kind == "logits":
        return _log_softmax(outputs, axis)
    in_range = ((outputs >= 0) & (outputs <= 1)).all(axis=axis, keepdims=True)
    # Kept away from 0, where the logarithm has no gradient.
    outputs = jnp.maximum(outputs, _TINY)
    total = outputs.sum(axis=axis, keepdims=True)
    if kind == "probabilities":
        in_range &= jnp.abs(total - 1) <= _SUM_TOLERANCE
    log_probabilities = jnp.log(outputs) - jnp.log(total)
    return jnp.where(in_range, log_probabilities, jnp.nan)


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def _log_softmax(logits: jax.Array, axis: int) -> jax.Array:
    """`jax.nn.log_softmax` for logits of any size; NaN where one is infinite.

    A network that multiplies last may see its product and the subtraction of the
    largest logit fused, without the rounding between them. Beyond 1e9 the difference
    of the largest logit and itself is then not 0, and its exponential overflows.
    """
    largest = logits.max(axis=axis, keepdims=True)
    below = jnp.where(logits == largest, 0.0, logits - largest)
    log_total = jnp.log(jnp.exp(below).sum(axis=axis, keepdims=True))
    return below - jnp.where(jnp.isfinite(largest), log_total, jnp.nan)


@_log_softmax.defjvp
def _log_softmax_jvp(
    axis: int, primals: tuple[jax.Array], tangents: tuple[jax.Array]
) -> tuple[jax.Array, jax.Array]:
    (logits,), (change,) = primals, tangents
    found = _log_softmax(logits, axis)
    mean = (jnp.exp(found) * change).sum(axis=axis, keepdims=True)
    return found, change - mean


def mean_over_samples(log_probabilities: jax.Array, axis: int = 0) -> jax.Array:
    """The logarithm of the mean probability over the samples along `axis`."""
    number = log_probabilities.shape[axis]
    if number == 1:
        return jnp.squeeze(log_probabilities, axis)
    return jax.nn.logsumexp(log_probabilities, axis=axis) - jnp.log(number)


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
    """Traces a classifier, once for all classifiers of the same structure.

    Args:
      classifier: the classifier.
      image_shape: the shape of one image, `(H, W, C)`.

    Raises:
      ValueError: as `Classifier.num_classes`.
    """
    return _trace_info(_structure(classifier), tuple(image_shape))


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
    return _gradient_obstacle(_structure(classifier), tuple(image_shape))


class _Structure(NamedTuple):
    """A classifier without its variables' values: hashable, and enough for a trace."""

    tree: Any  # jax.tree_util.PyTreeDef
    leaves: tuple[jax.ShapeDtypeStruct, ...]


def _structure(classifier: Classifier) -> _Structure:
    leaves, tree = jax.tree.flatten(classifier)
    types = map(jax.typeof, leaves)
    return _Structure(
        tree, tuple(jax.ShapeDtypeStruct(one.shape, one.dtype) for one in types)
    )


@functools.lru_cache(maxsize=256)
def _gradient_obstacle(
    structure: _Structure, image_shape: tuple[int, ...]
) -> str | None:
    classifier = jax.tree.unflatten(structure.tree, structure.leaves)
    images = jax.ShapeDtypeStruct((2, *image_shape), jnp.float32)
    keys = jax.eval_shape(lambda: jax.random.split(jax.random.key(0), 2))

    def total(images: jax.Array, classifier: Classifier, keys: jax.Array) -> jax.Array:
        return classifier.raw_outputs(images, keys).sum()

    try:
        jax.eval_shape(jax.grad(total), images, classifier, keys)
    except Exception as error:  # The user's code may raise anything.
        return str(error)
    return None


@functools.lru_cache(maxsize=256)
def _trace_info(structure: _Structure, image_shape: tuple[int, ...]) -> TraceInfo:
    classifier = jax.tree.unflatten(structure.tree, structure.leaves)
    rows = 2
    images = jax.ShapeDtypeStruct((rows, *image_shape), jnp.float32)
    keys = jax.eval_shape(lambda: jax.random.split(jax.random.key(0), rows))
    try:
        jaxpr, outputs = jax.make_jaxpr(Classifier.raw_outputs, return_shape=True)(
            classifier, images, keys
        )
    except Exception as error:
        raise failed_on_images("the classifier", image_shape, error) from error
    images_bytes = 4 * rows * math.prod(image_shape)
    return TraceInfo(
        num_classes=outputs.shape[-1],
        largest_array=max(images_bytes, _largest_array(jaxpr.jaxpr)) // rows,
        operations=_operations(jaxpr.jaxpr) / rows,
    )


def _largest_array(jaxpr: Any) -> int:
    """The bytes of the largest array that a program computes."""
    sizes = [0]
    for equation in jaxpr.eqns:
        for variable in equation.outvars:
            if hasattr(variable.aval, "size"):
                sizes.append(variable.aval.size * variable.aval.dtype.itemsize)
        sizes += map(_largest_array, jaxprs_in_params(equation.params))
    return max(sizes)


def _operations(jaxpr: Any) -> float:
    """Multiplications and additions in a program's matrix products and convolutions."""
    # XLA's own analysis would lower the constants too, and counts a loop's body once.
    number = 0.0
    for equation in jaxpr.eqns:
        name, params = equation.primitive.name, equation.params
        if name.endswith(_OF_UNKNOWN_COST):
            return math.inf
        if name == "dot_general":
            (contracted, _), _ = params["dimension_numbers"]
            shape = equation.invars[0].aval.shape
            terms = math.prod(shape[axis] for axis in contracted)
            number += 2 * terms * equation.outvars[0].aval.size
        elif name == "conv_general_dilated":
            kernel = equation.invars[1].aval
            terms = kernel.size / kernel.shape[params["dimension_numbers"].rhs_spec[0]]
            number += 2 * terms * equation.outvars[0].aval.size
        repeats = params["length"] if name == "scan" else 1
        number += repeats * sum(map(_operations, jaxprs_in_params(params)))
    return number


def _apply_linen(variables: Any, images: jax.Array, *, module: Any, **call: Any) -> Any:
    return module.apply(variables, images, **call)


def _apply_nnx(state: Any, images: jax.Array, *, graph: Any) -> Any:
    from flax import nnx

    module = nnx.merge(graph, state)
    module.eval()
    return module(images)


def _apply_host(
    variables: Any,
    images: jax.Array,
    *,
    function: Callable[[np.ndarray], np.ndarray],
    num_classes: int,
) -> jax.Array:
    del variables
    result = jax.ShapeDtypeStruct((len(images), num_classes), jnp.float32)

    def call(images: jax.Array) -> np.ndarray:
        outputs = np.asarray(function(np.asarray(images)))
        if outputs.shape != result.shape:
            raise ValueError(
                f"the host function must return the shape {result.shape}; got "
                f"{outputs.shape}"
            )
        return outputs.astype(np.float32)

    return jax.pure_callback(call, result, images, vmap_method="sequential")
