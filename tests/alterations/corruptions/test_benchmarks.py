"""The benchmarks of common corruptions: parameters, sizes, presets, and pictures.

The benchmark's own functions are run from a folder outside the repository, with the
same random numbers (`--reference`). Without it some of its pictures of 32 px are
compared, which `write_goldens` has kept.
"""

import pathlib

import jax
import numpy as np
import pytest
from fed_corruptions import (
    NAMES,
    SCRIPTS,
    alteration_of,
    feed,
    noise,
    ours,
    parameters,
    photograph,
    theirs,
)

from jaxrob import RobustnessWarning, metrics
from jaxrob.alterations import corruptions, presets
from jaxrob.alterations.corruptions import _weather
from jaxrob.alterations.corruptions._severity import at, checked_size, size_for, table


def test_severities_are_found_exactly_and_between_them_lines():
    rows = table("frost").by_size[224]
    found = jax.jit(jax.vmap(lambda level: at(rows, level)))
    found = found(np.float32([0, 1, 2, 3, 4, 5, 2.25, 0.5]))
    np.testing.assert_array_equal(found[:6], np.float32(rows))
    # Severity 3 is (0.7, 0.7), severity 2 (0.8, 0.6); level 0 is (1, 0).
    np.testing.assert_allclose(found[6], [0.775, 0.625], rtol=1e-6)
    np.testing.assert_allclose(found[7], [1.0, 0.2], rtol=1e-6)


def test_the_slope_at_a_level_is_that_of_its_line():
    slope = jax.jit(
        jax.grad(lambda level: at(table("gaussian_noise").by_size[224], level)[0])
    )
    np.testing.assert_allclose(slope(3.5), 0.26 - 0.18, rtol=1e-5)
    np.testing.assert_allclose(slope(0.0), 0.08, rtol=1e-5)


@pytest.mark.parametrize(
    ("shape", "size"),
    [
        ((28, 28, 1), 32),
        ((48, 64, 3), 64),
        ((160, 160, 3), 224),
        ((224, 320, 3), 224),
        ((384, 384, 3), 299),
    ],
)
def test_the_nearest_size_is_taken(shape, size):
    assert size_for("fog", shape) == size
    assert size_for("fog", shape, 64) == 64


@pytest.mark.parametrize("side", [16, 120, 512])
def test_a_size_far_from_all_needs_a_choice(side):
    with pytest.raises(ValueError, match=f"fog: .*{side} x {side} px.*size"):
        size_for("fog", (side, side, 3))


@pytest.mark.parametrize(
    ("size", "error"),
    [(0, ValueError), (225, ValueError), (224.0, TypeError), (True, TypeError)],
)
def test_a_size_without_parameters_is_refused(size, error):
    with pytest.raises(error, match="fog: size"):
        checked_size("fog", size)


# hendrycks/robustness, ImageNet-C/create_c/make_imagenet_c.py: the order of `d`.
FIFTEEN = """gaussian_noise shot_noise impulse_noise defocus_blur glass_blur motion_blur
zoom_blur snow frost fog brightness contrast elastic_transform pixelate
jpeg_compression""".split()
FOUR = "speckle_noise gaussian_blur spatter saturate".split()


@pytest.fixture
def with_frost(monkeypatch):
    """Replaces the benchmark's frost pictures by one grey, from no folder."""
    grey = tuple(np.full((400, 400, 3), 99, np.uint8) for _ in range(5))
    pictures = _weather.FrostPictures(grey)
    monkeypatch.setattr(_weather, "frost_pictures", lambda folder: pictures)


@pytest.fixture
def without_frost(monkeypatch):
    monkeypatch.setattr(_weather, "_PACKAGES", ())


def names(some):
    return [one.name.replace(" ", "_") for one in some]


