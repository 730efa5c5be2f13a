"""Plain draws of perturbed images: every input, thousands of draws, blocked."""

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P
from tqdm.auto import tqdm

from jaxrob._classifier import Classifier, trace_info
from jaxrob._runtime.hosts import fetch, put
from jaxrob._runtime.keys import alteration_keys, classifier_keys
from jaxrob._runtime.memory import bucket, rows_that_fit
from jaxrob._runtime.mesh import platform, split_over, whole_on
from jaxrob._runtime.pixels import unit_range
from jaxrob.roma._perturbation import Perturbation
from jaxrob.roma._scores import log_probabilities

# Inputs in a call, so that statistics are batched and dispatch costs nothing.
_INPUTS = 64
# Bytes of the perturbed images alive at once on a CPU: beyond its second-level cache,
# the network reads what the generator wrote more slowly than both work.
_MAX_BYTES_CPU = 2**20
_MIN_ROWS_CPU = 128


class Inputs(NamedTuple):
    """Unperturbed inputs and what is known of them.

    Attributes:
      images: `[N, H, W, C]`, uint8 or float32 in [0, 1].
      index: `[N]` uint32, their indices, which the random keys depend on.
      excluded: `[N]` int32, the class predicted at each.
    """

    images: np.ndarray
    index: np.ndarray
    excluded: np.ndarray


class Work(NamedTuple):
    """What stays the same for all inputs.

    Attributes:
      classifier: the classifier.
      perturbation: the distribution of perturbed images.
      logit_delta: log(delta / (1 - delta)), delta the least confidence of a distinct
        answer.
      key: a random key.
      mesh: the devices.
    """

    classifier: Classifier
    perturbation: Perturbation
    logit_delta: float
    key: jax.Array
    mesh: Mesh


