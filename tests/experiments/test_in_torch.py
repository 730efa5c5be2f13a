"""torchvision and Kornia show the same places of a picture as OpenCV does."""

import importlib.util
import io

import numpy as np
import PIL.Image
import pytest
from common import baselines, datasets
from speed import in_torch

from jaxrob.alterations import presets

SIZE = 48
PICTURES = datasets.smooth_pictures(2, SIZE, 0)


@pytest.mark.parametrize("library", ["torchvision", "kornia"])
@pytest.mark.parametrize("alteration", presets.cnn_2020(), ids=lambda one: one.name)
def test_alters_as_opencv(library, alteration):
    torch = pytest.importorskip("torch")
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"needs {library}")
    make = {"torchvision": in_torch._vision, "kornia": in_torch._kornia}[library]
    alter = make(alteration, PICTURES.shape[1:])
    if alter is None:
        assert (library, alteration.name) == ("torchvision", "jpeg compression")
        return
    level = alteration.lower + 0.8 * (alteration.upper - alteration.lower)
    images = torch.from_numpy(np.moveaxis(PICTURES, 3, 1) / np.float32(255))
    found = np.moveaxis(alter(images, level).numpy(), 1, 3)
    expected = np.stack([expected_of(alteration, level, one) for one in PICTURES]) / 255
    if alteration.name == "gaussian noise":
        # Of other draws.
        added = found - PICTURES / 255
        assert added.std() == pytest.approx(level**0.5, rel=0.1)
        return
    # Away from the edges, beyond which torchvision shows black.
    inside = np.s_[:, 6:-6, 6:-6]
    difference = np.abs(found - expected)[inside]
    # Kornia's JPEG compression rounds less.
    most = 0.02 if alteration.name == "jpeg compression" else 0.01
    assert difference.mean() < most < np.abs(PICTURES / 255 - expected)[inside].mean()


def expected_of(alteration, level, picture):
    if alteration.name != "jpeg compression":
        return baselines.opencv_alter(alteration, picture.shape, level)(picture)
    # OpenCV takes the channels in another order, which a file keeps less of.
    file = io.BytesIO()
    PIL.Image.fromarray(picture).save(file, "JPEG", quality=round(100 - level))
    return np.asarray(PIL.Image.open(file))
