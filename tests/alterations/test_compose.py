import io
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

import jaxrob
from jaxrob import RobustnessWarning, alterations, strategies
from jaxrob.alterations import (
    Alteration,
    brightness,
    compose,
    corruptions,
    followed_by,
    gaussian_blur,
    gaussian_noise,
    horizontal_translation,
    jpeg_compression,
    presets,
    rescale,
    rotation,
    vertical_translation,
    zoom,
)
from jaxrob.alterations.corruptions._severity import truncation_to_bytes

from .pictures import apply, assert_near, random_image, random_key

# A level mapped in float32 is off by 1e-7 of its range, which the alteration magnifies
# by less than 10.
TOLERANCE = 1e-6

BLACK = np.zeros((100, 100, 3), np.float32)


def ranges():
    ends = st.floats(-200, 200).map(lambda end: round(end, 3))
    return st.tuples(ends, ends).filter(lambda ends: ends[0] < ends[1])


def test_rescale_maps_levels_linearly():
    image = random_image((12, 9, 3))
    rescaled = rescale(brightness(-0.5, 0.25), 10, 40, unit="lux")
    assert (rescaled.name, rescaled.unit) == ("brightness", "lux")
    assert (rescaled.lower, rescaled.upper, rescaled.identity) == (10, 40, 30)
    for level, original in ((10, -0.5), (20, -0.25), (30, 0), (35, 0.125), (40, 0.25)):
        assert_near(
            apply(rescaled, image, float(level)),
            np.clip(image * (1 + original), 0, 1),
            atol=TOLERANCE,
        )


@settings(max_examples=40, deadline=None)
@given(original=ranges(), place=st.sampled_from([0.0, 0.25, 0.7, 1.0]), mapped=ranges())
def test_rescale_keeps_the_identitys_place_despite_rounding(original, place, mapped):
    lower, upper = original
    identity = {0.0: lower, 1.0: upper}.get(place, lower + place * (upper - lower))
    alteration = Alteration("any", lambda image, level: image, lower, upper, identity)
    rescaled = rescale(alteration, *mapped)
    assert (rescaled.lower, rescaled.upper) == mapped
    assert mapped[0] <= rescaled.identity <= mapped[1]
    # float64's rounding, relative to the ends of the range.
    expected = mapped[0] + (identity - lower) / (upper - lower) * (
        mapped[1] - mapped[0]
    )
    assert rescaled.identity == pytest.approx(expected, rel=1e-12, abs=1e-10)
    levels = rescaled.canonical(np.linspace(*mapped, 33))
    assert np.all((levels >= mapped[0]) & (levels <= mapped[1]))


def test_rescale_keeps_the_noise_and_an_identity_at_the_upper_end():
    # In float64, (3 / (3 / 0.7)) is above 0.7.
    assert rescale(rotation(-3, 0), 0, 0.7).identity == 0.7
    noise, key = gaussian_noise(0, 0.2), random_key(7)
    rescaled = rescale(noise, 0, 1)
    both = jax.jit(lambda: (rescaled(BLACK, 0.3, key), noise(BLACK, 0.06, key)))
    np.testing.assert_allclose(*both(), rtol=1e-6)


@pytest.mark.parametrize("lower, upper", [(1, 1), (1, 0), (0, np.inf), (np.nan, 1)])
@pytest.mark.parametrize("function", [rescale, compose])
def test_empty_ranges_are_refused(function, lower, upper):
    of = zoom() if function is rescale else [zoom()]
    with pytest.raises(ValueError, match=f"{function.__name__}: (lower|upper)"):
        function(of, lower, upper)


@pytest.mark.parametrize(
    ("members", "says"),
    [
        ([], "empty"),
        ([brightness(-0.5, 0.5), gaussian_blur(0, 2)], "identities"),
        ([gaussian_blur(), brightness(-0.5, 0)], "identities"),
    ],
)
def test_compose_refuses_no_members_and_identities_that_do_not_coincide(members, says):
    with pytest.raises(ValueError, match=says):
        compose(members)


def test_compose_applies_the_members_in_order():
    image = random_image((12, 9, 3))
    members = zoom(1, 3), brightness(0, 0.5), horizontal_translation(0, 2)
    forth, back = compose(members), compose(members[::-1])

    @jax.jit
    def altered(level):
        one_by_one = members[0](image, 1 + 2 * level)
        one_by_one = members[1](one_by_one, level / 2)
        one_by_one = members[2](one_by_one, 2 * level)
        return forth(image, level), back(image, level), one_by_one

    for level in (0.3, 1.0):
        found, other, expected = map(np.asarray, altered(level))
        assert_near(found, expected, atol=TOLERANCE * 5)
        assert np.abs(other - expected).max() > 0.01


def test_compose_takes_levels_in_its_range_with_an_identity_inside():
    image = random_image((12, 9, 3))
    composed = compose([brightness(-1, 0), brightness(-0.5, 0)], lower=-10, upper=30)
    assert (composed.lower, composed.upper, composed.identity) == (-10, 30, 30)
    assert_near(apply(composed, image, 10.0), image * 0.5 * 0.75, atol=TOLERANCE)
    composed = compose([brightness(-0.5, 0.5), horizontal_translation(-2, 2)])
    np.testing.assert_array_equal(apply(composed, image, composed.identity), image)


