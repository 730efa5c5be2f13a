"""Labels that follow the pixels: the truth is the altered picture of a drawn shape."""

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
    Move,
    brightness,
    compose,
    corruptions,
    elastic_deformation,
    followed_by,
    gaussian_noise,
    horizontal_translation,
    move_boxes,
    move_mask,
    rescale,
    rotation,
    unmoved_reason,
    vertical_translation,
    zoom,
)
from jaxrob.alterations._moves import fingerprinted_alteration
from jaxrob.alterations._resample import FILLS

SIZE = 40, 56
# The others are slow: programs take a second each to compile.
QUICK_MASKS, QUICK_BOXES = ["down, constant"], ["turn, edge"]
# Drawn boxes are altered at this many times the size, to see them to a part of a pixel.
FINE = 4


@functools.cache
def make_moving(factor=1):
    """Returns alterations whose labels move, for pictures `factor` times as large."""
    pixels = 6.5 * factor
    found = {"zoom": zoom()}
    found["right, edge"] = horizontal_translation(-pixels, pixels, "edge")
    for fill in ("crop", "constant"):
        found[f"down, {fill}"] = vertical_translation(-0.4, 0.3, fill, "relative")
    for fill in FILLS:
        found[f"turn, {fill}"] = rotation(-180, 180, fill)
    found["both"] = compose(
        [horizontal_translation(0, pixels, "constant"), rotation(0, 60, "edge")]
    )
    found["levels"] = rescale(vertical_translation(-pixels, pixels), 0, 1)
    turn = rotation(-45, 30, "crop")
    found["then"] = dataclasses.replace(
        followed_by(turn, as_it_is), geometry=turn.geometry
    )
    return found


def as_it_is(image):
    return image


def every_move(quick, but=()):
    return pytest.mark.parametrize(
        "name",
        [
            pytest.param(name, marks=[] if name in quick else pytest.mark.slow)
            for name in make_moving()
            if name not in but
        ],
    )


move = jax.jit(move_mask, static_argnums=0)


def levels_of(alteration):
    lower, upper, identity = alteration.lower, alteration.upper, alteration.identity
    inside = np.linspace(lower, upper, 8)[1:-1]
    return np.float32([lower, *inside, identity, upper])


