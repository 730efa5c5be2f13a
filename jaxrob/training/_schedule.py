"""The steps of a training: the images that each reads, and the ends of epochs."""

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import optax

from jaxrob.training._batches import Batches

_EPOCHS = 5


class Schedule(NamedTuple):
    """The length of a training, and the steps between its checkpoints.

    Attributes:
      epoch_steps: steps in a whole epoch.
      num_steps: steps in all; the last epoch may end early.
      checkpoint_every: steps between checkpoints, None without checkpoints.
    """

    epoch_steps: int
    num_steps: int
    checkpoint_every: int | None = None


class PlannedStep(NamedTuple):
    """The inputs of one step, and what follows it.

    Attributes:
      done: the number of steps done including this one.
      epoch: the number of its epoch, from 1.
      ends_epoch: whether it is the last step of the epoch.
      is_kept: whether a checkpoint follows it.
      image_index: `[R]`, the rows of the data set that it reads.
      drawn: its rows of the other arrays of `Batches.draw`, by name.
    """

    done: int
    epoch: int
    ends_epoch: bool
    is_kept: bool
    image_index: np.ndarray
    drawn: dict[str, np.ndarray]


def make_schedule(
    size: int, batch_size: int, epochs: int | None, images_seen: int | None
) -> Schedule:
    """Plans epochs of `size` images, by their number or by the images seen."""
    steps = size // batch_size
    if not steps:
        raise ValueError(
            f"batch_size must be at most {size}, the number of images in an epoch; got "
            f"{batch_size}"
        )
    if images_seen is None:
        return Schedule(steps, steps * (_EPOCHS if epochs is None else epochs))
    if epochs is not None:
        raise ValueError(
            f"epochs and images_seen exclude each other; got {epochs} and {images_seen}"
        )
    if images_seen < batch_size:
        raise ValueError(
            f"images_seen must be at least batch_size, {batch_size}; got {images_seen}"
        )
    return Schedule(steps, images_seen // batch_size)


def usual_optimizer(schedule: Schedule) -> optax.GradientTransformation:
    """Adam, its rate decaying from 1e-3 along a cosine."""
    return optax.adam(optax.cosine_decay_schedule(1e-3, schedule.num_steps))


def remaining_steps(
    batches: Batches, schedule: Schedule, rng: np.random.Generator, done: int
) -> Iterator[PlannedStep]:
    """Yields the steps of a training in order, without the first `done`."""
    epoch_steps, num_steps, every = schedule
    for epoch in range(math.ceil(num_steps / epoch_steps)):
        # Finished epochs are drawn too, to restore the generator's state.
        drawn = batches.draw(rng)
        first = epoch * epoch_steps
        last = min(first + epoch_steps, num_steps)
        for number in range(max(done, first), last):
            count = number + 1
            rows = {name: array[number - first] for name, array in drawn.items()}
            yield PlannedStep(
                done=count,
                epoch=epoch + 1,
                ends_epoch=count == last,
                is_kept=bool(every) and (count % every == 0 or count == num_steps),
                image_index=rows.pop("index"),
                drawn=rows,
            )
