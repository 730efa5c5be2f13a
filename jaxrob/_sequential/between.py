"""Where a curve may cross the threshold between levels of one side."""

import numpy as np

from jaxrob._sequential.estimates import Estimates
from jaxrob._sequential.task import Task
from jaxrob.strategies import ASAP, Question
from jaxrob.strategies._strategy import Samples


def may_cross(task: Task, strategy: ASAP, found: Estimates) -> np.ndarray:
    """Whether it may, by the strategy's rule, between neighbours, bool `[n - 1]`."""
    positions = found.steps / task.parts
    # With how many images levels would scatter as they typically do.
    variance = np.square(found.deviations) + task.deviation**2 / task.num_images
    typical = max(int(np.median(task.deviation**2 / variance)), 1)
    samples = Samples(positions, found.means, np.full(len(positions), typical))
    return strategy.may_cross(Question(0.0, 1.0, task.least), samples)
