import dataclasses
import functools

import jax
import jax.numpy as jnp
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


def negate(image, level):
    return (1 - level) * image + level * (1 - image)


def make_alterations():
    """Returns the papers' alterations, a composed one and a user's own, each once."""
    papers = presets.cnn_2020() + presets.asap_2022() + presets.bnn_2024()
    composed = compose([gaussian_noise(), gaussian_blur(), zoom(), brightness(0, 0.5)])
    return list(dict.fromkeys((*papers, composed, Alteration("own", negate, 0, 1))))


ALTERATIONS = make_alterations()
every_alteration = pytest.mark.parametrize(
    "alteration",
    ALTERATIONS,
    ids=[f"{a.name} {a.lower:.3g} {a.upper:.3g}" for a in ALTERATIONS],
)

KEY = jax.random.key(0)
SHAPE = (9, 12, 3)  # large enough for a translation of 4 px


@jax.jit
def apply_all(image, levels, key):
    """Applies every alteration to the image at each of its levels.

    A single program compiles in half the time of one per alteration.
    """
    return [
        jax.vmap(functools.partial(alteration, image, key=key))(at)
        for alteration, at in zip(ALTERATIONS, levels)
    ]


def spread_levels(alteration):
    """Returns nine levels: both ends, the identity, its neighbours, some between."""
    lower, upper, identity = alteration.lower, alteration.upper, alteration.identity
    near = 1e-4 * (upper - lower)
    return np.float32(
        [
            lower,
            identity,
            upper,
            np.clip(identity - near, lower, upper),
            np.clip(identity + near, lower, upper),
            *np.linspace(lower, upper, 6)[1:-1],
        ]
    )


LEVELS = [spread_levels(alteration) for alteration in ALTERATIONS]


def uses_jpeg(alteration):
    return "jpeg" in alteration.name


def leaves_something_of(shape, alteration):
    """Whether the image is larger than the 8 px that "crop" removes."""
    return min(shape[:2]) > 8 or not (
        alteration.unit == "px" and "translation" in alteration.name
    )


@pytest.mark.parametrize(
    "shape",
    [
        (28, 28, 1),
        *(
            pytest.param(shape, marks=pytest.mark.slow)
            for shape in ((1, 1, 1), (1, 1, 3), (1, 7, 3), (5, 3, 1), (50, 50, 3))
        ),
    ],
    ids=lambda shape: "x".join(map(str, shape)),
)
def test_identity_leaves_the_image_bit_for_bit(shape):
    image = random_image(shape)
    image.flat[0], image.flat[-1] = 1, 0
    alterations = [a for a in ALTERATIONS if leaves_something_of(shape, a)]

    @jax.jit
    def alter(image, levels, key):
        return [a(image, level, key) for a, level in zip(alterations, levels)]

    altered = alter(image, [a.identity for a in alterations], KEY)
    for alteration, result in zip(alterations, altered):
        np.testing.assert_array_equal(result, image, err_msg=alteration.name)


@pytest.mark.slow
@pytest.mark.parametrize("fill", ["edge", "constant"])
@pytest.mark.parametrize(
    "make", [rotation, horizontal_translation, vertical_translation]
)
def test_identity_leaves_the_image_bit_for_bit_with_any_fill(make, fill):
    for shape in ((1, 1, 1), (1, 7, 3), SHAPE):
        image = random_image(shape)
        np.testing.assert_array_equal(apply(make(fill=fill), image, 0.0), image)


@pytest.mark.slow
@every_alteration
def test_shape_and_type_are_kept(alteration):
    image = jnp.asarray(random_image(SHAPE))
    for level in (alteration.lower, alteration.identity, alteration.upper):
        # As a Python number, and as the float64 of NumPy's linspace.
        for number in (level, np.float64(level), jnp.float32(level)):
            altered = jax.eval_shape(
                lambda image, number=number: alteration(image, number, KEY), image
            )
            assert altered.shape == image.shape
            assert altered.dtype == jnp.float32


