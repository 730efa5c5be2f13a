"""Parameters that the library's alterations reject, by function."""

import pytest

from jaxrob.alterations import (
    brightness,
    contrast,
    defocus_blur,
    elastic_deformation,
    gaussian_blur,
    gaussian_noise,
    horizontal_translation,
    impulse_noise,
    jpeg_compression,
    motion_blur,
    pixelation,
    rotation,
    saturation,
    shot_noise,
    speckle_noise,
    vertical_translation,
    zoom,
)

RANGES = {
    brightness: [(0.1, 0.5), (-0.5, -0.1), (0.5, -0.5), (-1.01, 0.5)],
    contrast: [(0.2, 0.9), (1.1, 2.0), (-0.1, 1.0)],
    defocus_blur: [(1, 2), (-1, 1), (0, 0), (0, 1001)],
    elastic_deformation: [(1, 2), (-1, 1), (0, 0)],
    gaussian_blur: [(-1, 2), (0.5, 2), (0, 0), (2, 1)],
    gaussian_noise: [(-0.1, 1), (0.1, 1), (0, 0)],
    horizontal_translation: [(1, 4), (-4, -1), (4, -4)],
    impulse_noise: [(0.1, 0.2), (0.0, 1.5), (0.0, 0.0)],
    jpeg_compression: [(0, 101), (-1, 100), (1, 100)],
    motion_blur: [(1, 2), (-1, 1), (0, 0), (0, 1001)],
    pixelation: [(0.5, 2.0), (2.0, 3.0), (1.0, 1.0)],
    rotation: [(1, 90), (-90, -1), (90, -90)],
    saturation: [(1.5, 2.0)],
    shot_noise: [(0.1, 0.2)],
    speckle_noise: [(0.1, 0.2)],
    vertical_translation: [(1, 4), (-4, -1), (4, -4)],
    zoom: [(0.5, 2), (1.5, 2), (1, 1), (-1, 2)],
}


def name_of(value):
    return getattr(value, "__name__", None)


def rejects(make, message):
    name = make.__name__.replace("_", "[_ ]")
    return pytest.raises(ValueError, match=f"{name}: {message} must")


@pytest.mark.parametrize(
    ("make", "ends"),
    [(make, ends) for make, wrong in RANGES.items() for ends in wrong],
    ids=name_of,
)
def test_ranges_that_are_empty_too_large_or_without_the_identity(make, ends):
    with rejects(make, "(lower|upper)"):
        make(*ends)


@pytest.mark.parametrize(
    ("make", "parameter", "value"),
    [
        *((motion_blur, "angle", angle) for angle in (-1, 181, float("nan"))),
        *(
            (elastic_deformation, "smoothness", smoothness)
            for smoothness in (0, -1, 1e300, float("nan"))
        ),
        (defocus_blur, "unit", "mm"),
        (rotation, "fill", "nearest"),
        (horizontal_translation, "fill", "reflect"),
        (horizontal_translation, "unit", "pixels"),
        (vertical_translation, "fill", "reflect"),
        (vertical_translation, "unit", "pixels"),
    ],
    ids=name_of,
)
def test_other_parameters(make, parameter, value):
    with rejects(make, parameter):
        make(**{parameter: value})
