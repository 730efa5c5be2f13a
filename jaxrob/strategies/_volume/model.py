"""A model of the measure on the cube of levels: it chooses, and proves nothing."""

import functools
import math
from typing import NamedTuple

import numpy as np
import scipy

from jaxrob.strategies._strategy import History, Task
from jaxrob.strategies._volume.sides import answers

# Images at each level that the model learns from; whole blocks are classified.
IMAGES = 48
# First levels by dimension, from there on 16 for each axis; refinements add half.
_FIRST = {1: 12, 2: 24, 3: 40}
# Candidates of a refinement, and how far from the threshold they may lie.
_TRIED, _STRADDLE = 2048, 1.96
# The most cells, and the most axes that are cut into some.
_CELLS, _AXES = 4096, 12


def exploration(task: Task, budget: int | None, others: int = 0) -> np.ndarray:
    """Returns levels to learn from, `[m, d]`, if the budget pays them and others."""
    # Nothing else may count them.
    dimension = np.size(task.lower)
    points = _sobol(dimension, _FIRST.get(dimension, 16 * dimension), task.seed)
    each = images_to_learn(task)
    least = each * (len(points) + others)
    if budget is not None and least > budget:
        raise ValueError(
            f"budget must be at least {least}, for {each} images at each of the first "
            f"levels; got {budget}"
        )
    return points


def images_to_learn(task: Task) -> int:
    """Returns how many images are classified at each of these levels."""
    whole = math.ceil(IMAGES / task.block) * task.block
    return min(whole, task.num_images or 1)