@pytest.mark.slow
def test_traced_levels_give_what_eager_ones_give():
    image = random_image(SHAPE)
    traced_by_alteration = apply_all(image, LEVELS, KEY)
    for alteration, levels, traced in zip(ALTERATIONS, LEVELS, traced_by_alteration):
        # Eagerly, JPEG takes seconds to compile, so it is jitted here for one level.
        # Integers do not round, so nothing may differ.
        one_by_one = (
            functools.partial(apply, alteration)
            if uses_jpeg(alteration)
            else alteration
        )
        eager = np.stack([one_by_one(image, level, KEY) for level in levels])
        # XLA fuses operations that eager evaluation rounds one by one.
        tolerance = 0 if uses_jpeg(alteration) else 1e-6
        assert_near(traced, eager, atol=tolerance, err_msg=alteration.name)
        identity = levels.tolist().index(np.float32(alteration.identity))
        np.testing.assert_array_equal(eager[identity], image, err_msg=alteration.name)
        np.testing.assert_array_equal(traced[identity], image, err_msg=alteration.name)


@pytest.mark.slow
def test_images_in_a_batch_do_not_matter_to_each_other():
    images = np.stack([random_image(SHAPE, seed=seed) for seed in range(3)])
    keys = jax.random.split(KEY, 3)
    together = jax.jit(jax.vmap(apply_all, (0, None, 0)))(images, LEVELS, keys)
    for index, (image, key) in enumerate(zip(images, keys)):
        alone = apply_all(image, LEVELS, key)
        for alteration, one, many in zip(ALTERATIONS, alone, together):
            # XLA may reorder a sum for another batch size.
            assert_near(many[index], one, atol=1e-6, err_msg=alteration.name)


@settings(max_examples=25, deadline=None)
@given(
    image=st.sampled_from(["black", "white", "checks", "bytes", "tiny", "noise"]),
    place=st.floats(0, 1),
    seed=st.integers(0, 1000),
)
def test_output_is_within_the_unit_interval_and_never_nan(image, place, seed):
    image = {
        "black": np.zeros(SHAPE),
        "white": np.ones(SHAPE),
        "checks": np.indices(SHAPE).sum(0) % 2,
        "bytes": np.round(random_image(SHAPE, seed=seed) * 255) / 255,
        "tiny": random_image(SHAPE, seed=seed) * 1e-38,
        "noise": random_image(SHAPE, seed=seed),
    }[image].astype(np.float32)
    levels = [at.copy() for at in LEVELS]
    for alteration, at in zip(ALTERATIONS, levels):
        at[-1] = alteration.lower + place * (alteration.upper - alteration.lower)
    key = jax.random.fold_in(KEY, seed)
    for alteration, altered in zip(ALTERATIONS, apply_all(image, levels, key)):
        assert not np.isnan(altered).any(), alteration
        # Interpolation's weights sum to 1 up to rounding.
        assert altered.min() >= -1e-6, alteration
        assert altered.max() <= 1 + 1e-6, alteration


@pytest.mark.slow
def test_gradients_are_finite():
    # Except JPEG, whose rounding blocks gradients.
    alterations, levels = zip(
        *((a, at) for a, at in zip(ALTERATIONS, LEVELS) if not uses_jpeg(a))
    )

    @jax.jit
    def slopes(image, levels):
        def slope(alteration, at):
            def energy(image, level):
                return (alteration(image, level, KEY) ** 2).sum()

            return jax.vmap(jax.grad(energy, (0, 1)), (None, 0))(image, at)

        return [slope(alteration, at) for alteration, at in zip(alterations, levels)]

    for alteration, (of_image, of_level) in zip(
        alterations, slopes(random_image(SHAPE), levels)
    ):
        assert np.isfinite(of_image).all(), alteration
        assert np.isfinite(of_level).all(), alteration
        assert np.abs(of_image).max(axis=(1, 2, 3)).min() > 0, alteration


@pytest.mark.parametrize("name", ["gaussian blur", "zoom", "rotation", "translation"])
def test_rejects_arrays_other_than_one_image(name):
    alteration = next(a for a in presets.cnn_2020() if name in a.name)
    for shape in ((28, 28), (2, 28, 28, 1), (0, 28, 1), (28, 28, 0)):
        with pytest.raises(ValueError, match=r"\[H, W, C\]"):
            alteration(np.zeros(shape, np.float32), 1.5)


def test_jpeg_refuses_other_channels_than_1_or_3():
    for shape in ((8, 8), (8, 8, 2), (8, 8, 4)):
        with pytest.raises(ValueError):
            jpeg_compression()(np.zeros(shape, np.float32), 50.0)