def summarise_draws(
    work: Work,
    inputs: Inputs,
    num_samples: int,
    observe: Callable[..., Any],
    summarise: Callable[..., Any],
    bar: tqdm,
) -> Any:
    """Draws perturbed images around each input and summarises what they give.

    The draw of number s at the input of index i depends on `work.key`, i and s alone,
    so that nothing depends on blocks or devices.

    Args:
      work: the classifier and so on.
      inputs: N inputs.
      num_samples: draws for each input, n.
      observe: `observe(log_p, excluded, logit_delta)` with log-probabilities `[m, K]`
        of m draws at one input: a pytree of arrays `[m, ...]`.
      summarise: takes what `observe` returned, `[b, n, ...]` for b inputs, and returns
        a pytree of `[b, ...]`.
      bar: where progress is shown.

    Returns:
      The summaries, NumPy arrays `[N, ...]`.

    Raises:
      ValueError: if the classifier returned NaN or rows that are no distribution.
    """
    found = trace_info(work.classifier, inputs.images.shape[1:])
    rows = rows_that_fit(found.largest_array, inputs.images.shape[1:], work.mesh)
    rows = max(1, rows // work.mesh.size)
    if platform(work.mesh) == "cpu":
        in_cache = _MAX_BYTES_CPU // (4 * math.prod(inputs.images.shape[1:]))
        rows = min(rows, max(in_cache, _MIN_ROWS_CPU))
    split = split_over(work.mesh)
    classifier, perturbation, key, logit_delta = put(
        (
            work.classifier,
            work.perturbation,
            work.key,
            np.float32(work.logit_delta),
        ),
        whole_on(work.mesh),
    )
    parts = []
    with jax.set_mesh(work.mesh):
        for block, valid in input_blocks(inputs, work.mesh, _INPUTS):
            summary, is_valid = _step(
                classifier,
                perturbation,
                put(block, split),
                key,
                logit_delta,
                num_samples=num_samples,
                rows=rows,
                observe=observe,
                summarise=summarise,
                mesh=work.mesh,
            )
            summary, is_valid = fetch((summary, is_valid))
            check_valid(is_valid[:valid], block.index)
            parts.append(first_of(summary, valid))
            bar.update(valid * num_samples)
    return joined(parts)


def input_blocks(inputs, mesh: Mesh, most: int):
    """Blocks of at most so many inputs a device, padded by repeating the last one.

    Args:
      inputs: a NamedTuple of arrays `[N, ...]`.
      mesh: the devices.
      most: inputs a device in a block.

    Yields:
      A block of one size, and how many of its inputs count.
    """
    number = len(inputs[0])
    size = min(most, bucket(-(-number // mesh.size), 2)) * mesh.size
    for first in range(0, number, size):
        chosen = np.minimum(np.arange(first, first + size), number - 1)
        block = jax.tree.map(functools.partial(np.take, indices=chosen, axis=0), inputs)
        yield block, min(size, number - first)


def first_of(tree: Any, number: int) -> Any:
    """The first entries of all arrays of a pytree."""
    return jax.tree.map(lambda array: array[:number], tree)


def joined(parts: list[Any]) -> Any:
    """Pytrees of arrays, put together along the first axis."""
    return jax.tree.map(lambda *some: np.concatenate(some), *parts)


def check_valid(valid: np.ndarray, index: np.ndarray) -> None:
    """Refuses answers that are no distribution.

    Args:
      valid: `[n]` whether the answers on an input's perturbations are distributions.
      index: `[n]` or more, the inputs' indices.
    """
    if not valid.all():
        first = index[: len(valid)][~valid][0]
        raise ValueError(
            "the classifier returned NaN, or rows that are no probabilities, for "
            f"perturbations of {(~valid).sum()} of {len(valid)} inputs in a block, "
            f"first of the input {first}"
        )


@functools.partial(
    jax.jit, static_argnames=("num_samples", "rows", "observe", "summarise", "mesh")
)
def _step(
    classifier,
    perturbation,
    inputs,
    key,
    logit_delta,
    *,
    num_samples,
    rows,
    observe,
    summarise,
    mesh,
):
    def local(classifier, perturbation, inputs, key, logit_delta):
        images = inputs.images
        if images.dtype == jnp.uint8:
            images = unit_range(images)
        keys = alteration_keys(key, inputs.index)
        # Chunks of `group` inputs and `draws` draws, `parts` of which make an input.
        parts = -(-num_samples // rows)
        draws = -(-num_samples // parts)
        group = math.gcd(len(images), bucket(max(rows // draws, 1) + 1, 2) // 2)

        def chunk(number):
            first, part = (number // parts) * group, number % parts

            def taken(array):
                return jax.lax.dynamic_slice_in_dim(array, first, group)

            numbers = part * draws + jnp.arange(draws, dtype=jnp.uint32)
            each = jax.vmap(lambda k: alteration_keys(k, numbers))(taken(keys))
            perturbed = jax.vmap(
                lambda image, some: jax.vmap(
                    lambda k: perturbation.perturbed(image, perturbation.draw(k, image))
                )(some)
            )(taken(images), each)
            flat = perturbed.reshape(-1, *perturbed.shape[2:])
            own = None
            if classifier.stochastic:
                own = jax.vmap(lambda k: classifier_keys(k, jnp.zeros(1, jnp.uint32)))
                own = own(each.reshape(-1))[:, 0]
            log_p = log_probabilities(classifier, flat, own)
            log_p = log_p.reshape(group, draws, -1)
            observed = jax.vmap(observe, (0, 0, None))(
                log_p, taken(inputs.excluded), logit_delta
            )
            return observed, ~jnp.isnan(log_p).any(axis=(1, 2))

        observed, valid = jax.lax.map(
            chunk, jnp.arange(len(images) // group * parts, dtype=jnp.int32)
        )

        def by_input(array):
            array = array.reshape(-1, parts, *array.shape[1:]).swapaxes(1, 2)
            return array.reshape(len(images), parts * draws, *array.shape[4:])

        observed = jax.tree.map(lambda a: by_input(a)[:, :num_samples], observed)
        valid = valid.reshape(-1, parts, group).all(axis=1).reshape(-1)
        return summarise(observed), valid

    over_inputs = P(mesh.axis_names)
    return jax.shard_map(
        local,
        mesh=mesh,
        in_specs=(P(), P(), over_inputs, P(), P()),
        out_specs=over_inputs,
        check_vma=False,
    )(classifier, perturbation, inputs, key, logit_delta)
