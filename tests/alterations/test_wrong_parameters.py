"""Parameters that the library's alterations reject, by function."""

import pytest

from jaxrob import alterations

RANGES = {
    "brightness": [(0.1, 0.5), (-0.5, -0.1), (0.5, -0.5), (-1.01, 0.5)],
    "contrast": [(0.2, 0.9), (1.1, 2.0), (-0.1, 1.0)],
    "defocus_blur": [(1, 2), (-1, 1), (0, 1001)],
    "elastic_deformation": [(1, 2), (-1, 1)],
    "gaussian_blur": [(-1, 2), (0.5, 2), (0, 0), (2, 1), (0, 10_001)],
    "gaussian_noise": [(-0.1, 1), (0.1, 1)],
    "horizontal_translation": [(1, 4), (-4, -1), (4, -4)],
    "impulse_noise": [(0.1, 0.2), (0.0, 1.5), (0.0, 0.0)],
    "jpeg_compression": [(0, 101), (-1, 100), (1, 100)],
    "motion_blur": [(1, 2), (-1, 1), (0, 1001)],
    "pixelation": [(0.5, 2.0), (2.0, 3.0), (1.0, 1.0)],
    "rotation": [(1, 90), (-90, -1), (90, -90)],
    "saturation": [(1.5, 2.0)],
    "shot_noise": [(0.1, 0.2)],
    "speckle_noise": [(0.1, 0.2)],
    "vertical_translation": [(1, 4), (-4, -1), (4, -4)],
    "zoom": [(0.5, 2), (1.5, 2), (1, 1), (-1, 2)],
}


def rejects(name, parameter):
    return pytest.raises(
        ValueError, match=f"{name.replace('_', '[_ ]')}: {parameter} must"
    )


@pytest.mark.parametrize(
    ("name", "ends"),
    [(name, ends) for name, wrong in RANGES.items() for ends in wrong],
)
def test_ranges_that_are_empty_too_large_or_without_the_identity(name, ends):
    with rejects(name, "(lower|upper)"):
        getattr(alterations, name)(*ends)


@pytest.mark.parametrize(
    ("name", "parameter", "value"),
    [
        *(("motion_blur", "angle", angle) for angle in (-1, 181, float("nan"))),
        *(("elastic_deformation", "smoothness", wrong) for wrong in (0, -1, 1e300)),
        ("defocus_blur", "unit", "mm"),
        ("rotation", "fill", "nearest"),
        ("horizontal_translation", "fill", "reflect"),
        ("vertical_translation", "unit", "pixels"),
    ],
)
def test_other_parameters(name, parameter, value):
    with rejects(name, parameter):
        getattr(alterations, name)(**{parameter: value})
