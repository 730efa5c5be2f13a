"""The alterations without jaxrob: OpenCV, dm-pix, torchvision v2 and Kornia.

All pipelines classify as jaxrob does, in batches on the device; only the altering
differs. OpenCV alters bytes, image by image, while the device classifies the previous
batch. dm-pix alters under `jax.vmap`, in one program with the classifier. torchvision
and Kornia send bytes to the device, alter there, and classify by torchvision's network
of the same shape, in bfloat16, compiled by `torch.compile`; beside them torch's bare
forward pass, on clean pictures that are on the device. They draw other noise and round
differently, but show the same places of a picture.
"""

import concurrent.futures
import functools
import importlib.util
import math
from collections.abc import Callable, Sequence
from typing import Any

import cv2
import dm_pix
import jax
import jax.numpy as jnp
import numpy as np

import jaxrob

#: Makes a run of an alteration at levels; None if the library lacks the alteration.
Maker = Callable[[jaxrob.Alteration, np.ndarray], Callable[[], None] | None]

_DEVICES = {"cpu": "cpu", "gpu": "cuda"}
_GEOMETRIC = ("horizontal translation", "vertical translation", "rotation", "zoom")


def opencv(
    classifier: jaxrob.Classifier,
    images: np.ndarray,
    alteration: jaxrob.Alteration,
    levels: np.ndarray,
    batch_size: int,
    threads: int = 1,
) -> Callable[[], None]:
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
    where = source_matrix(alteration, shape, level), (shape[1], shape[0])
    how = {"flags": cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP}
    how |= {"borderMode": cv2.BORDER_REPLICATE}
    return lambda image: cv2.warpAffine(image, *where, **how)


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
        sides = width * cos + height * sin, width * sin + height * cos
        scale = min(width / sides[0], height / sides[1])
    else:
        axis = 0 if alteration.name == "horizontal translation" else 1
        scale = 1 - (alteration.upper - alteration.lower) / shape[1 - axis]
        middle = (alteration.upper + alteration.lower) / 2
        shift[axis] = middle - level
    cos, sin = math.cos(turn), math.sin(turn)
    linear = scale * np.array([[cos, -sin], [sin, cos]])
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


_PIX: dict[str, Callable[..., Any]] = {
    "gaussian noise": _pix_noise,
    # Three standard deviations of the largest blur, like OpenCV for bytes.
    "gaussian blur": lambda image, level, _: dm_pix.gaussian_blur(
        image, jnp.maximum(level, 1e-3), 13
    ),
    "brightness": lambda image, level, _: jnp.clip(
        dm_pix.adjust_brightness(image, level), 0, 1
    ),
    "rotation": lambda image, level, _: dm_pix.rotate(
        image, jnp.deg2rad(level), order=1, mode="nearest"
    ),
}


def in_torch(network: str, pictures: np.ndarray, batch_size: int) -> dict[str, Maker]:
    """Torch (its forward pass) and the libraries that can run; prints why not."""
    wanted = ("torch", "torchvision")
    missing = [name for name in wanted if importlib.util.find_spec(name) is None]
    if missing:
        print(f"torchvision and Kornia left out: {' and '.join(missing)} not installed")
        return {}
    import torch

    device = _DEVICES.get(jax.default_backend())
    if device is None or device == "cuda" and not torch.cuda.is_available():
        print(f"torchvision and Kornia left out: torch has no {jax.default_backend()}")
        return {}
    model = torch.compile(_module(network, pictures.shape[1]).to(device), dynamic=False)
    on_host = torch.from_numpy(pictures)
    if device == "cuda":
        on_host = on_host.pin_memory()
    given = model, on_host, device, batch_size
    found: dict[str, Maker] = {
        "torch": functools.partial(_bare, *given),
        "torchvision": functools.partial(_run, _vision, *given),
    }
    if importlib.util.find_spec("kornia") is None:
        print("Kornia left out: not installed")
    else:
        found["kornia"] = functools.partial(_run, _kornia, *given)
    return found


def _module(network: str, size: int) -> Any:
    import torch
    from torchvision import models

    if network == "resnet50":
        module = models.resnet50()
    else:
        module = models.vit_b_16(image_size=size)
    return module.eval().to(torch.bfloat16, memory_format=torch.channels_last)


