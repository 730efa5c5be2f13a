"""What a network answers at every level and image, from its distributions."""

from fractions import Fraction
from typing import NamedTuple

import numpy as np


class Answers(NamedTuple):
    """Arrays `[L, N]`; `margin` is how far the best class is ahead of the second."""

    predicted: np.ndarray
    confidence: np.ndarray
    uncertainty: np.ndarray
    margin: np.ndarray


def answer(distribution, outputs):
    """One image's answer from `[S, K]`."""
    num_classes = distribution.shape[-1]
    mean = distribution.mean(0)
    best, second = np.sort(mean)[::-1][:2]
    predicted = int(np.argmax(mean))
    if outputs == "scores":
        return predicted, np.nan, np.nan, best - second
    # Kwon et al. (2020): of mean_t(diag(p_t) - p_t p_t'), the trace over its maximum.
    trace = np.mean([sum(p * (1 - p)) for p in distribution])
    return predicted, best, trace / (1 - 1 / num_classes), best - second


def unknown(uncertainty, alpha):
    """Bool `[L, N]`: whether an answer is too uncertain for confidence alpha."""
    if alpha is None:
        return np.zeros(np.shape(uncertainty), bool)
    return np.asarray(uncertainty, np.float64) > 1 - alpha


def confusion(predicted, is_unknown, labels, num_classes):
    """`[L, K, K + 1]` counts by label and answer; the last answer is "unknown"."""
    counts = np.zeros((len(predicted), num_classes, num_classes + 1), int)
    for at_level in range(len(predicted)):
        for i, label in enumerate(labels):
            answered = num_classes
            if not is_unknown[at_level][i]:
                answered = predicted[at_level][i]
            counts[at_level, label, answered] += 1
    return counts


def first_failing_level(levels, predicted, is_unknown, labels, identity):
    """`[N]`: the level nearest to the identity at which an image is misclassified."""
    found = []
    for i, label in enumerate(labels):
        failing = [
            (abs(Fraction(level) - Fraction(identity)), level)
            for level, classes, undecided in zip(levels, predicted, is_unknown)
            if classes[i] != label and not undecided[i]
        ]
        found.append(min(failing)[1] if failing else np.nan)
    return np.array(found)
