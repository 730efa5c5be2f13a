"""The library's definitions once more: slow, in plain NumPy, image by image.

Written from the documentation and the papers, not from the library's code, so that the
two can be wrong together only where the definitions are.
"""

import functools
import io
import math
from fractions import Fraction
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from PIL import Image

# Alterations of one image `[H, W, C]` in [0, 1], float64, by their definitions.


def unaltered_pixels(images):
    """What the network sees of the data, float64: bytes over 255, floats in float32."""
    if images.dtype == np.uint8:
        return images / 255.0
    return np.asarray(images, np.float32).astype(np.float64)


def brightness(image, level):
    return np.clip(image * (1 + level), 0, 1)


def gaussian_blur(image, level):
    """Convolution with a Gaussian of this standard deviation; edge pixels repeat."""
    return resampled(image, level, (0, 1), blurring)


def translation(image, level, axis, fill):
    """Moves the content along an axis; what lies between two pixels is linear."""
    moving = moving_to_black if fill == "constant" else moving_to_edge
    return resampled(image, level, (axis,), moving)


def zoom(image, level):
    """The central part, 1 / level of each side, rescaled bilinearly."""
    return resampled(image, level, (0, 1), magnifying)


def jpeg_compression(image, level):
    """Through a JPEG file of quality 100 - level, written and read by Pillow."""
    if level == 0:
        return image
    quality = max(1, math.floor(100 - level + 0.5))
    pixels = np.floor(image * 255 + 0.5).astype(np.uint8)
    grey = pixels.shape[-1] == 1
    file = io.BytesIO()
    Image.fromarray(pixels[..., 0] if grey else pixels).save(
        file, "JPEG", quality=quality
    )
    read = np.asarray(Image.open(file)) / 255.0
    return read[..., None] if grey else read


def fade(image, level):
    """Towards grey."""
    return (1 - level) * image + level * 0.5


def cover(image, level):
    """Blackens the first `level` columns, the last of them in part."""
    return image * (1 - np.clip(level - np.arange(image.shape[1]), 0, 1))[:, None]


def kill(image, level, begins):
    """Dims each pixel from a level of its own on."""
    return image * np.clip(1 - (level - begins) / 0.25, 0, 1)


def trend(vector, level):
    """Adds a line that rises from -level to level."""
    return vector + level * np.linspace(-1, 1, len(vector))


def resampled(image, level, axes, weights):
    """Each axis in turn, pixel by pixel a mean with `weights(size, level)`."""
    for axis in axes:
        along = np.tensordot(weights(image.shape[axis], level), image, (1, axis))
        image = np.moveaxis(along, 0, axis)
    return image


@functools.lru_cache(1000)
def blurring(size, level):
    """`[size, size]`: how much of each pixel is in each."""
    weights = np.zeros((size, size))
    reach = math.ceil(10 * level) + 1
    for i in range(size):
        for offset in range(-reach, reach + 1):
            weight = math.exp(-((offset / level) ** 2) / 2) if level else not offset
            weights[i, min(max(i + offset, 0), size - 1)] += weight
    return weights / weights.sum(1, keepdims=True)


@functools.lru_cache(1000)
def moving_to_edge(size, level):
    weights = np.zeros((size, size))
    for i in range(size):
        for neighbour, share in between(i - level):
            weights[i, min(max(neighbour, 0), size - 1)] += share
    return weights


@functools.lru_cache(1000)
def moving_to_black(size, level):
    weights = np.zeros((size, size))
    for i in range(size):
        for neighbour, share in between(i - level):
            if 0 <= neighbour < size:
                weights[i, neighbour] += share
    return weights


@functools.lru_cache(1000)
def magnifying(size, level):
    weights = np.zeros((size, size))
    for i in range(size):
        # Centres of pixels lie at halves.
        position = size / 2 + (i + 0.5 - size / 2) / level - 0.5
        for neighbour, share in between(position):
            weights[i, min(max(neighbour, 0), size - 1)] += share
    return weights


def between(position):
    """The two neighbours of a position, and the share of each."""
    left = math.floor(position)
    return (left, left + 1 - position), (left + 1, position - left)


# Small networks, one image at a time, float64.
#
# Weights are a dictionary of NumPy arrays: "conv" (kernel `[3, 3, C, F]` and bias) and
# "hidden" (kernel `[D, H]` and bias) if there are such layers, and "last" (kernel
# `[S, D, K]`, bias `[S, K]`): S samples that share the layers below.


def rows_of(weights, image):
    """`[S, columns]`: what the last layer gives for one image."""
    x = np.asarray(image, np.float64)
    if "conv" in weights:
        x = np.maximum(convolution(x, *weights["conv"]), 0)
    x = x.reshape(-1)
    if "hidden" in weights:
        kernel, bias = weights["hidden"]
        x = np.maximum(x @ kernel + bias, 0)
    kernel, bias = weights["last"]
    return np.stack([x @ k + b for k, b in zip(kernel, bias)])


def convolution(image, kernel, bias):
    """Correlation with a kernel of 3 x 3, where it fits wholly."""
    height, width, _ = image.shape
    out = np.zeros((height - 2, width - 2, kernel.shape[-1]))
    kernel = kernel.reshape(-1, kernel.shape[-1])
    for i in range(height - 2):
        for j in range(width - 2):
            out[i, j] = image[i : i + 3, j : j + 3, :].reshape(-1) @ kernel + bias
    return out


