"""Alterations of one image `[H, W, C]` in [0, 1], float64, by their definitions."""

import functools
import io
import math

import numpy as np
from PIL import Image


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
    covered = np.clip(level - np.arange(image.shape[1]), 0, 1)
    return image * (1 - covered)[:, None]


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