def test_the_fifteen_and_the_four(with_frost):
    assert names(presets.imagenet_c()) == FIFTEEN
    assert names(presets.imagenet_c(64, validation=True)) == FIFTEEN + FOUR
    assert names(presets.cifar_c(validation=True, published=True)) == FIFTEEN + FOUR
    assert [key.replace(" ", "_") for key in metrics.ALEXNET] == FIFTEEN
    for one in presets.imagenet_c(299, published=True):
        assert (one.lower, one.upper, one.identity, one.unit) == (0, 5, 0, "severity")


def test_sizes_are_those_asked_for(with_frost):
    for preset, size in (
        (presets.imagenet_c(), None),
        (presets.imagenet_c(224), 224),
        (presets.imagenet_c(299), 299),
        (presets.cifar_c(), 32),
    ):
        own = [getattr(corruptions, name)(size) for name in FIFTEEN]
        assert [one.description for one in preset] == [one.description for one in own]


def test_frost_is_left_out_by_name(without_frost):
    with pytest.warns(RobustnessWarning, match="frost"):
        found = presets.cifar_c()
    assert names(found) == [name for name in FIFTEEN if name != "frost"]


def test_a_folder_that_is_given_must_hold_frost(tmp_path):
    with pytest.raises(FileNotFoundError, match="frost1.png"):
        presets.imagenet_c(frost_folder=tmp_path)


@pytest.mark.parametrize(
    "arguments, error",
    [
        ({"size": 100}, ValueError),
        ({"size": "224"}, TypeError),
        ({"published": 1}, TypeError),
        ({"validation": None}, TypeError),
    ],
)
def test_wrong_arguments(with_frost, arguments, error):
    with pytest.raises(error, match=f"{next(iter(arguments))} must"):
        presets.imagenet_c(**arguments)


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


@pytest.mark.parametrize("name", NAMES)
def test_every_severity_is_the_benchmarks(name, reference):
    for image in (make(size) for size in (32, 64, 224) for make in (noise, photograph)):
        case = feed(name, image, reference)
        found = ours(name, image, SEVERITIES, case.drawn, reference)
        for severity in SEVERITIES:
            expected = theirs(name, image, severity, case.random(), reference)
            check(name, found[severity - 1], expected, severity)


# JPEG compiles slowly, and test_jpeg.py compares it with Pillow.
SLOW = {"jpeg_compression"}


@pytest.mark.parametrize(
    "names",
    [{*NAMES} - SLOW - {"frost"}, pytest.param(SLOW, marks=pytest.mark.slow)],
    ids=["quick", "slow"],
)
def test_level_0_is_the_image_and_others_are_the_pictures_that_were_kept(names):
    with np.load(GOLDENS) as kept:
        image, *expected = (np.float64(kept[one]) for one in ("input", *sorted(names)))
    drawn = [feed(name, np.uint8(image)).drawn for name in sorted(names)]
    image = np.float32(image) / 255

    @jax.jit
    def at_levels(image, drawn, levels):
        """A single program compiles in half the time of one for each."""
        found = []
        for alteration, own in zip(map(alteration_of, sorted(names)), drawn):
            ready = alteration.prepared(image)[0] if own is None else (image, own)
            found.append(jax.vmap(alteration.fn, (None, 0))(ready, levels))
        return found

    levels = np.float32([0, *GOLDEN_SEVERITIES])
    for name, pictures, found in zip(
        sorted(names), expected, at_levels(image, drawn, levels), strict=True
    ):
        np.testing.assert_array_equal(found[0], image, err_msg=name)
        for one, picture, severity in zip(found[1:], pictures, GOLDEN_SEVERITIES):
            # The goldens are rounded to bytes.
            check(name, np.round(255 * np.asarray(one)), picture, severity)


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
def test_every_parameter_is_the_benchmarks(size, reference):
    # The benchmark has ranges of factors for zoom blur, not their ends and steps.
    for name in {*NAMES} - {"zoom_blur"}:
        expected = np.array(parameters(reference, size, name), float).reshape(5, -1)
        if name == "shot_noise":
            expected = 1 / expected
        found = table(name).by_size[size][1:]
        np.testing.assert_allclose(found, expected, rtol=1e-12, err_msg=name)
