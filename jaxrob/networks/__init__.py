"""The papers' networks, and three small ones, as Flax Linen modules.

All of them take float32 images `[B, H, W, C]` in [0, 1] and the argument `train`,
False by default.
"""

from jaxrob.networks._papers import (
    MLP,
    VGG16,
    IdcCNN,
    MnistCNN,
    ResNet,
    StridedCNN,
    load_idc_weights,
)

__all__ = (
    "MLP",
    "VGG16",
    "IdcCNN",
    "MnistCNN",
    "ResNet",
    "StridedCNN",
    "load_idc_weights",
)