def refined(points: np.ndarray, model: "Model", seed: int) -> np.ndarray:
    """Returns more levels, where the model does not know the side, far apart."""
    tried = _sobol(points.shape[1], _TRIED, seed + len(points))
    return model.straddling(tried, len(points) // 2)


def _sobol(dimension: int, number: int, seed: int) -> np.ndarray:
    random = scipy.stats.qmc.Sobol(dimension, rng=np.random.default_rng(seed))
    return random.random_base2(max(number - 1, 1).bit_length())[:number]


class Model(NamedTuple):
    """A Gaussian process on the logit of the measure, rescaled to [0, 1]."""

    points: np.ndarray  # [m, d]
    parameters: np.ndarray  # [1 + d], logs of the variance and of the lengths
    factor: np.ndarray  # [m, m], Cholesky's of the covariance
    weights: np.ndarray  # [m]
    threshold: float  # the logit of the lowest accepted measure
    noise: float  # the variance of a new level's logit, near the threshold

    def at(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns the mean logit less the threshold's, and its deviation, `[n]`."""
        mean, variance, _ = self._spread(points)
        return mean, np.sqrt(np.maximum(variance, 1e-9))

    def shares(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns the measure on [0, 1] and about its deviation, `[n]`."""
        mean, deviation = self.at(points)
        share = scipy.special.expit(mean + self.threshold)
        return share, share * (1 - share) * deviation

    def straddling(self, points: np.ndarray, number: int) -> np.ndarray:
        # As Bryan et al. (2005); each point chosen makes those around it known.
        (mean, variance, known), chosen = self._spread(points), []
        for _ in range(number):
            gain = _STRADDLE * np.sqrt(np.maximum(variance, 0)) - np.abs(mean)
            # The same level would show the same images again.
            gain[chosen] = -np.inf
            one = int(gain.argmax())
            chosen.append(one)
            shared = _covariance(self.parameters, points[[one]], points)[0]
            shared = shared - known[:, one] @ known
            new = shared / math.sqrt(max(variance[one], 0) + self.noise)
            known, variance = np.vstack([known, new]), variance - np.square(new)
        return points[chosen]

    def _spread(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        shared = _covariance(self.parameters, self.points, points)
        spread = scipy.linalg.solve_triangular(self.factor, shared, lower=True)
        variance = math.exp(self.parameters[0]) + _CONSTANT
        variance = variance - np.square(spread).sum(axis=0)
        return self.weights @ shared - self.threshold, variance, spread


def learnt(
    task: Task, history: History, points: np.ndarray, before: Model | None
) -> Model:
    """Fits a model to what is known at points of the unit cube, `[m, d]`."""
    (_, seen, right), (low, high) = answers(task, history, points), task.bounds
    # Mean scores, rescaled to [0, 1], times the images seen do as well as counts.
    wrong = seen - right
    noise = 1 / (right + 0.5) + 1 / (wrong + 0.5)
    logits = np.log((right + 0.5) / (wrong + 0.5))
    squares = np.square(points.T[:, :, None] - points.T[:, None, :])
    dimension = points.shape[1]
    starts = [np.r_[1.0, np.full(dimension, math.log(one))] for one in (0.2, 1.0)]
    if before is not None:
        starts = [before.parameters]
    loss = functools.partial(_loss, squares, logits, noise)
    limits = [_LOG_VARIANCE] + [_LOG_LENGTH] * dimension
    found = [
        scipy.optimize.minimize(
            loss,
            np.clip(start, *np.transpose(limits)),
            jac=True,
            method="L-BFGS-B",
            bounds=limits,
            options={"maxiter": 40},
        )
        for start in starts
    ]
    parameters = min(found, key=lambda one: one.fun).x
    covariance = _covariance(parameters, points, points) + np.diag(noise)
    factor = np.linalg.cholesky(covariance)
    weights = scipy.linalg.cho_solve((factor, True), logits)
    images, share = float(seen.mean()), (task.threshold - low) / (high - low)
    share = min(max(share, 0.0), 1.0)
    right_there, wrong_there = images * share + 0.5, images * (1 - share) + 0.5
    return Model(
        points,
        parameters,
        factor,
        weights,
        math.log(right_there / wrong_there),
        1 / right_there + 1 / wrong_there,
    )


# An unknown constant mean, as a part of the covariance.
_CONSTANT = 9.0
_LOG_VARIANCE = math.log(0.02), math.log(200.0)
_LOG_LENGTH = math.log(0.04), math.log(20.0)
# Weak priors, normal on the logs: few levels do not determine lengths.
_PRIOR_MEAN, _PRIOR_DEVIATION = math.log(0.6), 1.2


def _covariance(
    parameters: np.ndarray, points: np.ndarray, others: np.ndarray
) -> np.ndarray:
    scale = np.exp(-parameters[1:])
    distance = scipy.spatial.distance.cdist(points * scale, others * scale)
    # Matern's of smoothness 5/2: means have kinks where an alteration begins to clip.
    far = math.sqrt(5) * distance
    decay = (1 + far + np.square(far) / 3) * np.exp(-far)
    return math.exp(parameters[0]) * decay + _CONSTANT


def _loss(
    squares: np.ndarray, logits: np.ndarray, noise: np.ndarray, parameters: np.ndarray
) -> tuple[float, np.ndarray]:
    """Returns the negative log marginal likelihood with priors, and its gradient."""
    scale = np.exp(-2 * parameters[1:])
    far = np.sqrt(5 * np.tensordot(scale, squares, 1))
    decay = math.exp(parameters[0]) * np.exp(-far)
    covariance = decay * (1 + far + np.square(far) / 3)
    factor = np.linalg.cholesky(covariance + _CONSTANT + np.diag(noise))
    inverse = scipy.linalg.cho_solve((factor, True), np.eye(len(logits)))
    weights = inverse @ logits
    sensitivity = (inverse - np.outer(weights, weights)) / 2
    by_length = sensitivity * decay * (1 + far) * (5 / 3)
    off = np.r_[parameters[0] - 1, parameters[1:] - _PRIOR_MEAN]
    deviations = np.r_[2.0, np.full(len(off) - 1, _PRIOR_DEVIATION)]
    loss = logits @ weights / 2 + np.log(np.diag(factor)).sum()
    gradient = np.r_[
        (sensitivity * covariance).sum(), scale * np.tensordot(squares, by_length, 2)
    ]
    penalty = np.square(off / deviations).sum() / 2
    return loss + penalty, gradient + off / np.square(deviations)


class Cells(NamedTuple):
    """The unit cube cut into equal boxes, numbered in C order."""

    each: tuple[int, ...]  # along each axis

    @property
    def number(self) -> int:
        return math.prod(self.each)

    @property
    def centres(self) -> np.ndarray:
        """The cells' centres, `[cells, d]`."""
        return self._at(np.arange(self.number), 0.5)

    def drawn(self, cells: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Returns a uniform point in each of these cells, `[n, d]`."""
        return self._at(cells, rng.random((len(cells), len(self.each))))

    def _at(self, cells: np.ndarray, inside: float | np.ndarray) -> np.ndarray:
        corner = np.stack(np.unravel_index(cells, self.each), axis=-1)
        return (corner + inside) / self.each


def cells(dimension: int) -> Cells:
    axes = min(dimension, _AXES)
    each = int(_CELLS ** (1 / axes) + 1e-9)
    return Cells((each,) * axes + (1,) * (dimension - axes))


def acceptance(model: Model, cut: Cells) -> np.ndarray:
    """Returns the model's probability that a random level of a cell is accepted."""
    mean, deviation = model.at(cut.centres)
    box, variance = mean.reshape(cut.each), np.square(deviation)
    # A cell is not its centre: the mean changes within it.
    for axis, each in enumerate(cut.each):
        if each > 1:
            variance += np.square(np.gradient(box, axis=axis)).ravel() / 12
    return scipy.special.ndtr(mean / np.sqrt(variance))
