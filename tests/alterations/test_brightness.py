import numpy as np
import pytest
from PIL import Image, ImageEnhance

from jaxrob.alterations import brightness

from .pictures import apply


@pytest.mark.parametrize("level", [-0.5, -0.123, 0.0, 0.3, 0.5])
def test_equals_pillows_enhancer(level):
    image = np.random.default_rng(0).integers(0, 256, (28, 28, 3), np.uint8)
    enhanced = ImageEnhance.Brightness(Image.fromarray(image)).enhance(1 + level)
    altered = apply(brightness(-1, 3), (image / 255).astype(np.float32), level)
    # Pillow drops the fraction of a byte; 1e-3 of a byte is float32's rounding.
    excess = np.asarray(altered) * 255 - np.asarray(enhanced)
    assert excess.min() > -1e-3
    assert excess.max() < 1 + 1e-3
