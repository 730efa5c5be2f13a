import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxrob.alterations import (
    Alteration,
    brightness,
    compose,
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

from .pictures import apply, assert_near, random_image

# A level mapped in float32 is off by 1e-7 of its range, which the alteration magnifies
# by less than 10.
TOLERANCE = 1e-6

KEY = jax.random.key(7)
BLACK = np.zeros((100, 100, 3), np.float32)


def quality(level):
    """Returns JPEG's quality 100 - level, halves upwards; None: no coding."""
    if level == 0:
        return None
    whole, fraction = divmod(100 - float(level), 1)
    return max(int(whole) + (fraction >= 0.5), 1)


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


@pytest.mark.slow
def test_rescale_twice_is_rescale_once():
    image = random_image((12, 9, 3))
    twice = rescale(rescale(gaussian_blur(0, 2), -3, 5), 0, 1)
    once = rescale(gaussian_blur(0, 2), 0, 1)
    for level in (0.0, 0.1, 0.7, 1.0):
        np.testing.assert_allclose(
            apply(twice, image, level), apply(once, image, level), atol=TOLERANCE
        )


@settings(max_examples=100, deadline=None)
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


def test_rescale_takes_an_identity_at_the_upper_end():
    # In float64, (3 / (3 / 0.7)) is above 0.7.
    assert rescale(rotation(-3, 0), 0, 0.7).identity == 0.7


@pytest.mark.parametrize(
    "lower, upper", [(1, 1), (1, 0), (0, np.inf), (np.nan, 1), (0, np.nan)]
)
def test_rescale_refuses_an_empty_range(lower, upper):
    with pytest.raises(ValueError, match="rescale"):
        rescale(zoom(), lower, upper)


def test_rescale_keeps_the_noise():
    level = 0.3
    np.testing.assert_allclose(
        apply(rescale(gaussian_noise(0, 0.2), 0, 1), BLACK, level, KEY),
        apply(gaussian_noise(0, 0.2), BLACK, 0.2 * level, KEY),
        rtol=1e-6,
    )


@settings(max_examples=100, deadline=None)
@given(
    mapped=ranges() | st.just((0.0, 1.0)),
    places=st.lists(st.floats(0, 1), min_size=2, max_size=50),
)
def test_rescaled_jpeg_never_codes_a_quality_twice(mapped, places):
    lower, upper = mapped
    rescaled = rescale(jpeg_compression(), lower, upper)
    levels = np.clip(lower + np.array(places) * (upper - lower), lower, upper)
    canonical = np.unique(rescaled.canonical(levels))
    original = (canonical - lower) / (upper - lower) * 100
    # A range far from 0 leaves float64 fewer digits: this is no compression too.
    original[canonical == rescaled.identity] = 0
    qualities = [quality(round(level, 6)) for level in original]
    assert len(set(qualities)) == len(qualities)


def test_rescaled_jpeg_has_101_levels_in_all():
    rescaled = rescale(jpeg_compression(), 0, 1)
    levels = np.unique(rescaled.canonical(np.linspace(0, 1, 20_001)))
    # No compression, and the qualities from 1 to 100.
    assert len(levels) == 101
    assert (levels[0], levels[-1]) == (0, 0.99)
    assert [quality(100 * level) for level in levels] == [None, *range(100, 0, -1)]


def test_rescaled_jpegs_canonical_levels_have_the_effect_of_those_they_stand_for():
    # Quality 1 has no level of its own at 100; 0.4 of a level is still quality 100.
    image = random_image((16, 16, 1))
    rescaled = rescale(jpeg_compression(), 0, 1)
    for level in (0.002, 0.004, 0.0051, 0.5, 0.994, 0.9949, 0.9951, 1.0):
        (canonical,) = rescaled.canonical([level])
        np.testing.assert_array_equal(
            apply(rescaled, image, level), apply(rescaled, image, canonical)
        )


def test_compose_applies_the_members_in_order():
    image = random_image((12, 9, 3))
    members = gaussian_blur(0, 2), zoom(1, 3), brightness(0, 0.5)
    forth, back = compose(members), compose(members[::-1])
    for level in (0.3, 1.0):
        altered = apply(members[0], image, 2 * level)
        altered = apply(members[1], altered, 1 + 2 * level)
        altered = apply(members[2], altered, level / 2)
        assert_near(apply(forth, image, level), altered, atol=TOLERANCE * 5)
        assert np.abs(apply(back, image, level) - altered).max() > 0.01


def test_compose_takes_levels_in_its_range():
    image = random_image((12, 9, 3))
    composed = compose([brightness(-1, 0), brightness(-0.5, 0)], lower=-10, upper=30)
    assert (composed.lower, composed.upper, composed.identity) == (-10, 30, 30)
    assert_near(apply(composed, image, 10.0), image * 0.5 * 0.75, atol=TOLERANCE)


def test_compose_of_one_is_that_one_rescaled():
    image = random_image((12, 9, 3))
    composed, rescaled = compose([zoom()]), rescale(zoom(), 0, 1)
    assert (composed.name, composed.identity) == ("zoom", 0)
    np.testing.assert_array_equal(
        apply(composed, image, 0.4), apply(rescaled, image, 0.4)
    )


@pytest.mark.slow
def test_compose_nests():
    image = random_image((12, 9, 3))
    inner = compose([gaussian_blur(0, 2), brightness(0, 0.5)], 0, 3)
    nested = compose([inner, zoom()])
    flat = compose([gaussian_blur(0, 2), brightness(0, 0.5), zoom()])
    assert_near(apply(nested, image, 0.6), apply(flat, image, 0.6), atol=5 * TOLERANCE)


def test_compose_with_an_identity_inside_the_range():
    image = random_image((12, 9, 3))
    composed = compose([brightness(-0.5, 0.5), horizontal_translation(-2, 2)])
    assert composed.identity == 0.5
    np.testing.assert_array_equal(apply(composed, image, 0.5), image)


def test_compose_names_itself_after_its_members():
    members = [gaussian_blur(), brightness(0, 0.5)]
    assert compose(members).name == "gaussian blur + brightness"
    assert compose(members, name="dim lens").name == "dim lens"


def test_compose_is_stochastic_if_any_member_is():
    assert not compose([gaussian_blur(), zoom()]).stochastic
    noisy = compose([gaussian_blur(), gaussian_noise()])
    assert noisy.stochastic
    with pytest.raises(ValueError, match="key"):
        noisy(BLACK, 0.5)


def test_stochastic_members_draw_independently():
    level = 0.5
    noise = gaussian_noise(0, 0.02, clip=False)
    twice = compose([noise, noise])
    drawn = np.asarray(apply(twice, BLACK, level, KEY), np.float64)
    # Independent draws add their variances, 2 x 0.01. With one key for both they
    # would add the noises themselves, which gives 4 x 0.01. The variance of 30,000
    # draws is known within 1 %.
    assert (drawn**2).mean() == pytest.approx(0.02, rel=0.03)


def test_composed_noise_is_the_same_at_all_levels_up_to_scale():
    noise = gaussian_noise(0, 0.02, clip=False)
    composed = compose([noise, noise])
    low, high = (apply(composed, BLACK, level, KEY) for level in (0.1, 0.4))
    # The root of the ratio of the levels; sums that cancel lose digits.
    assert_near(2 * low, high, atol=1e-6)


def test_compose_refuses_identities_that_do_not_coincide():
    with pytest.raises(ValueError, match="identities"):
        compose([brightness(-0.5, 0.5), gaussian_blur(0, 2)])
    with pytest.raises(ValueError, match="identities"):
        compose([gaussian_blur(), brightness(-0.5, 0)])
    compose([brightness(0, 0.5), gaussian_blur(0, 2), zoom(1, 2), jpeg_compression()])


def test_compose_refuses_an_empty_sequence():
    for empty in ([], ()):
        with pytest.raises(ValueError, match="empty"):
            compose(empty)


def test_compose_refuses_an_empty_range():
    with pytest.raises(ValueError, match="compose: lower must be below upper"):
        compose([zoom()], 1, 1)


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


@pytest.mark.slow
def test_asap_2022_levels_mean_what_the_paper_says():
    image = random_image((20, 20, 1))
    _, jpeg, down, right, blur, _, magnify = presets.asap_2022()
    for benchmark, variance in (("mnist", 0.01), ("idc", 200 / 255**2)):
        noise = presets.asap_2022(benchmark)[0]
        drawn = np.asarray(noise(BLACK + 0.5, 1.0, KEY)) - 0.5
        assert drawn.var() == pytest.approx(variance, rel=0.03)
    pairs = [
        (down, 1.0, vertical_translation(-2, 2, fill="crop"), 2.0),
        (right, -0.25, horizontal_translation(-2, 2, fill="crop"), -0.5),
        (blur, 1.0, gaussian_blur(), 2.0),
        (magnify, 0.5, zoom(), 1.5),
        (jpeg, 0.3, jpeg_compression(), 30.0),
        (jpeg, 1.0, jpeg_compression(), 99.0),  # quality 0 is taken as 1
    ]
    for rescaled, level, original, mapped in pairs:
        assert_near(
            apply(rescaled, image, level),
            apply(original, image, mapped),
            # Positions in float32.
            atol=1e-5,
            err_msg=rescaled.name,
        )
    with pytest.raises(ValueError, match="benchmark"):
        presets.asap_2022("cifar")


def test_bnn_2024_translations_are_steps_of_a_canvas_of_200():
    image = random_image((20, 20, 1))
    right = presets.bnn_2024()[3]
    assert_near(
        apply(right, image, 20.0),
        apply(horizontal_translation(-2, 2, fill="crop"), image, 2.0),
        atol=1e-5,
    )


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
