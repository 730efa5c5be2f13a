"""The alterations in torch: with torchvision v2 and with Kornia, on the same device.

Beside them torch's bare forward pass, on clean pictures that are on the device. Both
pipelines send bytes to the device, alter there, and classify by torchvision's
network of the same shape, in bfloat16, compiled by `torch.compile`. They draw other
noise and round differently, but show the same places of a picture.
"""

import functools
import importlib.util
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from common import baselines

import jaxrob

#: Makes a run of an alteration at levels; None if the library lacks the alteration.
Maker = Callable[[jaxrob.Alteration, np.ndarray], Callable[[], None] | None]

_DEVICES = {"cpu": "cpu", "gpu": "cuda"}


def makers(network: str, pictures: np.ndarray, batch_size: int) -> dict[str, Maker]:
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
    """Returns torchvision's network, in bfloat16."""
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


_GEOMETRIC = ("horizontal translation", "vertical translation", "rotation", "zoom")


def _blur_size(alteration: jaxrob.Alteration) -> tuple[int, int]:
    """Returns the kernel's size: three standard deviations of the largest blur."""
    size = 2 * math.ceil(3 * max(alteration.upper, 1)) + 1
    return size, size


def _movement(
    alteration: jaxrob.Alteration, shape: tuple[int, int, int], level: float
) -> tuple[np.ndarray, np.ndarray]:
    """Returns how places move about the picture's centre: `[2, 2]`, then by `[2]`."""
    source = baselines.source_matrix(alteration, shape, level)
    centre = np.array([shape[1] - 1, shape[0] - 1]) / 2
    linear = np.linalg.inv(source[:, :2])
    return linear, linear @ (centre - source @ np.append(centre, 1))
