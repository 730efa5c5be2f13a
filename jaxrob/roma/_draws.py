"""Crude Monte Carlo: thousands of plain draws around every input, in blocks."""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxrob._classifier import Classifier, trace_info
from jaxrob._devices.blocks import Call, in_blocks
from jaxrob._devices.hosts import put_whole
from jaxrob._devices.memory import bucket, nearest_bucket
from jaxrob._devices.mesh import ImageMesh, on_each_device, platform
from jaxrob._devices.rows import joined, taken
from jaxrob._engine.execution import Bar, rows_for, whole_batches
from jaxrob._keys import alteration_keys, classifier_keys
from jaxrob._log_probabilities import mean_over_samples
from jaxrob._pixels import as_floats
from jaxrob.roma._perturbation import Perturbation, is_ball

# On the host, or on the devices.
Array = TypeVar("Array", np.ndarray, jax.Array)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class Work:
    """What stays the same for all inputs of one assessment.

    A pytree, so that a compiled step takes it as one argument. `placed` puts its
    arrays on the devices, once for the whole assessment. The mesh is static: another
    one is another program.
    """

    classifier: Classifier
    perturbation: Perturbation  # the distribution of perturbed images
    # float32, log(delta / (1 - delta)), delta the least confidence of a distinct
    # misclassification.
    logit_delta: jax.Array
    key: jax.Array
    mesh: ImageMesh = dataclasses.field(metadata={"static": True})


class Inputs(NamedTuple):
    """Unperturbed inputs and what is known of them, on the host."""

    images: np.ndarray  # `[N, H, W, C]`, uint8 or float32 in [0, 1]
    indices: np.ndarray  # `[N]` uint32, their indices, which the random keys depend on
    excluded: np.ndarray  # `[N]` int32, the class predicted at each


class Settings(NamedTuple):
    """What the caller asked for, on the host."""

    delta: float  # the least confidence of a distinct misclassification, in (0, 1)
    num_samples: int  # plain draws for each input
    bar: Bar  # where progress is shown, in draws
    # Forward passes for each input, plain draws included, that the cascade spends at
    # most, a gradient counted as three; infinite for no limit.
    budget: float = math.inf
    confidence_level: float = 0.95  # of the intervals, in (0, 1)


def placed(work: Work) -> Work:
    return put_whole(work, work.mesh)


def rows_on_a_device(work: Work, image_shape: tuple[int, ...]) -> int:
    return rows_for(work.classifier, image_shape, work.mesh) // work.mesh.size


