"""Blocks of inputs, or of pairs of an input and a class: their size, and a check."""

import numpy as np

from jaxrob._devices.memory import nearest_bucket
from jaxrob._devices.mesh import ImageMesh


def block_size(number: int, mesh: ImageMesh, most: int, base: int = 2) -> int:
    """Rows in a block, a multiple of the devices."""
    return min(most, nearest_bucket(number // mesh.size, base)) * mesh.size


def check_valid(valid: np.ndarray, indices: np.ndarray) -> None:
    """Rejects a classifier's outputs that are not distributions."""
    invalid = indices[~valid]
    if len(invalid):
        raise ValueError(
            "what the classifier returned for perturbations of "
            f"{len(set(invalid.tolist()))} of the inputs, first of input {invalid[0]}, "
            "is no distribution (NaN, infinite logits, or rows that do not sum to 1); "
            "for the unperturbed images it was. Either it fails on perturbed images, "
            "or its answers depend on the images beside them in a batch, as in "
            "training mode: then switch that off (train=False, model.eval())"
        )
