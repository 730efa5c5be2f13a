"""The Bayesian classifier as a NumPyro model, and checks before inference."""

import functools
import math
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import scipy
from flax import linen, nnx
from jax.core import Tracer
from jax.flatten_util import ravel_pytree
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P
from numpyro import distributions as dist

from jaxrob._arguments.checks import (
    check_choice,
    check_type,
    checked_integer,
    checked_number,
)
from jaxrob._arguments.messages import failed_on_images
from jaxrob._classifiers.classifier import Classifier
from jaxrob._codec import Integer, Text
from jaxrob._dataset import Dataset, check_labels_below
from jaxrob._devices.mesh import (
    ImageMesh,
    along_images,
    checked_mesh,
    local,
    put,
    replicated,
)
from jaxrob._identity.identity import (
    Fingerprinted,
    HashablePartial,
    hashable_partial,
    traced,
)
from jaxrob._identity.program import fingerprint_of
from jaxrob._numbers import as_floats, log_softmax, log_sum_exp
from jaxrob._stored_images import StoredImages

HEADS = ("plain", "heteroscedastic")
#: The limit of samples in a file, far above any use; one evaluation would take days.
MOST_SAMPLES = 10**6


class Head(NamedTuple):
    # "plain", outputs `[B, K]` are logits; "heteroscedastic", outputs `[B, 2K]` are the
    # means of the logits and, before softplus, their standard deviations.
    name: Annotated[str, Text(allowed=HEADS)]
    # Draws of a heteroscedastic head's noise, M.
    noise_draws: Annotated[int, Integer(1, MOST_SAMPLES)]

    @property
    def stochastic(self) -> bool:
        return self.name == "heteroscedastic"

    def num_classes(self, num_outputs: int) -> int:
        if self.stochastic and num_outputs % 2:
            raise ValueError(
                "a heteroscedastic head needs an even number of outputs, the mean and "
                f"the scale of each logit; the module returns {num_outputs}"
            )
        num_classes = num_outputs // 2 if self.stochastic else num_outputs
        if num_classes < 2:
            raise ValueError(
                f"the module must return at least two classes; its {num_outputs} "
                f"outputs are {num_classes} with the {self.name} head"
            )
        return num_classes


def checked_head(name: str, noise_draws: int) -> Head:
    check_choice("head", name, HEADS)
    return Head(name, checked_integer("noise_draws", noise_draws, at_least=1))


def log_probabilities(outputs: jax.Array, noise: jax.Array | None) -> jax.Array:
    """Computes log-probabilities at fixed weights w."""
    # Heteroscedastic: `p = mean over draws of softmax(mean + softplus(scale) noise)`
    # at each w: noise of data is not epistemic (Kendall and Gal 2017, section 3.3).
    if noise is None:
        return log_softmax(outputs, -1)
    # Images are the last axis: ten classes would not fill vector units.
    mean, scale = jnp.split(outputs.T, 2)
    log_p = log_softmax(mean + jax.nn.softplus(scale) * noise, 1)
    return log_sum_exp(log_p, axis=0).T - math.log(len(noise))


