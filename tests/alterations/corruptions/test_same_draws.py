"""The same random numbers give the picture of the benchmark's own code.

Its functions are run from a folder outside the repository (`--reference`). Without it
some of its pictures of 32 px are compared, which `write_goldens` has kept.
"""

import pathlib

import jax
import numpy as np
import pytest
from benchmark_code import SCRIPTS, parameters
from fed_corruptions import (
    NAMES,
    alteration_of,
    feed,
    noise,
    ours,
    photograph,
    theirs,
)

from jaxrob.alterations.corruptions._severity import table

SEVERITIES = (1, 2, 3, 4, 5)
# Source: github.com/hendrycks/robustness at 8190fe3 (Apache-2.0), make_cifar_c.py, on
# the input in the same file. It contains no picture of frost.
GOLDENS = pathlib.Path(__file__).parent / "cifar_c_32px.npz"
GOLDEN_SEVERITIES = (2, 5)
# Counts are computed in float32, where a mean of 60 has an error of 4e-6: of a hundred
# thousand values, a few are a photon off.
PHOTONS = {32: (500, 250, 100, 75, 50), 64: (250, 100, 50, 30, 15)}
PHOTONS[224] = (60, 25, 12, 5, 3)


def check(name, found, expected, severity):
    """Allows one level of 255, rounding included, and a few different counts."""
    difference = np.abs(found - expected)
    if name == "shot_noise":
        photon = 255 / PHOTONS[len(found)][severity - 1]
        assert np.mean(difference > 1) < 5e-5 or (difference > 1).sum() <= 1
        assert difference.max() < 1.001 * max(photon, 1)
    else:
        # Pillow rounds the means of pixels twice.
        assert difference.max() < 1.001


@pytest.mark.parametrize("size", [32, 64, 224])
@pytest.mark.parametrize("name", NAMES)
def test_every_severity_is_the_benchmarks(name, size, reference):
    for image in (noise(size), photograph(size)):
        case = feed(name, image, reference)
        found = ours(name, image, SEVERITIES, case.drawn, reference)
        for severity in SEVERITIES:
            expected = theirs(name, image, severity, case.random(), reference)
            check(name, found[severity - 1], expected, severity)


@pytest.mark.parametrize(
    "name",
    [
        # It compiles slowly, and test_jpeg.py compares it with Pillow.
        pytest.param(one, marks=[pytest.mark.slow] * (one == "jpeg_compression"))
        for one in sorted(set(NAMES) - {"frost"})
    ],
)
def test_level_0_is_the_image_and_others_are_the_pictures_that_were_kept(name):
    with np.load(GOLDENS) as kept:
        image, expected = kept["input"], np.float64(kept[name])
    case, alteration = feed(name, image), alteration_of(name)
    image = np.float32(image) / 255

    @jax.jit
    def at_levels(image, drawn, levels):
        ready = alteration.prepared(image)[0] if drawn is None else (image, drawn)
        return jax.vmap(alteration.fn, (None, 0))(ready, levels)

    levels = np.float32([0, *GOLDEN_SEVERITIES])
    same, *found = np.asarray(at_levels(image, case.drawn, levels))
    np.testing.assert_array_equal(same, image)
    for one, picture, severity in zip(found, expected, GOLDEN_SEVERITIES):
        # The goldens are rounded to bytes.
        check(name, np.round(255 * one), picture, severity)


def write_goldens(folder):
    """Rewrites the goldens. Half of the input is noise, half a smooth ramp."""
    image = noise(32)
    ramp = np.add.outer(np.arange(32) * 5, np.arange(16) * 6)
    image[:, :16] = np.stack([ramp, ramp[::-1], np.full_like(ramp, 90)], -1)
    kept = {"input": image}
    for name in sorted(set(NAMES) - {"frost"}):
        case = feed(name, image)
        pictures = [
            theirs(name, image, severity, case.random(), folder)
            for severity in GOLDEN_SEVERITIES
        ]
        kept[name] = np.uint8(np.round(pictures))
    np.savez_compressed(GOLDENS, **kept)


@pytest.mark.parametrize("size", SCRIPTS)
# The benchmark has ranges of factors for zoom blur, not their ends and steps.
@pytest.mark.parametrize("name", sorted({*NAMES} - {"zoom_blur"}))
def test_every_parameter_is_the_benchmarks(name, size, reference):
    expected = np.array(parameters(reference, size, name), float).reshape(5, -1)
    if name == "shot_noise":
        expected = 1 / expected
    np.testing.assert_allclose(table(name).by_size[size][1:], expected, rtol=1e-12)
