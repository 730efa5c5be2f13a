"""The alterations without jaxrob: with OpenCV, and with dm-pix.

Both pipelines classify as jaxrob does, in batches on the device; only the altering
differs. OpenCV alters bytes, image by image, while the device classifies the
previous batch. dm-pix alters under `jax.vmap`, in one program with the classifier.
"""

import concurrent.futures
import math
from collections.abc import Callable
from typing import Any

import cv2
import dm_pix
import jax
import jax.numpy as jnp
import numpy as np

import jaxrob


def opencv(
    classifier: jaxrob.Classifier,
    images: np.ndarray,
    alteration: jaxrob.Alteration,
    levels: np.ndarray,
    batch_size: int,
    threads: int = 1,
) -> Callable[[], None]:
    """Returns a function that alters (by OpenCV) and classifies at all levels."""
    if threads > 1:
        cv2.setNumThreads(1)

    @jax.jit
    def predicted(variables: Any, images: jax.Array) -> jax.Array:
        scores = classifier.apply_fn(variables, images.astype(jnp.float32) / 255)
        return scores.argmax(axis=-1)

    def alter_share(level: float, share: np.ndarray, altered: np.ndarray) -> None:
        alter = opencv_alter(alteration, images.shape[1:], level)
        for one, image in zip(altered, share):
            one[:] = alter(image).reshape(one.shape)

    def run() -> None:
        answers = []
        with concurrent.futures.ThreadPoolExecutor(threads) as pool:
            for level in map(float, levels):
                for first in range(0, len(images), batch_size):
                    batch = images[first : first + batch_size]
                    altered = np.empty_like(batch)
                    shares = np.array_split(batch, threads)
                    into = np.array_split(altered, threads)
                    list(pool.map(alter_share, [level] * threads, shares, into))
                    answers.append(predicted(classifier.variables, altered))
        jax.block_until_ready(answers)

    return run


def opencv_alter(
    alteration: jaxrob.Alteration, shape: tuple[int, int, int], level: float
) -> Callable[[np.ndarray], np.ndarray]:
    """Returns OpenCV's alteration at a level, a function of uint8 images."""
    name = alteration.name
    if level == alteration.identity:
        return lambda image: image
    if name == "gaussian noise":
        noise, deviation = np.empty(shape, np.float32), 255 * math.sqrt(level)

        def add_noise(image: np.ndarray) -> np.ndarray:
            cv2.randn(noise, 0, deviation)
            return cv2.add(image, noise, dtype=cv2.CV_8U)

        return add_noise
    if name == "gaussian blur":
        return lambda image: cv2.GaussianBlur(
            image, (0, 0), level, borderType=cv2.BORDER_REPLICATE
        )
    if name == "brightness":
        return lambda image: cv2.convertScaleAbs(image, alpha=1 + level)
    if name == "jpeg compression":
        settings = [cv2.IMWRITE_JPEG_QUALITY, max(1, round(100 - level))]

        def compress(image: np.ndarray) -> np.ndarray:
            _, coded = cv2.imencode(".jpg", image, settings)
            return np.asarray(cv2.imdecode(coded, cv2.IMREAD_UNCHANGED))

        return compress
    matrix = source_matrix(alteration, shape, level)
    return lambda image: cv2.warpAffine(
        image,
        matrix,
        (shape[1], shape[0]),
        flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP,
        borderMode=cv2.BORDER_REPLICATE,
    )


def source_matrix(
    alteration: jaxrob.Alteration, shape: tuple[int, int, int], level: float
) -> np.ndarray:
    """Returns `[2, 3]`: maps a place in the altered image to the place it shows."""
    height, width, _ = shape
    turn, scale, shift = 0.0, 1.0, np.zeros(2)
    if alteration.name == "zoom":
        scale = 1 / level
    elif alteration.name == "rotation":
        # The largest rectangle without a border.
        turn = math.radians(level)
        cos, sin = abs(math.cos(turn)), abs(math.sin(turn))
        scale = min(
            width / (width * cos + height * sin), height / (width * sin + height * cos)
        )
    else:
        axis = 0 if alteration.name == "horizontal translation" else 1
        scale = 1 - (alteration.upper - alteration.lower) / shape[1 - axis]
        middle = (alteration.upper + alteration.lower) / 2
        shift[axis] = middle - level
    linear = scale * np.array(
        [[math.cos(turn), -math.sin(turn)], [math.sin(turn), math.cos(turn)]]
    )
    centre = np.array([width - 1, height - 1]) / 2
    return np.column_stack([linear, centre + shift - linear @ centre])


def pix(
    classifier: jaxrob.Classifier,
    images: np.ndarray,
    alteration: jaxrob.Alteration,
    levels: np.ndarray,
    batch_size: int,
) -> Callable[[], None] | None:
    """As `opencv`, with dm-pix under `jax.vmap`; None if it lacks the alteration."""
    alter = _PIX.get(alteration.name)
    if alter is None:
        return None

    @jax.jit
    def predicted(
        variables: Any, images: jax.Array, level: jax.Array, keys: jax.Array
    ) -> jax.Array:
        images = images.astype(jnp.float32) / 255
        altered = jax.vmap(alter, (0, None, 0))(images, level, keys)
        return classifier.apply_fn(variables, altered).argmax(axis=-1)

    keys = jax.random.split(jax.random.key(0), len(images))
    batches = [
        (jnp.asarray(images[i : i + batch_size]), keys[i : i + batch_size])
        for i in range(0, len(images), batch_size)
    ]

    def run() -> None:
        answers = [
            predicted(classifier.variables, batch, jnp.float32(level), some)
            for level in levels
            for batch, some in batches
        ]
        jax.block_until_ready(answers)

    return run


def _pix_noise(image: jax.Array, level: Any, key: jax.Array) -> Any:
    noise = jnp.sqrt(level) * jax.random.normal(key, image.shape)
    return jnp.clip(image + noise, 0, 1)


def _pix_blur(image: jax.Array, level: Any, key: jax.Array) -> Any:
    del key
    # Three standard deviations of the largest blur, like OpenCV for bytes.
    return dm_pix.gaussian_blur(image, jnp.maximum(level, 1e-3), 13)


def _pix_brightness(image: jax.Array, level: Any, key: jax.Array) -> Any:
    del key
    return jnp.clip(dm_pix.adjust_brightness(image, level), 0, 1)


def _pix_rotation(image: jax.Array, level: Any, key: jax.Array) -> Any:
    del key
    angle: Any = jnp.deg2rad(level)
    return dm_pix.rotate(image, angle, order=1, mode="nearest")


_PIX = {
    "gaussian noise": _pix_noise,
    "gaussian blur": _pix_blur,
    "brightness": _pix_brightness,
    "rotation": _pix_rotation,
}
