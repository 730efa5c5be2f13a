"""What RoMA does with a block of inputs."""

import math
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from jaxrob._arguments.checks import check_choice, check_type, checked_integer
from jaxrob._classifier import Classifier, trace_info
from jaxrob._devices.call import Call, shapes_of, shapes_whole
from jaxrob._devices.mesh import sharded
from jaxrob.roma import Perturbation, ball
from jaxrob.roma._assess import check_confidences
from jaxrob.roma._blocks import block_size
from jaxrob.roma._draws import INPUTS, Statistic, drawing, inputs_at_once, rows_in_call
from jaxrob.roma._estimators import ESTIMATORS, estimator_named
from jaxrob.roma._mixture import COMPONENTS, DRAWS, drawing_tilted, inputs_in_call
from jaxrob.roma._pairs import SPLITTING, Pairs
from jaxrob.roma._particles import empty_systems, num_moves, stepping
from jaxrob.roma._perturbation import fingerprinted_perturbation
from jaxrob.roma._splitting import NUM_PARTICLES, num_slots
from jaxrob.roma._tilt import TILTED_BALLS
from jaxrob.roma._work import Inputs, Work, rows_on_a_device
from jaxrob.steps._step import (
    Step,
    a_key,
    checked_classifier,
    checked_shape,
    checked_size,
    checked_type,
)

# "auto" takes steps of several of these.
_ESTIMATORS = tuple(name for name in ESTIMATORS if name != "auto")


def roma(
    classifier: Classifier,
    image_shape: tuple[int, ...],
    *,
    estimator: str = "roma",
    num_inputs: int = INPUTS,
    num_samples: int = 1000,
    perturbation: Perturbation | None = None,
    rows: int | None = None,
    dtype: Any = "uint8",
    mesh: Mesh | None = None,
) -> Step:
    """The step in which an estimator of `jaxrob.roma.assess` spends its passes.

    * "roma", "count", "logit": the plain draws around a block of inputs, and their
      statistics.
    * "importance": draws from mixtures of three tilts and the plain distribution, 1,024
      for each of a few inputs. Where an input has more than three modes, a run takes a
      larger step, with room for 15 tilts (then 63).
    * "splitting": a level of 1,000 particles for each of a few inputs.

    Args:
      classifier: the classifier. Its variables may be shapes.
      image_shape: the shape of one image, `(H, W, C)`.
      estimator: one of these. "auto" takes steps of "count", "importance" and
        "splitting".
      num_inputs: the inputs in all. A step takes 64 for each device at
        most, on a CPU fewer of a large network.
      num_samples: plain draws for each input, at least 8.
      perturbation: the perturbation; by default `jaxrob.roma.ball` of
        L-infinity and radius 0.04.
      rows: perturbed images that each device classifies at once; by default as many as
        fit into its memory.
      dtype: "uint8" or "float32", the type of the images.
      mesh: see `evaluation`.

    Raises:
      TypeError: if an argument has a wrong type.
      ValueError: if `num_samples` is below 8, another number below 1, the estimator
        unknown or impossible with this classifier or perturbation, or the classifier
        runs on the host, has "scores" for outputs, or refuses the images' shape.
    """
    check_choice("estimator", estimator, _ESTIMATORS)
    num_inputs = checked_integer("num_inputs", num_inputs, at_least=1)
    num_samples = checked_integer("num_samples", num_samples, at_least=8)
    rows = checked_size("rows", rows)
    if perturbation is None:
        perturbation = ball("linf", 0.04)
    check_type("perturbation", perturbation, Perturbation, "a jaxrob.roma.Perturbation")
    image_shape, dtype = checked_shape(image_shape), checked_type(dtype)
    classifier, over = checked_classifier(classifier, image_shape, mesh)
    check_confidences(classifier)
    perturbation = fingerprinted_perturbation(perturbation, image_shape)
    logit_delta: Any = jax.ShapeDtypeStruct((), np.float32)
    work = Work(classifier, perturbation, logit_delta, a_key(), over)
    work = shapes_whole(work, over)
    how = estimator_named(estimator)
    obstacle = how.obstacle(work, image_shape)
    if obstacle is not None:
        raise ValueError(f'estimator="{estimator}" {obstacle}')
    image = jax.ShapeDtypeStruct(image_shape, dtype)
    if how.plain is not None:
        at_once = rows_in_call(work, image_shape) if rows is None else rows
        plain = how.plain, num_inputs, num_samples, at_once
        call, passes = _plain(work, image, *plain)
        at_once *= over.size
    else:
        at_once = rows_on_a_device(work, image_shape) if rows is None else rows
        make = _tilted if estimator == "importance" else _level
        call, passes, at_once = make(work, image, num_inputs, at_once)
    samples = trace_info(classifier, image_shape).num_samples
    return Step(passes * samples, at_once, over.mesh, call)