@pytest.mark.parametrize(
    "lower, upper",
    [(1, 1), (2, 1), (np.nan, 1), (0, np.nan), (-np.inf, 1), (0, np.inf)],
)
def test_refuses_an_empty_or_infinite_range(lower, upper):
    with pytest.raises(ValueError, match="own: (lower|upper) must be"):
        Alteration("own", negate, lower, upper)


@pytest.mark.parametrize("identity", [-0.1, 1.1, np.nan, np.inf])
def test_refuses_an_identity_outside_the_range(identity):
    with pytest.raises(ValueError, match="identity"):
        Alteration("own", negate, 0, 1, identity=identity)


@pytest.mark.parametrize("resolution", [0, -1, np.nan])
def test_refuses_a_resolution_that_is_not_positive(resolution):
    with pytest.raises(ValueError, match="resolution"):
        Alteration("own", negate, 0, 1, resolution=resolution)


def test_identity_is_the_lower_end_unless_given():
    assert Alteration("own", negate, -3, 1).identity == -3
    assert Alteration("own", negate, -3, 1, identity=0).identity == 0


@pytest.mark.parametrize(
    "alteration", [a for a in ALTERATIONS if a.stochastic], ids=lambda a: a.name
)
def test_stochastic_alterations_need_a_key(alteration):
    with pytest.raises(ValueError, match="key"):
        alteration(random_image(SHAPE), alteration.upper)


def test_draws_depend_on_the_key_alone():
    image, other = random_image(SHAPE), jax.random.fold_in(KEY, 1)
    one, again, another = (apply_all(image, LEVELS, key) for key in (KEY, KEY, other))
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


@pytest.mark.parametrize("alteration", [gaussian_noise(), zoom()], ids=lambda a: a.name)
def test_prepared_then_at_level_is_the_call(alteration):
    image, level = random_image(SHAPE), np.float32(alteration.upper)
    prepared = alteration.prepared(image, KEY)
    np.testing.assert_array_equal(
        alteration.at_level(prepared, level), alteration(image, level, KEY)
    )


def test_any_array_can_be_altered():
    louder = Alteration("louder", lambda wave, level: wave * (1 + level), 0, 1)
    np.testing.assert_array_equal(louder(jnp.arange(4.0), 1.0), [0, 2, 4, 6])


def test_equal_parameters_give_equal_alterations():
    once, again = make_alterations(), make_alterations()
    assert once == again
    assert list(map(hash, once)) == list(map(hash, again))
    assert len(set(once)) == len(once)


@pytest.mark.parametrize(
    "make, other",
    [
        (lambda: gaussian_blur(0, 2), lambda: gaussian_blur(0, 3)),
        (lambda: gaussian_noise(), lambda: gaussian_noise(clip=False)),
        (lambda: rotation(), lambda: rotation(fill="crop")),
        (lambda: horizontal_translation(), lambda: vertical_translation()),
        (lambda: rescale(zoom(), 0, 1), lambda: rescale(zoom(), 0, 2)),
        (
            lambda: compose([gaussian_blur(), zoom()]),
            lambda: compose([zoom(), gaussian_blur()]),
        ),
    ],
)
def test_equal_alterations_share_a_trace_and_others_do_not(make, other):
    traces = []

    @functools.partial(jax.jit, static_argnums=0)
    def traced(alteration, level):
        traces.append(alteration)
        return level + alteration.upper

    traced(make(), 0.5)
    traced(make(), 0.7)
    assert len(traces) == 1
    traced(other(), 0.5)
    assert len(traces) == 2


@every_alteration
def test_canonical_refuses_levels_outside_the_range(alteration):
    step = 1e-3 * (alteration.upper - alteration.lower)
    inside = [alteration.lower, alteration.identity, alteration.upper]
    for outside in (alteration.lower - step, alteration.upper + step, np.nan, np.inf):
        with pytest.raises(ValueError, match=alteration.name.split(" + ")[0]):
            alteration.canonical(np.array([*inside, outside]))


@every_alteration
def test_canonical_levels_stand_for_themselves(alteration):
    levels = np.linspace(alteration.lower, alteration.upper, 997)
    levels = np.append(levels, alteration.identity)
    canonical = alteration.canonical(levels)
    assert canonical.dtype == np.float64
    assert canonical.shape == levels.shape
    assert_near(
        alteration.canonical(canonical),
        canonical,
        # float64's rounding on the way to another range and back.
        atol=1e-12 * (alteration.upper - alteration.lower),
    )
    assert canonical[-1] == alteration.identity
    assert canonical.min() >= alteration.lower
    assert canonical.max() <= alteration.upper
    if not uses_jpeg(alteration):
        assert_near(canonical, levels, atol=1e-9)


