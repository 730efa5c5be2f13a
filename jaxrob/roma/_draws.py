"""Crude Monte Carlo: plain draws around every input, in blocks, and their counts."""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxrob._classifiers.classifier import Classifier
from jaxrob._classifiers.trace import trace_info
from jaxrob._devices.blocks import (
    Call,
    bucket,
    in_blocks,
    joined,
    nearest_bucket,
    taken,
)
from jaxrob._devices.mesh import ImageMesh, on_each_device, platform
from jaxrob._engine.execution import Bar, rows_for, whole_batches
from jaxrob._keys import alteration_keys, classifier_keys
from jaxrob._numbers import (
    as_floats,
    first_largest,
    largest,
    log_sum_exp,
    mean_over_samples,
)
from jaxrob.metrics._testing import clopper_pearson
from jaxrob.roma._estimate import Answers
from jaxrob.roma._perturbation import Perturbation, is_ball

Array = TypeVar("Array", np.ndarray, jax.Array)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class Work:
    """What stays the same for all inputs of one assessment; lies on the devices."""

    classifier: Classifier
    perturbation: Perturbation  # the distribution of perturbed images
    logit_delta: jax.Array
    key: jax.Array
    mesh: ImageMesh = dataclasses.field(metadata={"static": True})


class Inputs(NamedTuple):
    images: np.ndarray  # `[N, H, W, C]`, uint8 or float32 in [0, 1]
    indices: np.ndarray  # `[N]` uint32, their indices, which the random keys depend on
    excluded: np.ndarray  # `[N]` int32, the class predicted at each


class Settings(NamedTuple):
    delta: float  # the least confidence of a distinct misclassification, in (0, 1)
    num_samples: int  # plain draws for each input
    bar: Bar  # where progress is shown, in draws
    # The most forward passes for an input, plain draws included; may be infinite.
    budget: float = math.inf
    confidence_level: float = 0.95  # of the intervals, in (0, 1)


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
# Perturbed images at once: beyond the second-level cache they are read slowly.
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
    """What is computed of plain draws, by a module's functions: closures recompile."""

    # `observe(log_p, excluded, logit_delta)`: of `[m, K]` at one input, `[m, ...]`.
    observe: Callable[..., Any]
    summarise: Callable[..., Any]  # from `[b, n, ...]` of b inputs to `[b, ...]`


def summarise_draws(
    work: Work, inputs: Inputs, settings: Settings, statistic: Statistic
) -> Any:
    """Draws perturbed images around each input and summarises the outputs."""
    # Draw s at input i depends on the key, i and s, not on blocks or devices.
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
    # Fewer where that takes long, so that progress shows; one of a host's network.
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
    return _mean_log_probabilities(work, flat.reshape(shape), keys)


def _written(lines: jax.Array) -> jax.Array:
    """Perturbed images as lines of pixels, which a TPU writes before it classifies."""
    # Else it draws in the first convolution's layout, with padded channels. On a v5e:
    # 22.8 ms for 27.3 (MNIST CNN), 47.7 for 58.1 (IDC), but 34.4 for 30.3 (residual).
    return jax.lax.platform_dependent(
        lines, tpu=jax.lax.optimization_barrier, default=lambda lines: lines
    )


# The index of no input: here the pairs' keys branch off from those of plain draws.
_PAIRS = 2**32 - 2

#: Uses of random numbers. Results depend on these: add new ones at the end.
STARTS, SEARCH, REFINEMENT, MIXTURE, SPLITTING, SCOUTS = range(6)
#: Further runs of splitting.
AGAIN = (6, 7, 8)
#: Further groups of scouts.
MORE_SCOUTS = (9, 10)
#: In place of a class: whichever comes nearest to being the distinct answer.
ANY_CLASS = -1


class Pairs(NamedTuple, Generic[Array]):
    """P pairs of an input and a class."""

    images: Array  # `[P, H, W, C]`, uint8 or float32 in [0, 1]
    indices: Array  # `[P]` uint32, the inputs' indices, which the random keys depend on
    classes: Array  # `[P]` int32, the classes; `ANY_CLASS` for all of them together
    excluded: Array  # `[P]` int32, the class predicted at the input


def pair_keys(
    key: jax.Array, pairs: Pairs[jax.Array], use: int | jax.Array
) -> jax.Array:
    """`[P]` keys that depend on the input, the class and the use alone."""
    key = jax.random.fold_in(key, _PAIRS)

    def one(index: jax.Array, cls: jax.Array) -> jax.Array:
        of_class = jax.random.fold_in(jax.random.fold_in(key, index), cls)
        return jax.random.fold_in(of_class, use)

    return jax.vmap(one)(pairs.indices, pairs.classes.astype(jnp.uint32))


#: Statistics take a margin beyond this as this, so that their sums are finite.
LARGEST_MARGIN = 1e15


def log_hic(log_p: jax.Array, excluded: jax.Array) -> jax.Array:
    """The logarithm of the highest incorrect confidence (section 3.2)."""
    is_excluded = jnp.arange(log_p.shape[-1]) == excluded
    return largest(log_p, but=is_excluded)


