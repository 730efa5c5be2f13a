import numpy as np
import pytest
from scipy import ndimage

from jaxrob.alterations import zoom

from .pictures import apply, assert_near, random_image

# Positions in float32 have errors of some 1e-7 of the image's size, and neighbouring
# pixels differ by up to 1: measured 5e-6 at 50 pixels.
TOLERANCE = 2e-5
FACTORS = (1.0, 1.001, 1.1, 4 / 3, 1.5, 1.99, 2.0, 5.3, 12.0)


def scipy_zoom(image, factor):
    """In float64: output pixel i shows (i + 0.5 - centre) / factor + centre - 0.5."""
    centre = np.array(image.shape[:2]) / 2
    offset = (0.5 - centre) / factor + centre - 0.5
    return ndimage.affine_transform(
        image.astype(np.float64),
        [1 / factor, 1 / factor, 1],
        offset=[*offset, 0],
        order=1,
        mode="nearest",
    )


@pytest.mark.parametrize("factor", FACTORS)
def test_equals_scipys_affine_transform(factor):
    image = random_image((13, 9, 3))
    found = apply(zoom(1, 12), image, factor)
    assert_near(found, scipy_zoom(image, factor), atol=TOLERANCE)