def test_compose_names_itself_after_its_members():
    members = [gaussian_blur(), brightness(0, 0.5)]
    assert compose(members).name == "gaussian blur + brightness"
    assert compose(members[:1]).name == "gaussian blur"
    assert compose(members, name="dim lens").name == "dim lens"


def test_compose_is_stochastic_if_any_member_is():
    assert not compose([gaussian_blur(), zoom()]).stochastic
    noisy = compose([gaussian_blur(), gaussian_noise()])
    assert noisy.stochastic
    with pytest.raises(ValueError, match="key"):
        noisy(BLACK, 0.5)


def test_stochastic_members_draw_independently_and_as_much_at_all_levels():
    noise = gaussian_noise(0, 0.02, clip=False)
    twice = compose([noise, noise])
    low, half = (
        np.asarray(apply(twice, BLACK, level, random_key(7)), np.float64)
        for level in (0.125, 0.5)
    )
    # Independent draws add their variances, 2 x 0.01. With one key for both they
    # would add the noises themselves, which gives 4 x 0.01. The variance of 30,000
    # draws is known within 1 %.
    assert (half**2).mean() == pytest.approx(0.02, rel=0.03)
    # The root of the ratio of the levels; sums that cancel lose digits.
    assert_near(2 * low, half, atol=1e-6)


# Arcaini et al. (2020), table I. The noise variance refers to pixels in 0-255, the zoom
# is in percent.
CNN_2020 = [
    ("horizontal translation", -4, 4, 0),
    ("vertical translation", -4, 4, 0),
    ("rotation", -180, 180, 0),
    ("brightness", -0.5, 0.5, 0),
    ("zoom", 1, 2, 1),
    ("gaussian noise", 0, 200 / 255**2, 0),
    ("gaussian blur", 0, 2, 0),
    ("jpeg compression", 0, 100, 0),
]

# Arcaini et al. (2022), table I.
ASAP_2022 = [
    ("gaussian noise", 0, 1, 0),
    ("jpeg compression", 0, 1, 0),
    ("vertical translation", -1, 1, 0),
    ("horizontal translation", -1, 1, 0),
    ("gaussian blur", 0, 1, 0),
    ("brightness", -0.5, 0.5, 0),
    ("zoom", 0, 1, 0),
]

# The 2024 paper on Bayesian networks, table 1; the identities are in its text.
BNN_2024 = [
    ("gaussian noise", 0, 0.20, 0),
    ("gaussian blur", 0, 2, 0),
    ("brightness", -0.5, 0.5, 0),
    ("horizontal translation", -20, 20, 0),
    ("vertical translation", -20, 20, 0),
    ("jpeg compression", 0, 100, 0),
    ("zoom", 1, 2, 1),
]


@pytest.mark.parametrize(
    "alterations, table",
    [
        (presets.cnn_2020(), CNN_2020),
        (presets.asap_2022(), ASAP_2022),
        (presets.asap_2022("mnist"), ASAP_2022),
        (presets.asap_2022("idc"), ASAP_2022),
        (presets.bnn_2024(), BNN_2024),
    ],
    ids=["cnn_2020", "asap_2022", "asap_2022 mnist", "asap_2022 idc", "bnn_2024"],
)
def test_presets_are_the_papers_tables(alterations, table):
    assert [(a.name, a.lower, a.upper, a.identity) for a in alterations] == table


def test_asap_2022_levels_mean_what_the_paper_says():
    for benchmark, variance in (("mnist", 0.01), ("idc", 200 / 255**2)):
        noise, jpeg, _, _, blur, _, magnify = presets.asap_2022(benchmark)
        assert noise == rescale(gaussian_noise(0, variance), 0, 1)
        assert jpeg == rescale(jpeg_compression(0, 100), 0, 1)
        assert blur == rescale(gaussian_blur(0, 2), 0, 1)
        assert magnify == rescale(zoom(1, 2), 0, 1)
    with pytest.raises(ValueError, match="benchmark"):
        presets.asap_2022("cifar")


def test_presets_crop_like_the_papers_whatever_the_default():
    def translations(alterations):
        return [one for one in alterations if "translation" in one.name]

    makers = horizontal_translation, vertical_translation
    px = [make(-4.0, 4.0, fill="crop") for make in makers]
    tenth = [make(-0.1, 0.1, fill="crop", unit="relative") for make in makers]
    # Equal alterations run the same programs, so their outputs are the same bits.
    assert translations(presets.cnn_2020()) == px
    assert presets.cnn_2020()[2] == rotation(-180.0, 180.0, fill="crop")
    for benchmark in ("mnist", "idc"):
        found = translations(presets.asap_2022(benchmark))
        of_size = [rescale(one, -1.0, 1.0, "10 % of the size") for one in tenth]
        assert found == of_size[::-1]
    steps = [rescale(one, -20.0, 20.0, "steps of 200") for one in tenth]
    assert translations(presets.bnn_2024()) == steps


