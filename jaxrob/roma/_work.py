"""What every estimator is given: the work on the devices, inputs and settings."""

import dataclasses
import math
from typing import NamedTuple, TypeVar

import jax
import numpy as np

from jaxrob._classifier import Classifier
from jaxrob._devices.hosts import put_whole
from jaxrob._devices.mesh import ImageMesh
from jaxrob._engine.bar import Bar
from jaxrob._engine.sizes import rows_for
from jaxrob.roma._perturbation import Perturbation

# On the host, or on the devices.
Array = TypeVar("Array", np.ndarray, jax.Array)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class Work:
    """What stays the same for all inputs of one assessment.

    A pytree, so that a compiled step takes it as one argument. `placed` puts its
    arrays on the devices, once for the whole assessment. The mesh is static: another
    one is another program.

    Attributes:
      classifier: the classifier.
      perturbation: the distribution of perturbed images.
      logit_delta: float32, log(delta / (1 - delta)), delta the least confidence of a
        distinct misclassification.
      key: a random key.
      mesh: the devices.
    """

    classifier: Classifier
    perturbation: Perturbation
    logit_delta: jax.Array
    key: jax.Array
    mesh: ImageMesh = dataclasses.field(metadata={"static": True})


class Inputs(NamedTuple):
    """Unperturbed inputs and what is known of them, on the host.

    Attributes:
      images: `[N, H, W, C]`, uint8 or float32 in [0, 1].
      indices: `[N]` uint32, their indices, which the random keys depend on.
      excluded: `[N]` int32, the class predicted at each.
    """

    images: np.ndarray
    indices: np.ndarray
    excluded: np.ndarray


class Settings(NamedTuple):
    """What the caller asked for, on the host.

    Attributes:
      delta: the least confidence of a distinct misclassification, in (0, 1).
      num_samples: plain draws for each input.
      bar: where progress is shown, in draws.
      budget: forward passes for each input, plain draws included, that the cascade
        spends at most, a gradient counted as three; infinite for no limit.
      confidence_level: of the intervals, in (0, 1).
    """

    delta: float
    num_samples: int
    bar: Bar
    budget: float = math.inf
    confidence_level: float = 0.95


def placed(work: Work) -> Work:
    """The work with its arrays on all devices of its mesh."""
    return put_whole(work, work.mesh)


def rows_on_a_device(work: Work, image_shape: tuple[int, ...]) -> int:
    """How many images each device classifies in one call."""
    return rows_for(work.classifier, image_shape, work.mesh) // work.mesh.size