def _bare(
    model: Any,
    on_host: Any,
    device: str,
    batch_size: int,
    alteration: jaxrob.Alteration,
    levels: Sequence[float] | np.ndarray,
) -> Callable[[], None]:
    import torch

    del alteration
    # Made in this mode like those of the libraries, or the network is compiled again.
    with torch.inference_mode():
        images = (on_host.to(device).permute(0, 3, 1, 2).float() / 255).bfloat16()
        batches = images.split(batch_size)

    def run() -> None:
        with torch.inference_mode():
            answers = [model(batch).argmax(1) for _ in levels for batch in batches]
            torch.cat(answers).cpu()

    return run


def _run(
    library: Callable[..., Any],
    model: Any,
    on_host: Any,
    device: str,
    batch_size: int,
    alteration: jaxrob.Alteration,
    levels: Sequence[float] | np.ndarray,
) -> Callable[[], None] | None:
    import torch

    alter = library(alteration, tuple(on_host.shape[1:]))
    if alter is None:
        return None

    def run() -> None:
        answers = []
        with torch.inference_mode():
            for level in map(float, levels):
                for batch in on_host.split(batch_size):
                    images = batch.to(device, non_blocking=True).permute(0, 3, 1, 2)
                    images = images.float() / 255
                    if level != alteration.identity:
                        images = alter(images, level)
                    answers.append(model(images.to(torch.bfloat16)).argmax(1))
            torch.cat(answers).cpu()

    return run


def _vision(alteration: jaxrob.Alteration, shape: tuple[int, int, int]) -> Any:
    """Returns torchvision's function of images `[B, C, H, W]` and a level, or None."""
    from torchvision.transforms.v2 import InterpolationMode, functional

    simple = {
        "gaussian noise": lambda images, level: functional.gaussian_noise(
            images, sigma=math.sqrt(level)
        ),
        "gaussian blur": lambda images, level: functional.gaussian_blur(
            images, _blur_size(alteration), level
        ),
        "brightness": lambda images, level: functional.adjust_brightness(
            images, 1 + level
        ),
    }
    # Its JPEG takes pictures on the host, one by one.
    if alteration.name in simple or alteration.name not in _GEOMETRIC:
        return simple.get(alteration.name)

    def moved(images: Any, level: float) -> Any:
        linear, shift = _movement(alteration, shape, level)
        return functional.affine(
            images,
            angle=math.degrees(math.atan2(linear[1, 0], linear[0, 0])),
            translate=shift.tolist(),
            scale=math.sqrt(np.linalg.det(linear)),
            shear=[0.0, 0.0],
            interpolation=InterpolationMode.BILINEAR,
        )

    return moved


def _kornia(alteration: jaxrob.Alteration, shape: tuple[int, int, int]) -> Any:
    """Returns Kornia's function of images `[B, C, H, W]` and a level, or None."""
    import torch
    from kornia import enhance, filters
    from kornia.geometry import transform

    height, width, _ = shape
    size = _blur_size(alteration)
    simple = {
        "gaussian noise": lambda images, level: (
            images + math.sqrt(level) * torch.randn_like(images)
        ).clamp(0, 1),
        "gaussian blur": lambda images, level: filters.gaussian_blur2d(
            images, size, (level, level), "replicate"
        ),
        "brightness": lambda images, level: enhance.adjust_brightness_accumulative(
            images, 1 + level
        ),
        "jpeg compression": lambda images, level: enhance.jpeg_codec_differentiable(
            images, torch.tensor([max(1.0, 100 - level)], device=images.device)
        ),
    }
    if alteration.name in simple or alteration.name not in _GEOMETRIC:
        return simple.get(alteration.name)

    def moved(images: Any, level: float) -> Any:
        linear, shift = _movement(alteration, shape, level)
        centre = np.array([width - 1, height - 1]) / 2
        matrix = np.column_stack([linear, centre + shift - linear @ centre])
        there = torch.tensor(matrix, dtype=images.dtype, device=images.device)
        matrices = there.expand(len(images), 2, 3)
        return transform.warp_affine(
            images, matrices, (height, width), padding_mode="border"
        )

    return moved


def _blur_size(alteration: jaxrob.Alteration) -> tuple[int, int]:
    """Returns the kernel's size: three standard deviations of the largest blur."""
    size = 2 * math.ceil(3 * max(alteration.upper, 1)) + 1
    return size, size


def _movement(
    alteration: jaxrob.Alteration, shape: tuple[int, int, int], level: float
) -> tuple[np.ndarray, np.ndarray]:
    """Returns how places move about the picture's centre: `[2, 2]`, then by `[2]`."""
    source = source_matrix(alteration, shape, level)
    centre = np.array([shape[1] - 1, shape[0] - 1]) / 2
    linear = np.linalg.inv(source[:, :2])
    return linear, linear @ (centre - source @ np.append(centre, 1))
