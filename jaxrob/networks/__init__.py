"""The papers' networks, and three small ones, as Flax Linen modules.

All of them take float32 images `[B, H, W, C]` in [0, 1] and the argument `train`,
False by default.
"""

from jaxrob.networks._idc_cnn import IdcCNN, load_idc_weights
from jaxrob.networks._mlp import MLP
from jaxrob.networks._mnist_cnn import MnistCNN
from jaxrob.networks._resnet import ResNet
from jaxrob.networks._strided_cnn import StridedCNN
from jaxrob.networks._vgg16 import VGG16

__all__ = (
    "MLP",
    "VGG16",
    "IdcCNN",
    "MnistCNN",
    "ResNet",
    "StridedCNN",
    "load_idc_weights",
)