def rectangles(size, seed):
    height, width = size
    rng = np.random.default_rng(seed)
    x1, y1 = rng.integers(0, width - 3, 8), rng.integers(0, height - 3, 8)
    x2 = np.minimum(x1 + rng.integers(3, width // 2, 8), width)
    y2 = np.minimum(y1 + rng.integers(3, height // 2, 8), height)
    x1[0], y1[1], x2[2], y2[3] = 0, 0, width, height
    x1[4] = y1[4] = 0
    x2[5], y2[5] = width, height
    return np.stack([x1, y1, x2, y2], axis=1)


def drawn(boxes, size):
    y, x = np.mgrid[: size[0], : size[1]] + 0.5
    x1, y1, x2, y2 = np.asarray(boxes, float).T[:, :, None, None]
    return (x > x1) & (x < x2) & (y > y1) & (y < y2)


def at_all(function, images, levels):
    """Applies it to each image at each level; the results are `[L, M, ...]`."""
    at_levels = jax.vmap(jax.vmap(function, (0, None)), (None, 0))
    return jax.tree.map(np.asarray, jax.jit(at_levels)(images, levels))


@every_move(
    QUICK_MASKS, but=("right, edge", "down, crop", "turn, constant", "levels", "then")
)
def test_masks_are_those_of_the_altered_picture(name):
    alteration, shapes = make_moving()[name], drawn(rectangles(SIZE, 1), SIZE)
    noise = np.random.default_rng(0).random(shapes.shape, np.float32)

    def altered(both, level):
        shape, noise = both
        # Two channels of one picture.
        picture = jnp.stack([shape.astype(jnp.float32), noise], axis=-1)
        masks = [move_mask(alteration, mask, level) for mask in both]
        return alteration(picture, level), masks

    levels = levels_of(alteration)
    pictures, (found, moved) = at_all(altered, (shapes, noise), levels)
    shown, expected = np.moveaxis(pictures, -1, 0)
    # Positions in float32 are a few 1e-6 apart, and neighbours differ by up to 1.
    np.testing.assert_allclose(moved, expected, rtol=0, atol=5e-5)
    identity = list(levels).index(np.float32(alteration.identity))
    np.testing.assert_array_equal(moved[identity], noise)
    # They may differ where interpolation mixes both sides of the edge, nowhere else.
    assert found.dtype == bool
    mixed = (shown > 1e-4) & (shown < 1 - 1e-4)
    wrong = found != (shown >= 0.5)
    assert not (wrong & ~mixed).any()
    assert wrong.mean() < 0.005 < found.mean()


def own_box(picture):
    """Returns x1, y1, x2, y2 of what is bright; None of nothing."""
    y, x = np.nonzero(picture >= 0.5)
    if not len(x):
        return None
    return np.array([x.min(), y.min(), x.max() + 1, y.max() + 1]) / FINE


@every_move(QUICK_BOXES)
def test_boxes_are_those_of_the_altered_picture(name):
    alteration, fine = make_moving()[name], make_moving(FINE)[name]
    boxes = rectangles(SIZE, 2)
    shapes = drawn(boxes * FINE, np.multiply(SIZE, FINE))
    levels = levels_of(fine)

    def altered(shape, level):
        return fine(shape[..., None].astype(jnp.float32), level)[..., 0] >= 0.5

    pictures = at_all(altered, shapes, levels)
    # The same levels of the small picture.
    of_small = levels / (FINE if alteration.upper != fine.upper else 1)
    for level, shown in zip(of_small, pictures):
        level = float(np.clip(level, alteration.lower, alteration.upper))
        moved, kept = move_boxes(alteration, boxes, level, SIZE)
        found = dict(zip(kept.tolist(), moved))
        for index, picture in enumerate(shown):
            box, own, message = found.get(index), own_box(picture), f"{level} {index}"
            if box is None or own is None:
                # A sliver, at most.
                for one in (box, own):
                    assert one is None or (one[2:] - one[:2]).min() <= 0.5, message
            else:
                np.testing.assert_allclose(box, own, rtol=0, atol=1, err_msg=message)


def test_integer_masks_keep_their_values_and_channels():
    mask = np.array([[[7, -1], [2**31 - 1, 0]], [[3, 4], [5, 6]]])
    found = move(horizontal_translation(-1, 1, "constant"), mask, 1.0)
    np.testing.assert_array_equal(found, [[[0, 0], [7, -1]], [[0, 0], [3, 4]]])
    assert found.dtype == jnp.int32
    found = move(horizontal_translation(-1, 1, "edge"), np.uint8(mask)[..., 0], 1.0)
    np.testing.assert_array_equal(found, [[7, 7], [3, 3]])
    assert found.dtype == np.uint8


@pytest.mark.parametrize("name", ["turn, crop", "zoom"])
def test_the_identity_is_bit_for_bit(name):
    alteration = make_moving()[name]
    mask = np.full((9, 20), 0.1, np.float32)
    mask[3, 4], mask[5, 6], mask[7, 8] = np.nan, np.inf, -0.0
    found = move(alteration, mask, alteration.identity)
    assert np.asarray(found).tobytes() == mask.tobytes()
    boxes = np.array([[-3, 2.5, 99, 4, 0.7]])
    moved, kept = move_boxes(alteration, boxes, alteration.identity, (9, 20))
    # In the picture, as beside the identity.
    np.testing.assert_array_equal(moved, [[0, 2.5, 20, 4, 0.7]])
    assert kept.tolist() == [0]


def test_colours_and_noise_leave_labels():
    mask, boxes = np.arange(12).reshape(3, 4), np.array([[1, 0, 4, 3]])
    for alteration in (brightness(), gaussian_noise(), corruptions.fog(64)):
        assert unmoved_reason(alteration) is None
        found = move_mask(alteration, mask, alteration.upper)
        np.testing.assert_array_equal(found, mask)
        moved, kept = move_boxes(alteration, boxes, alteration.upper, (3, 4))
        np.testing.assert_array_equal(moved, boxes)
        assert kept.tolist() == [0]


@pytest.mark.parametrize(
    "alteration",
    [
        elastic_deformation(),
        corruptions.elastic_transform(64),
        compose([zoom(), elastic_deformation()]),
        rescale(elastic_deformation(), 0, 1),
        followed_by(elastic_deformation(), as_it_is),
        followed_by(brightness(), lambda i: i[::-1] if len(i) == 64 else i, "elastic"),
    ],
    ids=lambda alteration: alteration.name,
)
def test_unknown_movements_are_refused(alteration):
    reason = unmoved_reason(alteration)
    assert reason is not None
    assert reason.startswith("elastic") and "masks and boxes cannot follow" in reason
    with pytest.raises(ValueError, match="alteration must .*elastic"):
        move_mask(alteration, np.zeros((4, 4)), 1.0)
    with pytest.raises(ValueError, match="alteration must .*elastic"):
        move_boxes(alteration, np.zeros((0, 4)), 1.0, (4, 4))


def mirror(image, level):
    return jnp.where(level > 0, image[:, ::-1], image)


def mirrored(level, size):
    across = [1 - 2 * (level > 0), 0, size[1] * (level > 0)]
    xp = np if isinstance(level, float) else jnp
    return (Move(xp.array([across, [0, 1, 0]], xp.float32)),)


def test_a_users_own_geometry():
    own = Alteration("mirror", mirror, 0, 1, geometry=mirrored)
    assert own.moves_pixels and not Alteration("mirror", mirror, 0, 1).moves_pixels
    mask = np.arange(12).reshape(3, 4)
    np.testing.assert_array_equal(move(own, mask, 1.0), mask[:, ::-1])
    moved, _ = move_boxes(own, np.array([[0, 1, 3, 2]]), 1.0, (3, 4))
    np.testing.assert_allclose(moved, [[1, 1, 4, 2]])


FILLED = np.zeros((2, 3))


def moved_by(matrix):
    """An alteration of which only the geometry counts, in an array filled again."""

    def geometry(level, size):
        FILLED[:] = matrix
        return (Move(FILLED, "constant"),)

    return Alteration("own", mirror, 0, 1, geometry=geometry)


def test_a_composition_moves_labels_once():
    """There and back: a pixel that is nearest twice, or a hull of a hull, is off."""
    mask = np.arange(26 * 26).reshape(26, 26)
    scales = [moved_by(np.eye(2, 3) * scale) for scale in (13, 1 / 13)]
    np.testing.assert_array_equal(move(compose(scales), mask, 1.0), mask)
    turn = np.array([[1, -1], [1, 1]]) / np.sqrt(2)
    turns = [np.c_[one, 13 - one @ (13, 13)] for one in (turn, turn.T)]
    boxes = np.array([[9.0, 7, 17, 15], [-1, 11, 7, 12]])
    moved, _ = move_boxes(compose([*map(moved_by, turns)]), boxes, 1.0, (26, 26))
    np.testing.assert_allclose(moved, [[9, 7, 17, 15], [0, 11, 7, 12]], atol=1e-9)


def shifted(level, size, table, xp):
    across = xp.asarray(table)[xp.int32(level * 1000)]
    return (Move(xp.array([[1, 0, across], [0, 1, 0]])),)


def test_a_geometry_distinguishes_alterations():
    plain, table = Alteration("mirror", mirror, 0, 1), np.zeros(1001)
    tables = [functools.partial(shifted, table=table, xp=xp) for xp in (jnp, np)]
    own = [dataclasses.replace(plain, geometry=one) for one in (mirrored, *tables)]
    assert len({plain, *own}) == 4
    # Journals, too; but what had no geometry has the fingerprint that it had.
    library = zoom().geometry, rotation(-9, 9).geometry
    own += [dataclasses.replace(plain, geometry=one) for one in library]
    for shape in ((6, 6, 1), (6, 6)):  # Those of the library, too, beside a function.
        table[505] = 0
        found = {fingerprinted_alteration(a, shape).description for a in (plain, *own)}
        table[505] = 2  # Of a level between those that are compared with a trace
        found |= {fingerprinted_alteration(a, shape).description for a in own}
        assert len(found) == 8
    turns = [dataclasses.replace(rotation(-9, 9), geometry=one) for one in library]
    assert turns[0].description != turns[1].description == rotation(-9, 9).description
    assert "geometry" not in plain.description + rotation(-5, 5).description
    assert "geometry" not in compose([zoom(), brightness(0, 0.5)]).description


@pytest.mark.parametrize(
    ("result", "error", "message"),
    [
        (np.eye(2, 3), TypeError, "geometry"),
        ((np.eye(2, 3),), TypeError, "geometry"),
        ((Move(np.eye(3)),), ValueError, "matrix"),
        ((Move(np.eye(2, 3), "crop"),), ValueError, "geometry: fill"),
        ((Move(np.full((2, 3), np.nan)),), ValueError, "finite; at level 1"),
    ],
)
def test_a_wrong_geometry(result, error, message):
    own = Alteration("mirror", mirror, 0, 1, geometry=lambda level, size: result)
    with pytest.raises(error, match=message):
        move_mask(own, np.zeros((4, 4)), 1.0)
    with pytest.raises(error, match=message):
        move_boxes(own, np.zeros((1, 4)), 1.0, (4, 4))


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(sorted(make_moving())),
    st.floats(0, 1),
    st.lists(st.tuples(*[st.floats(-50, 90)] * 4, st.floats(-1e9, 1e9)), max_size=5),
)
def test_moved_boxes_lie_in_the_picture(name, share, corners):
    alteration = make_moving()[name]
    level = alteration.lower + share * (alteration.upper - alteration.lower)
    level = float(np.float32(min(level, alteration.upper)))
    boxes = np.array(corners, np.float64).reshape(-1, 5)
    boxes[:, :4] = np.sort(boxes[:, :4].reshape(-1, 2, 2), axis=1).reshape(-1, 4)
    moved, kept = move_boxes(alteration, boxes, level, SIZE)
    assert moved.shape == (len(kept), 5) and (np.diff(kept) > 0).all()
    np.testing.assert_array_equal(moved[:, 4], boxes[kept, 4])
    if level != alteration.identity:
        assert (moved[:, :2] < moved[:, 2:4]).all() and (moved[:, :4] >= 0).all()
        assert (moved[:, 2:4] <= SIZE[::-1]).all()


A_MASK, A_BOX = {"mask": np.zeros((4, 4))}, {"boxes": [[0, 0, 2, 2]], "size": (4, 4)}


@pytest.mark.parametrize(
    ("move", "given", "wrong", "error", "name"),
    [
        (move_mask, A_MASK, {"alteration": "zoom"}, TypeError, "alteration"),
        (move_mask, A_MASK, {"mask": [[1]]}, TypeError, "mask"),
        (move_mask, A_MASK, {"mask": np.zeros((2, 2), complex)}, TypeError, "mask"),
        (move_mask, A_MASK, {"mask": np.zeros(4)}, ValueError, "mask"),
        (move_mask, A_MASK, {"mask": np.full((2, 2), 2**40)}, ValueError, "mask"),
        (move_mask, A_MASK, {"level": 3.0}, ValueError, "zoom: level"),
        (move_boxes, A_BOX, {"boxes": [[np.nan] * 4]}, ValueError, "boxes"),
        (move_boxes, A_BOX, {"level": 0.5}, ValueError, "zoom: level"),
        (move_boxes, A_BOX, {"size": (4, 4, 3)}, ValueError, "size"),
        (move_boxes, A_BOX, {"size": 4}, TypeError, "size"),
    ],
)
def test_wrong_arguments(move, given, wrong, error, name):
    with pytest.raises(error, match=f"^{name} must"):
        move(**{"alteration": zoom(), "level": 1.5, **given, **wrong})


def test_a_level_in_a_trace_is_refused_for_boxes():
    def moved(level):
        return move_boxes(zoom(), np.zeros((1, 4)), level, (4, 4))

    with pytest.raises(TypeError, match="level"):
        jax.eval_shape(moved, 1.5)