def normals(bits: jax.Array, num_draws: int) -> jax.Array:
    # A Sobol' net, randomly shifted, by normal quantiles: each draw is standard normal
    # and independent over classes. 8 draws are as accurate as 35 independent ones.
    shifted = bits.T ^ _net((num_draws + 1) // 2, bits.shape[1])[..., None]
    # 23 bits plus 0.5: exact in float32, and never 0 or 1 after scaling.
    uniform = (shifted >> 9).astype(jnp.float32) + 0.5
    half = math.sqrt(2) * jax.lax.erf_inv(uniform * 2.0**-22 - 1)
    return jnp.concatenate([half, -half])[:num_draws]


@functools.lru_cache(maxsize=64)
def _net(num_points: int, dimensions: int) -> np.ndarray:
    exponent = (num_points - 1).bit_length()
    points = scipy.stats.qmc.Sobol(dimensions, scramble=False).random_base2(exponent)
    return (points[:num_points] * 2**32).astype(np.uint32)


def _variables(module: Any, image: jax.Array, key: jax.Array) -> tuple[Any, Any]:
    if isinstance(module, linen.Module):
        try:
            init = hashable_partial(_init_linen, module=module)
            init = present(init, key, as_floats(image)[None])
            fixed = dict(_init(key, image, init=init))
        except Exception as error:  # The user's code may raise anything.
            raise failed_on_images("the module", image.shape, error) from error
        params = fixed.pop("params", {})
    else:
        _, params, fixed = nnx.split(module, nnx.Param, ...)
        params, fixed = as_dicts(params), as_dicts(fixed)
    if not jax.tree.leaves(params):
        raise ValueError(
            f"module must have parameters; {type(module).__name__} has none"
        )
    return params, fixed


def params_apply_fn(module: Any) -> HashablePartial:
    if isinstance(module, linen.Module):
        return hashable_partial(_apply_linen, module=module)
    check_type("module", module, nnx.Module, "a Flax module, Linen or NNX")
    return hashable_partial(_apply_nnx, graph=nnx.split(module, nnx.Param, ...)[0])


def variables_apply_fn(module: Any) -> Callable[..., Any]:
    if isinstance(module, linen.Module):
        return Classifier.from_linen(module, {}).apply_fn
    if isinstance(module, nnx.Module):
        return Classifier.from_nnx(module).apply_fn
    wanted = "a Flax module, or a function of variables and images"
    check_type("module", module, Callable, wanted)
    return module


def as_dicts(variables: Any) -> Any:
    is_state = isinstance(variables, nnx.State)
    return nnx.to_pure_dict(variables) if is_state else variables


def _init_linen(key: jax.Array, image: jax.Array, *, module: linen.Module) -> Any:
    return module.init(key, image)


@functools.partial(jax.jit, static_argnames="init")
def _init(key: jax.Array, image: jax.Array, *, init: Fingerprinted) -> Any:
    return init(key, as_floats(image)[None])


def present(function: Callable[..., Any], *args: Any) -> Fingerprinted:
    """A kept program would not see what the module captures change."""
    program, _ = traced(function, *args)
    return Fingerprinted(fingerprint_of(program).digest, function)


def _apply_linen(
    params: Any, fixed: Any, images: jax.Array, *, module: linen.Module
) -> Any:
    return module.apply({"params": params, **fixed}, images)


def _apply_nnx(
    params: Any, fixed: Any, images: jax.Array, *, graph: nnx.GraphDef
) -> Any:
    module = nnx.merge(graph, params, fixed)
    module.eval()
    return module(images)


class Likelihood(NamedTuple):
    """The static part of the model: equal for equal modules and heads."""

    apply_fn: HashablePartial | Fingerprinted
    head: Head


class Data(NamedTuple):
    # Nested dictionaries of D parameters in all; only the structure matters.
    params: Any
    fixed: Any  # the module's other variables
    images: jax.Array  # `[N, ...]`, on the device
    labels: jax.Array  # int32 `[N]`, on the device
    prior_scale: float  # standard deviation of every parameter's prior


class Problem(NamedTuple):
    likelihood: Likelihood  # the network and its head
    data: Data  # the data, replicated on all devices
    num_classes: int  # number of classes, K
    initial: jax.Array  # `[D]`, the initial parameters, raveled
    unravel: Callable[[jax.Array], Any]  # converts such an array to nested dictionaries
    mesh: ImageMesh  # the devices, along one axis

    @property
    def present(self) -> Likelihood:
        """With the module as it is now."""
        (apply_fn, head), data = self.likelihood, self.data
        image = jax.ShapeDtypeStruct((1, *data.images.shape[1:]), np.float32)
        return Likelihood(present(apply_fn, data.params, data.fixed, image), head)


def make_problem(
    module: Any,
    dataset: Dataset,
    key: jax.Array,
    head: str,
    noise_draws: int,
    prior_scale: float,
    mesh: Mesh | None,
) -> Problem:
    over = along_images(checked_mesh(mesh))
    check_type("dataset", dataset, Dataset, "a jaxrob.Dataset in memory")
    prior_scale = checked_number("prior_scale", prior_scale, above=0, at_most=2**30)
    checked = checked_head(head, noise_draws)
    apply_fn = params_apply_fn(module)
    params, fixed = _variables(module, jnp.asarray(dataset.images[0]), key)
    num_outputs = Classifier(
        lambda both, images: apply_fn(*both, images), (params, fixed), "scores"
    ).num_classes(dataset.images.shape[1:])
    num_classes = checked.num_classes(num_outputs)
    check_labels_below(
        dataset.labels, num_classes, f"labels of {dataset.name}", dataset.class_names
    )
    images: Any = dataset.images
    if isinstance(images, StoredImages):
        images = np.asarray(images)
    data = Data(params, fixed, images, dataset.labels, prior_scale)
    data = put(data, replicated(over))
    params = local(data.params)
    unravel = functools.partial(unraveled, like=params)
    likelihood = Likelihood(apply_fn, checked)
    return Problem(likelihood, data, num_classes, raveled(params), unravel, over)


@jax.jit
def raveled(params: Any) -> jax.Array:
    return ravel_pytree(params)[0]


@jax.jit
def unraveled(flat: jax.Array, like: Any) -> Any:
    return ravel_pytree(like)[1](flat)


def model(
    likelihood: Likelihood,
    data: Data,
    bits: jax.Array | None,
    batch_size: int | None = None,
) -> None:
    """The NumPyro model: sites "params" `[D]`, the parameters raveled, and "labels"."""
    flat, unravel = ravel_pytree(data.params)
    prior = dist.Normal(jnp.zeros(len(flat), jnp.float32), data.prior_scale).to_event(1)
    # With 64 bits, NUTS samples in float64.
    params = cast(jax.Array, numpyro.sample("params", prior)).astype(flat.dtype)
    params = unravel(params)
    with numpyro.plate("images", len(data.labels), batch_size) as index:
        # XLA sums over devices where the model sums over images. Uneven splits can't be
        # padded when NumPyro runs the model eagerly, to find its sites.
        if isinstance(index, Tracer):
            index = jax.lax.with_sharding_constraint(index, P("images"))
        outputs = likelihood.apply_fn(params, data.fixed, as_floats(data.images[index]))
        noise = None if bits is None else normals(bits, likelihood.head.noise_draws)
        labels = dist.CategoricalLogits(log_probabilities(outputs, noise))
        numpyro.sample("labels", labels, obs=data.labels[index])


def noise_bits(head: Head, key: jax.Array, shape: tuple[int, int]) -> jax.Array | None:
    return jax.random.bits(key, shape, jnp.uint32) if head.stochastic else None
