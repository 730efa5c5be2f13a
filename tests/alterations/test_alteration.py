import functools
import pickle

import jax
import numpy as np
import pytest

from jaxrob import alterations
from jaxrob._command.catalogue import NAMES
from jaxrob.alterations import (
    Alteration,
    brightness,
    compose,
    corruptions,
    defocus_blur,
    elastic_deformation,
    followed_by,
    gaussian_blur,
    gaussian_noise,
    horizontal_translation,
    jpeg_compression,
    motion_blur,
    presets,
    rescale,
    rotation,
    shot_noise,
    vertical_translation,
    zoom,
)
from jaxrob.alterations._alteration import doubts

from .pictures import apply, assert_near, random_image, random_key


def negate(image, level):
    return (1 - level) * image + level * (1 - image)


def make_alterations():
    papers = presets.cnn_2020() + presets.asap_2022() + presets.bnn_2024()
    composed = compose([gaussian_noise(), gaussian_blur(), zoom(), brightness(0, 0.5)])
    return list(dict.fromkeys((*papers, composed, Alteration("own", negate, 0, 1))))


# Each once, and not JPEG, which blocks gradients and compiles slowly. The other papers'
# are these ones, rescaled.
ALTERATIONS = [
    *(one for one in presets.cnn_2020() if "jpeg" not in one.name),
    make_alterations()[-2],
    make_alterations()[-1],
]
# Those of many taps: test_forms.py has slopes of the ones of few.
PHYSICAL = [
    motion_blur(0, 40),
    defocus_blur(0, 12),
    elastic_deformation(),
    shot_noise(0, 1),
]
# Canonical levels: any, JPEG's, rescaled ones, composed ones.
canonical_levels_of = pytest.mark.parametrize(
    "alteration",
    [
        zoom(),
        jpeg_compression(),
        rescale(jpeg_compression(), 0, 1),
        rescale(horizontal_translation(-0.1, 0.1, unit="relative"), -20, 20),
        compose([gaussian_noise(), gaussian_blur()]),
    ],
    ids=lambda alteration: f"{alteration.name} to {alteration.upper:g}",
)

SHAPE = (9, 12, 3)  # large enough for a translation of 4 px


@jax.jit
def apply_all(image, levels, key):
    """A single program compiles in half the time of one per alteration."""
    return [
        jax.vmap(functools.partial(alteration, image, key=key))(at)
        for alteration, at in zip(ALTERATIONS, levels)
    ]


def spread_levels(alteration):
    lower, upper, identity = alteration.lower, alteration.upper, alteration.identity
    near = 1e-4 * (upper - lower)
    beside = np.clip([identity - near, identity + near], lower, upper)
    between = np.linspace(lower, upper, 6)[1:-1]
    return np.float32([lower, identity, upper, *beside, *between])


LEVELS = [spread_levels(alteration) for alteration in ALTERATIONS]


@pytest.mark.parametrize("kind", ["black", "white", "checks", "bytes", "tiny", "noise"])
def test_pixels_stay_in_the_unit_interval_and_the_identity_is_bit_for_bit(kind):
    image = {
        "black": np.zeros(SHAPE),
        "white": np.ones(SHAPE),
        "checks": np.indices(SHAPE).sum(0) % 2,
        "bytes": np.round(random_image(SHAPE) * 255) / 255,
        # The smallest normal number of float32 is 1.2e-38.
        "tiny": (0.5 + random_image(SHAPE)) * 1e-37,
        "noise": random_image(SHAPE),
    }[kind].astype(np.float32)
    for alteration, altered in zip(
        ALTERATIONS, apply_all(image, LEVELS, random_key(0))
    ):
        altered = np.asarray(altered)
        assert altered.shape == (9, *SHAPE) and altered.dtype == np.float32
        assert not np.isnan(altered).any(), alteration
        # Interpolation's weights sum to 1 up to rounding.
        assert altered.min() >= -1e-6, alteration
        assert altered.max() <= 1 + 1e-6, alteration
        np.testing.assert_array_equal(altered[1], image, err_msg=alteration.name)


@pytest.mark.slow
def test_every_alterations_identity_is_bit_for_bit():
    every = [getattr(alterations, name)() for name in NAMES]
    image = random_image((50, 50, 3))
    image.flat[0], image.flat[-1] = 1, 0

    @jax.jit
    def at(image, levels, key):
        return [one(image, level, key) for one, level in zip(every, levels)]

    identities = np.float32([one.identity for one in every])
    for name, same in zip(NAMES, at(image, identities, random_key(0))):
        np.testing.assert_array_equal(same, image, err_msg=name)