@every_alteration
def test_canonical_takes_rounding_at_the_identity_for_the_identity(alteration):
    lower, upper, identity = alteration.lower, alteration.upper, alteration.identity
    rounding = 1e-15 * (upper - lower)
    levels = np.clip([identity - rounding, identity + rounding], lower, upper)
    np.testing.assert_array_equal(alteration.canonical(levels), identity)


def test_canonical_rounds_to_the_resolution():
    coarse = Alteration("own", negate, 0, 1, resolution=0.25)
    canonical = coarse.canonical(np.array([0, 0.1, 0.2, 0.4, 0.6, 0.9, 1]))
    np.testing.assert_array_equal(canonical, [0, 0, 0.25, 0.5, 0.5, 1, 1])
    # The last multiple below the upper end may round beyond it.
    uneven = Alteration("own", negate, 0, 0.9, resolution=0.5)
    np.testing.assert_array_equal(uneven.canonical(np.array([0.2, 0.9])), [0, 0.9])


def jpeg_quality(level):
    """Returns `100 - level` rounded, halves upwards; None: not compressed."""
    if level == 0:
        return None
    whole, fraction = divmod(100 - float(level), 1)
    return max(int(whole) + (fraction >= 0.5), 1)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.floats(0, 100)
        | st.integers(0, 200).map(lambda halves: halves / 2)
        | st.floats(99, 100)
        | st.floats(0, 1),
        min_size=1,
        max_size=30,
    )
)
def test_canonical_jpeg_levels_never_have_the_same_quality(levels):
    canonical = jpeg_compression().canonical(np.array(levels))
    for level, stands in zip(levels, canonical):
        # 100 - level is computed in float64 on both sides: the same rounding. A level
        # that misses 0 by rounding alone means no compression.
        assert jpeg_quality(stands) == jpeg_quality(level if level > 1e-7 else 0.0)
    distinct = np.unique(canonical)
    assert len({jpeg_quality(level) for level in distinct}) == len(distinct)


def test_canonical_jpeg_levels_are_whole_but_for_quality_100():
    canonical = np.unique(jpeg_compression().canonical(np.linspace(0, 100, 4001)))
    np.testing.assert_array_equal(canonical, [0, 0.25, *range(1, 100)])


def test_canonical_jpeg_levels_have_the_effect_of_those_they_stand_for():
    image = random_image(SHAPE)
    alteration = jpeg_compression()
    # In float32, on the device: halves, the ends, and levels close to them.
    levels = np.array([0.01, 0.49, 0.5, 0.51, 1.5, 49.5, 98.5, 98.6, 99.5, 100])
    canonical = alteration.canonical(levels)
    for level, stands in zip(np.float32(levels), np.float32(canonical)):
        np.testing.assert_array_equal(
            apply(alteration, image, level), apply(alteration, image, stands)
        )


def test_alterations_are_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        zoom().upper = 3.0


def test_rounding_to_a_resolution_keeps_the_identity():
    steps = Alteration("steps", lambda x, level: x, -9, 9, identity=1, resolution=2)
    np.testing.assert_array_equal(steps.canonical([1.0, 1.9, 2.1, -9]), [1, 1, 3, -9])


@pytest.mark.parametrize(
    "lower, upper, message",
    [
        (-1e308, 1e308, "lie apart, at most 3.4e.38"),
        (-3e38, 3e38, "lie apart, at most 3.4e.38"),
        (0, 1e39, "at most 3.4e.38, the largest number of float32; got 0 and 1e.39"),
        (0, 1e-300, "must differ in float32.*got 0 and 1e-300"),
        (0, 1e-40, "must differ in float32"),
    ],
)
def test_a_range_that_float32_does_not_hold(lower, upper, message):
    made = (
        lambda: rotation(lower, upper),
        lambda: Alteration("own", negate, lower, upper),
        lambda: rescale(brightness(0, 0.5), lower, upper),
        lambda: compose([brightness(0, 0.5)], lower, upper),
    )
    for make in made:
        with pytest.raises(ValueError, match=message):
            make()
    with pytest.raises(ValueError, match="must differ in float32"):
        Alteration("own", negate, 1, 1 + 1e-9)
    assert rescale(brightness(0, 0.5), 0, 1e-37).upper == 1e-37