def distinct_margins(log_p: jax.Array, logit_delta: jax.Array) -> jax.Array:
    """By how much each class is the distinct answer: at least 0 if it is."""
    # min(logit p_c - logit delta, log p_c - max log p_j of others): for delta >= 0.5
    # the first, which is nearly linear in the perturbation and never underflows.
    classes = jnp.arange(log_p.shape[-1])
    is_best = classes == first_largest(log_p)[..., None]
    # 1 - p of the best class comes from the others: its own p may round to 1.
    log_rest_of_best = log_sum_exp(log_p, keepdims=True, but=is_best)
    not_best = jnp.where(is_best, -1.0, log_p)
    log_rest = jnp.where(is_best, log_rest_of_best, jnp.log1p(-jnp.exp(not_best)))
    rival = jnp.where(
        is_best,
        largest(log_p, keepdims=True, but=is_best),
        largest(log_p, keepdims=True),
    )
    return jnp.minimum(log_p - log_rest - logit_delta, log_p - rival)


def distinct_margin(
    log_p: jax.Array, cls: jax.Array, logit_delta: jax.Array
) -> jax.Array:
    """`distinct_margins` of one class, differentiable everywhere except on ties."""
    classes = jnp.arange(log_p.shape[-1])
    is_class = classes == cls
    own = jnp.where(is_class, log_p, 0).sum(axis=-1)
    is_rival = classes == first_largest(log_p, but=is_class)[..., None]
    rival = jnp.where(is_rival, log_p, 0).sum(axis=-1)
    logit = own - log_sum_exp(log_p, but=is_class)
    return jnp.minimum(logit - logit_delta, own - rival)


def margins_of_pairs(
    work: Work, pairs: Pairs[jax.Array], images: jax.Array, keys: jax.Array
) -> jax.Array:
    log_p = _mean_log_probabilities(work, images, keys)
    one = jax.vmap(_margin_as, (0, 0, 0, None))
    return one(log_p, pairs.classes, pairs.excluded, work.logit_delta)


def nearest_class(
    work: Work, pairs: Pairs[jax.Array], images: jax.Array, keys: jax.Array
) -> jax.Array:
    """`[P, m]` the other class with the greatest margin on each image."""
    log_p = _mean_log_probabilities(work, images, keys)
    one = jax.vmap(_nearest, (0, 0, None))
    return one(log_p, pairs.excluded, work.logit_delta).astype(jnp.int32)


def _mean_log_probabilities(
    work: Work, images: jax.Array, keys: jax.Array
) -> jax.Array:
    """`[P, m, K]` of images `[P, m, H, W, C]`, by the mean over samples."""
    shape = images.shape[:2]
    own = None
    if work.classifier.stochastic:
        own = jax.vmap(lambda k: classifier_keys(k, jnp.zeros(1, jnp.uint32))[0])
        own = own(keys.reshape(-1))
    flat = images.reshape(-1, *images.shape[2:])
    log_p = mean_over_samples(work.classifier.log_probabilities(flat, own))
    return log_p.reshape(*shape, -1)


def _margin_as(
    log_p: jax.Array, cls: jax.Array, excluded: jax.Array, logit_delta: jax.Array
) -> jax.Array:
    """`[m]` margins of a class, or of the nearest one, from `[m, K]`."""
    nearest = _nearest(jax.lax.stop_gradient(log_p), excluded, logit_delta)
    chosen = jnp.where(cls == ANY_CLASS, nearest, cls)
    return jax.vmap(distinct_margin, (0, 0, None))(log_p, chosen, logit_delta)


def _nearest(
    log_p: jax.Array, excluded: jax.Array, logit_delta: jax.Array
) -> jax.Array:
    """`[m]` the class with the greatest margin but the excluded one."""
    is_excluded = jnp.arange(log_p.shape[-1]) == excluded
    return first_largest(distinct_margins(log_p, logit_delta), but=is_excluded)


#: The status of "count", without a caveat.
COUNTED = {"counted": ""}


def count(work: Work, inputs: Inputs, settings: Settings) -> Answers:
    hits = summarise_draws(work, inputs, settings, HITS)
    return counted(hits, settings.num_samples, settings.confidence_level)


def counted(hits: np.ndarray, num_samples: int, confidence_level: float) -> Answers:
    low, high = clopper_pearson(hits, num_samples, confidence_level)
    with np.errstate(divide="ignore"):
        log_p, log_low, log_high = (
            np.log(part) for part in (hits / num_samples, low, high)
        )
    return Answers(
        status=np.full(len(hits), "counted", "U16"),
        log_adversarial_probability=log_p,
        log_low=log_low,
        log_high=log_high,
        hits=np.asarray(hits, np.int64),
        evaluations=np.full(len(hits), num_samples, np.int64),
    )


def observe_hits(
    log_p: jax.Array, excluded: jax.Array, logit_delta: jax.Array
) -> jax.Array:
    """`[m]` whether each draw is distinctly misclassified (Definition 3)."""
    hic = log_hic(log_p, excluded)
    own = jnp.take(log_p, excluded, axis=-1)
    return (hic >= jax.nn.log_sigmoid(logit_delta)) & (hic > own)


def count_hits(hits: jax.Array) -> jax.Array:
    return hits.sum(axis=1, dtype=jnp.int32)


#: The number of hits among plain draws.
HITS = Statistic(observe_hits, count_hits)