def test_the_identity_of_many_taps_is_bit_for_bit():
    image = random_image((50, 50, 3))

    @jax.jit
    def alter(image, levels, key):
        return [a(image, level, key) for a, level in zip(PHYSICAL, levels)]

    altered = alter(image, [a.identity for a in PHYSICAL], random_key(0))
    for alteration, result in zip(PHYSICAL, altered):
        np.testing.assert_array_equal(result, image, err_msg=alteration.name)


@pytest.mark.slow
def test_gradients_are_finite():
    # The composed one has noise, blur, zoom and brightness.
    every = [presets.cnn_2020()[2], make_alterations()[-2], *PHYSICAL]
    key = random_key(0)
    levels = [spread_levels(alteration) for alteration in every]

    @jax.jit
    def slopes(image, levels):
        def slope(alteration, at):
            def energy(image, level):
                return (alteration(image, level, key) ** 2).sum()

            return jax.vmap(jax.grad(energy, (0, 1)), (None, 0))(image, at)

        return [slope(alteration, at) for alteration, at in zip(every, levels)]

    for alteration, (of_image, of_level) in zip(
        every, slopes(random_image(SHAPE), levels)
    ):
        assert np.isfinite(of_image).all(), alteration
        assert np.isfinite(of_level).all(), alteration
        # Of few photons, counts jump and do not move in between.
        if alteration.name != "shot noise":
            assert np.abs(of_image).max(axis=(1, 2, 3)).min() > 0, alteration


@pytest.mark.parametrize(
    "lower, upper, more, name",
    [
        (1, 1, {}, "lower"),
        (np.nan, 1, {}, "lower"),
        (0, np.inf, {}, "upper"),
        (0, 1, {"identity": -0.1}, "identity"),
        (0, 1, {"identity": 1.1}, "identity"),
        (0, 1, {"resolution": 0}, "resolution"),
        # float32, in which levels are computed, does not hold them or their distance,
        # or both are one number of it.
        (-3e38, 3e38, {}, "lower .*apart"),
        (0, 1e39, {}, "lower .*apart"),
        (0, 1e-40, {}, "lower .*differ in float32"),
        (1, 1 + 1e-9, {}, "lower .*differ in float32"),
    ],
)
def test_wrong_numbers(lower, upper, more, name):
    with pytest.raises(ValueError, match=f"own: {name}"):
        Alteration("own", negate, lower, upper, **more)


def test_identity_is_the_lower_end_unless_given():
    assert Alteration("own", negate, 0, 1e-37).identity == 0  # float32 holds it.
    assert Alteration("own", negate, -3, 1).identity == -3
    assert Alteration("own", negate, -3, 1, identity=0).identity == 0


def test_draws_depend_on_the_key_alone():
    image = random_image(SHAPE)
    one, again, another = (
        apply_all(image, LEVELS, random_key(seed)) for seed in (0, 0, 1)
    )
    for index, alteration in enumerate(ALTERATIONS):
        np.testing.assert_array_equal(one[index], again[index])
        same = np.array_equal(one[index], another[index])
        assert same != alteration.stochastic, alteration


def test_prepare_runs_once_for_all_levels():
    calls = []

    def prepare(image):
        calls.append(1)
        return image, image.mean()

    def towards_mean(prepared, level):
        image, mean = prepared
        return (1 - level) * image + level * mean

    alteration = Alteration("contrast", towards_mean, 0, 1, prepare=prepare)
    image = random_image(SHAPE)
    prepared = alteration.prepared(image)
    for level in (0.0, 0.5, 1.0):
        np.testing.assert_array_equal(
            alteration.at_level(prepared, level),
            towards_mean((image, image.mean()), level),
        )
    assert len(calls) == 1
    np.testing.assert_array_equal(alteration(image, 0.0), image)


def test_equal_parameters_give_equal_alterations_and_others_do_not():
    once, again = make_alterations(), make_alterations()
    assert once == again
    assert list(map(hash, once)) == list(map(hash, again))
    assert len(set(once)) == len(once)
    for one, other in (
        (gaussian_noise(), gaussian_noise(clip=False)),
        (rotation(), rotation(fill="crop")),
        (horizontal_translation(), vertical_translation()),
        (rescale(zoom(), 0, 1), rescale(zoom(), 0, 2)),
        (compose([gaussian_blur(), zoom()]), compose([zoom(), gaussian_blur()])),
    ):
        assert one != other


def test_all_and_compositions_pickle():
    every = [getattr(alterations, name)() for name in NAMES]
    benchmark = {*corruptions.__all__} - {"frost"}
    every += [getattr(corruptions, name)(32) for name in benchmark]
    moved = rescale(horizontal_translation(0, 4, unit="relative"), 0, 1)
    composed = compose([moved, motion_blur(unit="relative")])
    for one in (*every, composed, followed_by(composed, abs)):
        again = pickle.loads(pickle.dumps(one))
        assert (again, again.description) == (one, one.description)
        assert doubts(again, SHAPE) == doubts(one, SHAPE)