def block_size(number: int, mesh: ImageMesh, most: int, base: int = 2) -> int:
    """Rows in a block, a multiple of the devices."""
    return min(most, nearest_bucket(number // mesh.size, base)) * mesh.size


def check_valid(valid: np.ndarray, indices: np.ndarray) -> None:
    invalid = indices[~valid]
    if len(invalid):
        raise ValueError(
            "what the classifier returned for perturbations of "
            f"{len(set(invalid.tolist()))} of the inputs, first of input {invalid[0]}, "
            "is no distribution (NaN, infinite logits, or rows that do not sum to 1); "
            "for the unperturbed images it was. Either it fails on perturbed images, "
            "or its answers depend on the images beside them in a batch, as in "
            "training mode: then switch that off (train=False, model.eval())"
        )


#: The most inputs in a call, so that statistics are batched and dispatch costs nothing.
INPUTS = 64
# On a CPU as few as this many operations allow: about a second on two cores.
_MAX_OPERATIONS_CPU = 2**36
# Bytes of the perturbed images alive at once on a CPU. Beyond its second-level cache,
# the network takes longer to read what the generator wrote than both take to compute.
_MAX_BYTES_CPU = 2**20
_MIN_ROWS_CPU = 128


def by_row(*split: bool, **how: Any) -> Callable[[Callable[..., Any]], Any]:
    """Compiles a function of a `Work` and arrays, each device for its own rows."""

    def decorated(function: Callable[..., Any]) -> Any:
        @functools.wraps(function)
        def whole(work: Work, *arrays: Any, **static: Any) -> Any:
            own = functools.partial(function, **static)
            return on_each_device(own, work.mesh, (False, *split))(work, *arrays)

        return jax.jit(whole, **how)

    return decorated


class Statistic(NamedTuple):
    """What is computed of plain draws, by functions of a module.

    Other objects, such as closures made anew, would be other programs.
    """

    # `observe(log_p, excluded, logit_delta)` with log-probabilities `[m, K]` of m draws
    # at one input: a pytree of arrays `[m, ...]`.
    observe: Callable[..., Any]
    # Takes what `observe` returned, `[b, n, ...]` for b inputs, and returns a pytree of
    # `[b, ...]`.
    summarise: Callable[..., Any]


def summarise_draws(
    work: Work, inputs: Inputs, settings: Settings, statistic: Statistic
) -> Any:
    """Draws perturbed images around each input and summarises the outputs."""
    # Draw s at the input of index i depends on `work.key`, i and s alone, not on blocks
    # or devices.
    image_shape = inputs.images.shape[1:]
    at_once = rows_in_call(work, image_shape)

    def step(*block: jax.Array) -> tuple[Any, jax.Array]:
        return drawing(work, block, settings.num_samples, at_once, statistic).run()

    take = functools.partial(taken, inputs)
    every = np.arange(len(inputs.indices))
    most = inputs_at_once(work, image_shape, settings.num_samples)
    size = block_size(len(every), work.mesh, most)
    parts = []
    for rows, (summary, valid) in in_blocks(step, take, every, size, work.mesh):
        check_valid(valid, inputs.indices[rows])
        parts.append(summary)
        settings.bar.update(len(rows) * settings.num_samples)
    return joined(parts)


def drawing(
    work: Work,
    block: tuple[Any, ...],
    num_samples: int,
    rows: int,
    statistic: Statistic,
) -> Call:
    """The call that draws around a block of inputs; arrays or their shapes."""
    static = {"num_samples": num_samples, "rows": rows, "statistic": statistic}
    return Call(_step, (work, *block), static, work.mesh)


def rows_in_call(work: Work, image_shape: tuple[int, ...]) -> int:
    rows = rows_on_a_device(work, image_shape)
    if platform(work.mesh) != "cpu":
        return rows
    in_cache = _MAX_BYTES_CPU // (4 * math.prod(image_shape))
    rows = min(rows, max(in_cache, _MIN_ROWS_CPU))
    return whole_batches(work.classifier, rows)


def inputs_at_once(work: Work, image_shape: tuple[int, ...], num_samples: int) -> int:
    # Fewer where that would take long, so that progress shows; one if a network on the
    # host takes nobody knows how long.
    if platform(work.mesh) != "cpu":
        return INPUTS
    operations = trace_info(work.classifier, image_shape).operations
    most = int(_MAX_OPERATIONS_CPU / max(1, operations * num_samples))
    return min(INPUTS, nearest_bucket(most, 2))


@by_row(True, True, True, static_argnames=("num_samples", "rows", "statistic"))
def _step(
    work: Work,
    images: jax.Array,
    indices: jax.Array,
    excluded: jax.Array,
    *,
    num_samples: int,
    rows: int,
    statistic: Statistic,
) -> tuple[Any, jax.Array]:
    images = as_floats(images)
    keys = alteration_keys(work.key, indices)
    # Chunks of `group` inputs and `draws` draws, `parts` of which make an input.
    parts = -(-num_samples // rows)
    draws = -(-num_samples // parts)
    group = math.gcd(len(images), bucket(max(rows // draws, 1) + 1, 2) // 2)

    def chunk(number: jax.Array) -> tuple[Any, jax.Array]:
        first, part = (number // parts) * group, number % parts

        def taken(array: jax.Array) -> jax.Array:
            return jax.lax.dynamic_slice_in_dim(array, first, group)

        numbers = part * draws + jnp.arange(draws, dtype=jnp.uint32)
        each = jax.vmap(lambda k: alteration_keys(k, numbers))(taken(keys))
        log_p = _log_probabilities(work, taken(images), each)
        observed = jax.vmap(statistic.observe, (0, 0, None))(
            log_p, taken(excluded), work.logit_delta
        )
        return observed, ~jnp.isnan(log_p).any(axis=(1, 2))

    observed, valid = jax.lax.map(
        chunk, jnp.arange(len(images) // group * parts, dtype=jnp.int32)
    )

    def by_input(array: jax.Array) -> jax.Array:
        array = array.reshape(-1, parts, *array.shape[1:]).swapaxes(1, 2)
        return array.reshape(len(images), parts * draws, *array.shape[4:])

    observed = jax.tree.map(lambda a: by_input(a)[:, :num_samples], observed)
    valid = valid.reshape(-1, parts, group).all(axis=1).reshape(-1)
    return statistic.summarise(observed), valid


def _log_probabilities(work: Work, images: jax.Array, keys: jax.Array) -> jax.Array:
    """`[g, m, K]` at m perturbations of each of g images, one for each key `[g, m]`."""
    perturbation = work.perturbation
    # Along one axis, because a TPU pads an axis of inputs, of which there is often one.
    shape = *keys.shape, *images.shape[1:]
    around = jnp.broadcast_to(images[:, None], shape).reshape(-1, *shape[2:])
    in_line = is_ball(perturbation) and shape[-1] == 1
    if in_line:
        around = around.reshape(len(around), -1)
    flat = jax.vmap(
        lambda key, image: perturbation.perturbed(image, perturbation.draw(key, image))
    )(keys.reshape(-1), around)
    if in_line:
        flat = _written(flat).reshape(-1, *shape[2:])
    own = None
    if work.classifier.stochastic:
        own = jax.vmap(lambda k: classifier_keys(k, jnp.zeros(1, jnp.uint32)))
        own = own(keys.reshape(-1))[:, 0]
    log_p = mean_over_samples(work.classifier.log_probabilities(flat, own))
    return log_p.reshape(*keys.shape, -1)


def _written(lines: jax.Array) -> jax.Array:
    """Perturbed images as lines of pixels, which a TPU writes before it classifies."""
    # It would else draw random numbers in the layout of the network's first
    # convolution, which pads one channel to a vector. By a v5e's compiler's estimate
    # 64,000 draws take 22.8 ms instead of 27.3 (MNIST CNN), 7.2 instead of 13.3
    # (strided CNN). With three channels it depends on the network: 47.7 instead of 58.1
    # (IDC CNN), and 34.4 instead of 30.3 (residual network).
    return jax.lax.platform_dependent(
        lines, tpu=jax.lax.optimization_barrier, default=lambda lines: lines
    )