def _plain(
    work: Work,
    image: jax.ShapeDtypeStruct,
    statistic: Statistic,
    num_inputs: int,
    num_samples: int,
    rows: int,
) -> tuple[Call, int]:
    """Plain draws, and how many images they classify."""
    most = inputs_at_once(work, image.shape, num_samples)
    number = block_size(num_inputs, work.mesh, most)
    pairs = _pairs(work, image, number)
    block = Inputs(pairs.images, pairs.indices, pairs.excluded)
    call = drawing(work, block, num_samples, rows, statistic)
    return call, number * num_samples


def _tilted(
    work: Work, image: jax.ShapeDtypeStruct, num_inputs: int, rows: int
) -> tuple[Call, int, int]:
    """Draws from mixtures, the images that they classify, and how many at once."""
    number = inputs_in_call(num_inputs, work.mesh, rows)
    whole = jax.ShapeDtypeStruct(image.shape, np.float32)
    none = jax.eval_shape(TILTED_BALLS[work.perturbation.norm].none, whole)
    tilts = jax.tree.map(
        lambda leaf: _split(work, number, (COMPONENTS, *leaf.shape), leaf.dtype), none
    )
    first = _split(work, number, (), np.uint32)
    component = _split(work, number, (DRAWS,), np.int32)
    given = _pairs(work, image, number), tilts, first, component
    call = drawing_tilted(work, *given, stage=0, rows=rows)
    return call, number * DRAWS, min(rows * work.mesh.size, number * DRAWS)


def _level(
    work: Work, image: jax.ShapeDtypeStruct, num_inputs: int, rows: int
) -> tuple[Call, int, int]:
    """A level of splitting, the images that it classifies, and how many at once."""
    most = rows * work.mesh.size // NUM_PARTICLES
    number = num_slots(num_inputs, most, work.mesh.size)
    whole = jax.ShapeDtypeStruct(image.shape, np.float32)
    systems = jax.eval_shape(
        lambda: empty_systems(work.perturbation, whole, number, NUM_PARTICLES)
    )
    systems = shapes_of(systems, sharded(work.mesh))
    given = systems, _pairs(work, image, number), _split(work, number, (), bool)
    call = stepping(work, *given, SPLITTING, NUM_PARTICLES)
    moves = num_moves(work.perturbation, math.prod(image.shape))
    return call, number * NUM_PARTICLES * moves, number * NUM_PARTICLES


def _pairs(work: Work, image: jax.ShapeDtypeStruct, number: int) -> Pairs[Any]:
    return Pairs(
        images=_split(work, number, image.shape, image.dtype),
        indices=_split(work, number, (), np.uint32),
        classes=_split(work, number, (), np.int32),
        excluded=_split(work, number, (), np.int32),
    )


def _split(work: Work, number: int, shape: tuple[int, ...], dtype: Any) -> Any:
    return jax.ShapeDtypeStruct((number, *shape), dtype, sharding=sharded(work.mesh))