def test_equal_alterations_share_a_trace_and_others_do_not():
    traces = []

    @functools.partial(jax.jit, static_argnums=0)
    def traced(alteration, level):
        traces.append(alteration)
        return level + alteration.upper

    for upper in (2, 2, 3):
        traced(gaussian_blur(0, upper), 0.5)
    assert [one.upper for one in traces] == [2, 3]


@canonical_levels_of
def test_canonical_refuses_levels_outside_the_range(alteration):
    step = 1e-3 * (alteration.upper - alteration.lower)
    inside = [alteration.lower, alteration.identity, alteration.upper]
    for outside in (alteration.lower - step, alteration.upper + step, np.nan):
        with pytest.raises(ValueError, match=alteration.name.split(" + ")[0]):
            alteration.canonical(np.array([*inside, outside]))


@canonical_levels_of
def test_canonical_levels_stand_for_themselves(alteration):
    levels = np.linspace(alteration.lower, alteration.upper, 997)
    levels = np.append(levels, alteration.identity)
    canonical = alteration.canonical(levels)
    assert canonical.dtype == np.float64
    assert canonical.shape == levels.shape
    # float64's rounding on the way to another range and back.
    rounding = 1e-12 * (alteration.upper - alteration.lower)
    assert_near(alteration.canonical(canonical), canonical, atol=rounding)
    assert canonical[-1] == alteration.identity
    assert canonical.min() >= alteration.lower
    assert canonical.max() <= alteration.upper
    if "jpeg" not in alteration.name:
        assert_near(canonical, levels, atol=1e-9)


@canonical_levels_of
def test_canonical_takes_rounding_at_the_identity_for_the_identity(alteration):
    lower, upper, identity = alteration.lower, alteration.upper, alteration.identity
    rounding = 1e-15 * (upper - lower)
    levels = np.clip([identity - rounding, identity + rounding], lower, upper)
    np.testing.assert_array_equal(alteration.canonical(levels), identity)


def test_canonical_rounds_to_the_resolution_from_the_identity():
    coarse = Alteration("own", negate, 0, 1, resolution=0.25)
    canonical = coarse.canonical(np.array([0, 0.1, 0.2, 0.4, 0.6, 0.9, 1]))
    np.testing.assert_array_equal(canonical, [0, 0, 0.25, 0.5, 0.5, 1, 1])
    # The last multiple below the upper end may round beyond it.
    uneven = Alteration("own", negate, 0, 0.9, resolution=0.5)
    np.testing.assert_array_equal(uneven.canonical(np.array([0.2, 0.9])), [0, 0.9])
    steps = Alteration("steps", negate, -9, 9, identity=1, resolution=2)
    np.testing.assert_array_equal(steps.canonical([1.0, 1.9, 2.1, -9]), [1, 1, 3, -9])


def jpeg_quality(level):
    """Returns `100 - level` rounded, halves upwards; None: not compressed."""
    if level == 0:
        return None
    whole, fraction = divmod(100 - float(level), 1)
    return max(int(whole) + (fraction >= 0.5), 1)


def test_canonical_jpeg_levels_are_whole_but_for_quality_100():
    levels = np.sort([*np.linspace(0, 100, 4001), 1e-6, 99.50001])
    canonical = jpeg_compression().canonical(levels)
    np.testing.assert_array_equal(np.unique(canonical), [0, 0.25, *range(1, 100)])
    # 100 - level is computed in float64 on both sides: the same rounding.
    assert [*map(jpeg_quality, canonical)] == [*map(jpeg_quality, levels)]
    # Rescaled: no compression, and the qualities from 1 to 100.
    rescaled = rescale(jpeg_compression(), 0, 1)
    levels = np.unique(rescaled.canonical(np.linspace(0, 1, 20_001)))
    qualities = [jpeg_quality(round(100 * level, 6)) for level in levels]
    assert qualities == [None, *range(100, 0, -1)]


def test_canonical_jpeg_levels_have_the_effect_of_those_they_stand_for():
    image = random_image(SHAPE)
    alteration = jpeg_compression()
    # In float32, on the device: halves, the ends, and levels close to them.
    levels = np.array([0.01, 0.49, 0.5, 0.51, 1.5, 49.5, 98.5, 98.6, 99.5, 100])
    canonical = alteration.canonical(levels)
    for level, stands in zip(np.float32(levels), np.float32(canonical)):
        found = np.asarray(apply(alteration, image, level))
        np.testing.assert_array_equal(found, apply(alteration, image, stands))
        assert found.min() >= 0 and found.max() <= 1
    np.testing.assert_array_equal(apply(alteration, image, np.float32(0)), image)