def distributions(rows, outputs):
    """`[S, K]`: each sample's probabilities; of "scores" the scores themselves.

    What a network of "probabilities" or "sigmoid" returns is the softmax or the sigmoid
    of its last layer.
    """
    if outputs == "scores":
        return rows
    if outputs in ("logits", "probabilities"):
        powers = np.exp(rows - rows.max(-1, keepdims=True))
        return powers / powers.sum(-1, keepdims=True)
    assert outputs == "sigmoid"
    activations = 1 / (1 + np.exp(-rows))
    if activations.shape[-1] == 1:
        activations = np.concatenate([1 - activations, activations], -1)
    return activations / activations.sum(-1, keepdims=True)


# What a network answers at every level and image, from its distributions.


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


# Quality measures as exact fractions, from counts of one level `[K, K + 1]`.
#
# None is a measure that is not defined.


def accuracy(counts):
    decided = sum(int(counts[k, :-1].sum()) for k in range(len(counts)))
    return ratio(correct(counts), decided, otherwise=Fraction(1))


def decided_ratio(counts):
    return 1 - Fraction(int(counts[:, -1].sum()), int(counts.sum()))


def indecision(counts):
    return Fraction(int(counts[:, -1].sum()), int(counts.sum()))


def effectiveness(counts):
    return Fraction(correct(counts), int(counts.sum()) + int(counts[:, -1].sum()))


def recall(counts):
    return of_classes(counts, class_recall)


def precision(counts):
    return of_classes(counts, class_precision)


def f1(counts):
    return of_classes(counts, class_f1)


def class_recall(counts, k):
    return ratio(int(counts[k, k]), int(counts[k, :-1].sum()))


def class_precision(counts, k):
    # A class that is never given has precision 0, if it has decided inputs.
    never = Fraction(0) if counts[k, :-1].sum() else None
    return ratio(int(counts[k, k]), int(counts[:, k].sum()), otherwise=never)


def class_f1(counts, k):
    of_given, of_class = class_precision(counts, k), class_recall(counts, k)
    if of_given is None:
        return None
    if not of_given or not of_class:
        return Fraction(0)
    return 2 / (1 / of_given + 1 / of_class)


def of_classes(counts, measure):
    """Class 1 of two; of more the mean over those for which it is defined."""
    if len(counts) == 2:
        return measure(counts, 1)
    values = [measure(counts, k) for k in range(len(counts))]
    values = [value for value in values if value is not None]
    return sum(values, Fraction(0)) / len(values) if values else None


MEASURES = {
    "accuracy": accuracy,
    "precision": precision,
    "recall": recall,
    "f1": f1,
    "effectiveness": effectiveness,
    "decided_ratio": decided_ratio,
}


def wilson(successes, total, confidence=0.95):
    """The ends of Wilson's interval, the roots of (s/n - p)^2 = z^2 p (1 - p) / n."""
    if total == 0:
        return 0.0, 1.0
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    share = successes / total
    # (1 + z^2/n) p^2 - (2 share + z^2/n) p + share^2 = 0
    a, b, c = 1 + z**2 / total, 2 * share + z**2 / total, share**2
    root = math.sqrt(b**2 - 4 * a * c)
    return (b - root) / (2 * a), (b + root) / (2 * a)


def shares(counts, measure):
    """The measure as a proportion, (successes, total); None if it is none."""
    if measure == "accuracy":
        return correct(counts), int(counts[:, :-1].sum())
    if measure == "decided_ratio":
        return int(counts[:, :-1].sum()), int(counts.sum())
    if measure == "recall" and len(counts) == 2:
        return int(counts[1, 1]), int(counts[1, :-1].sum())
    return None


def correct(counts):
    return sum(int(counts[k, k]) for k in range(len(counts)))


def ratio(above, below, otherwise=None):
    return Fraction(above, below) if below else otherwise


# Robustness from the measure at each level, by each rule.
#
# `levels` ascend; `values` are floats, each the correctly rounded exact fraction, since
# thresholds are compared in float64: 160 of 200 is 0.8. On the threshold is above.


def count(levels, values, threshold):
    """2020 paper, Definition 5: the share of levels accepted."""
    return Fraction(sum(value >= threshold for value in values), len(values))


def right(levels, values, threshold):
    """2022 paper, section III: an interval counts if its right end is accepted."""
    levels = [Fraction(level) for level in levels]
    total = sum(
        (after - before)
        for before, after, value in zip(levels, levels[1:], values[1:])
        if value >= threshold
    )
    return total / (levels[-1] - levels[0])


def linear(levels, values, threshold):
    """The values joined by straight lines."""
    levels = [Fraction(level) for level in levels]
    total = Fraction(0)
    for i in range(len(levels) - 1):
        low, high = sorted((values[i], values[i + 1]))
        if low >= threshold:
            share = Fraction(1)
        elif high >= threshold:
            share = (Fraction(high) - Fraction(threshold)) / (
                Fraction(high) - Fraction(low)
            )
        else:
            share = Fraction(0)
        total += share * (levels[i + 1] - levels[i])
    return total / (levels[-1] - levels[0])


RULES = {"count": count, "right": right, "linear": linear}


def accepted_intervals(levels, values, threshold):
    """Where the values, joined by straight lines, are at least the threshold."""
    found = []
    for i, (level, value) in enumerate(zip(levels, values)):
        if value < threshold:
            continue
        start = end = level
        if i > 0 and values[i - 1] < threshold:
            start = crossing(levels, values, threshold, i, i - 1)
        if i + 1 < len(levels) and values[i + 1] < threshold:
            end = crossing(levels, values, threshold, i, i + 1)
        if i > 0 and values[i - 1] >= threshold:
            found[-1][1] = end
        else:
            found.append([start, end])
    return found


def crossing(levels, values, threshold, above, below):
    share = (values[above] - threshold) / (values[above] - values[below])
    return levels[above] + share * (levels[below] - levels[above])