IMAGE = random_image((32, 32, 3))


def halved(image):
    return image / 2


def test_every_level_but_the_identity_goes_through_the_function():
    found = followed_by(alterations.brightness(-0.5, 0.5), halved)
    assert (found.name, found.upper) == ("brightness followed by halved", 0.5)
    levels, images = np.float32([-0.25, 0, 1e-6]), np.stack([IMAGE, 1 - IMAGE])
    over_images = jax.vmap(found, (0, None))
    altered = np.asarray(jax.jit(jax.vmap(over_images, (None, 0)))(images, levels))
    np.testing.assert_array_equal(altered[1], images)
    np.testing.assert_allclose(altered[0], images * 0.75 / 2, atol=1e-6)
    np.testing.assert_allclose(altered[2], images / 2, atol=1e-6)
    grey = np.full((2, 2, 1), 0.5, np.float32)
    slope = jax.jit(jax.grad(lambda level: found(grey, level).sum()))
    # d/dl of (1 + l) / 2 / 2 for each of four pixels; at the identity it is the image.
    assert slope(0.2) == pytest.approx(1.0) and np.isfinite(slope(0.0))


def test_a_corruption_draws_as_it_does_alone():
    noise = corruptions.gaussian_noise(32)
    found = followed_by(noise, halved, "noise of two")
    assert (found.name, found.stochastic) == ("noise of two", True)
    key = random_key(3)
    both = jax.jit(lambda: (found(IMAGE, 3.0, key), noise(IMAGE, 3.0, key) / 2))
    np.testing.assert_allclose(*both(), atol=1e-6)


def test_levels_of_one_effect_stay_one():
    jpeg = followed_by(alterations.jpeg_compression(), halved)
    assert list(jpeg.canonical([0, 0.2, 0.4, 10.2])) == [0, 0.25, 0.25, 10]


def test_published_form_is_what_pillow_stores():
    """ImageNet-C truncates to bytes, then saves an optimized JPEG of quality 85."""
    contrast = corruptions.contrast(64)
    published = next(one for one in presets_of_files(64) if one.name == contrast.name)
    contrast, published = jax.jit(contrast), jax.jit(published)
    for level in (0.5, 1.0, 5.0):
        altered = np.asarray(contrast(IMAGE, level))
        file = io.BytesIO()
        stored = Image.fromarray(np.uint8(255 * altered.astype(np.float64)))
        stored.save(file, "jpeg", quality=85, optimize=True)
        expected = np.asarray(Image.open(file))
        found = np.asarray(published(IMAGE, level)) * 255
        np.testing.assert_allclose(found, expected, atol=1e-3)
    np.testing.assert_array_equal(published(IMAGE, 0.0), IMAGE)


def test_bytes_are_kept_by_truncation():
    found = jax.jit(truncation_to_bytes)(np.float32(np.arange(256) / 255))
    np.testing.assert_array_equal(np.rint(np.asarray(found) * 255), np.arange(256))


def presets_of_files(size):
    with warnings.catch_warnings():
        # Frost may be missing.
        warnings.simplefilter("ignore", RobustnessWarning)
        return presets.imagenet_c(size, published=True)


@pytest.mark.parametrize(
    "change, error",
    [
        ({"corruption": halved}, TypeError),
        ({"fixed": 3}, TypeError),
        ({"fixed": lambda: 0}, TypeError),
        ({"fixed": lambda image, level: image}, TypeError),
        ({"fixed": alterations.zoom()}, TypeError),
        ({"name": ""}, ValueError),
    ],
)
def test_wrong_arguments(change, error):
    given = {"corruption": alterations.gaussian_blur(), "fixed": halved}
    (name,) = change
    with pytest.raises(error, match=f"{name} must"):
        followed_by(**(given | change))


def test_functions_that_return_other_shapes_are_rejected():
    dim = alterations.brightness(-1, 0)
    for fixed, error in (
        (lambda image: image[:3], ValueError),
        (lambda image: jnp.uint8(255 * image), TypeError),
    ):
        with pytest.raises(error, match="fixed must return.* of the shape .3"):
            jax.eval_shape(followed_by(dim, fixed), IMAGE, -0.5)


def test_the_jump_beside_the_identity_is_named():
    """Rounding down darkens values just above the classifier's threshold."""
    labels = np.arange(100) % 2
    pixels = np.float32((100.5 + 2 * labels + np.linspace(0, 0.1, 100)) / 255)
    dataset = jaxrob.Dataset(np.tile(pixels[:, None, None, None], (1, 8, 8, 1)), labels)

    def answers(variables, images):
        above = 1e4 * (images.mean((1, 2, 3)) - 102.25 / 255)
        return jnp.stack([0 * above, above], axis=1)

    dim = followed_by(alterations.brightness(-0.001, 0), truncation_to_bytes)
    words = "truncation to bytes"
    with pytest.warns(RobustnessWarning, match=f"is followed by {words} at any level"):
        result = jaxrob.assess(
            jaxrob.Classifier(answers), dataset, dim, strategy=strategies.Uniform(65)
        )
    assert result.provenance["settings"] == {"followed by": words}
