"""Mistakes in a user's score: what is refused, warned of, or taken as meant."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

import jaxrob
from jaxrob import RobustnessWarning, alterations

IMAGES = np.random.default_rng(0).uniform(0, 1, (20, 6, 6, 3)).astype(np.float32)
MASKS = IMAGES[..., 0] > 0.5
DATA = jaxrob.Dataset(IMAGES, MASKS)
BLUR = alterations.gaussian_blur(0.0, 2.0)


def red(variables, images):
    return images[..., 0]


NETWORK = jaxrob.Classifier(red, outputs="any")


def share(outputs, masks):
    return ((outputs > 0.5) == masks).mean((1, 2))


def values(score, levels=(0.0, 1.0), classifier=NETWORK, data=DATA, change=BLUR):
    return jaxrob.evaluate(classifier, data, change, levels, score=score).values


@pytest.mark.parametrize(
    "where, returned, error, text",
    [
        (np, lambda found: found[:, None], ValueError, r"the shape \(20, 1\)"),
        (jnp, lambda found: found.mean(), ValueError, r"the shape \(\)"),
        (jnp, lambda found: (found,), TypeError, "tuple of length 1"),
        (np, lambda found: found * (1 + 0j), TypeError, "complex"),
        (np, lambda found: None, TypeError, "got None"),
        (jnp, lambda found: found + 0.1, ValueError, "lie in .*got 1.1 for image 0"),
        (np, lambda found: found * np.nan, ValueError, "got nan for image 0"),
    ],
)
def test_what_it_must_not_return(where, returned, error, text):
    def score(outputs, masks):
        return returned(share(where.asarray(outputs), where.asarray(masks)))

    with pytest.raises(error, match=text):
        values(score)


@pytest.mark.parametrize(
    "where, kind",
    [(jnp.asarray, bool), (jnp.asarray, jnp.bfloat16)]
    + [(np.asarray, np.float16), (np.asarray, list)],
)
def test_what_it_may_return(where, kind):
    """Numbers of any type, or a list of them; of unaltered images all are 1."""

    def score(outputs, masks):
        found = share(where(outputs), masks)
        return found.tolist() if kind is list else found.astype(kind)

    assert values(score, [0.0]) == [1]


@pytest.mark.parametrize("where", [jnp, np])
def test_one_that_depends_on_the_batch_is_warned_of(where):
    """Also after another score of this network has passed."""

    def of_the_batch(outputs, masks):
        found = share(where.asarray(outputs), where.asarray(masks))
        return where.full(len(found), found.mean())

    values(share, [1.0])
    with pytest.warns(RobustnessWarning, match="Or the score 'of_the_batch' does"):
        values(of_the_batch, [1.0])


def test_integers_beyond_jax_s_are_refused_on_the_devices():
    data = jaxrob.Dataset(IMAGES, np.full((20, 1), 2**31))
    assert values(lambda _, ids: np.asarray(ids)[:, 0] > 0, [0.0], data=data) == [1]
    with pytest.raises(ValueError, match="labels"):
        values(lambda _, ids: ids[:, 0] > 0, [0.0], data=data)


def test_it_may_write_into_what_it_gets():
    def writes(outputs, masks):
        assert isinstance(outputs, np.ndarray)
        outputs[outputs < 0.5] = 0
        masks &= outputs > 0
        return masks.mean((1, 2))

    before = MASKS.copy()
    np.testing.assert_allclose(values(writes, [0.0, 0.0]), MASKS.mean())
    np.testing.assert_array_equal(before, MASKS)
    np.testing.assert_array_equal(before, DATA.labels)


def test_a_function_may_return_one_picture_painted_anew():
    picture = Image.new("L", (1, 1))

    def paint(images):
        picture.putpixel((0, 0), int(images.max()))
        return [picture]

    network = jaxrob.Classifier.from_host(paint, outputs="any", batch_size=1)
    data = jaxrob.Dataset(BARS, np.zeros(6, int))
    (found,) = values(lambda some, _: [*map(np.max, some)], [0.0], network, data)
    np.testing.assert_allclose(found, 5 / 6)


def test_an_object_that_cannot_be_hashed():
    @dataclasses.dataclass
    class Share:
        at: float

        def __call__(self, outputs, masks):
            return ((np.asarray(outputs) > self.at) == masks).mean((1, 2))

    for at, value in ((0.5, 1.0), (2.0, (~MASKS).mean())):
        np.testing.assert_allclose(values(Share(at), [0.0]), value)


def test_an_error_names_what_it_got():
    named = jaxrob.Classifier(lambda _, x: {"out": x, "sum": x.sum(3)}, outputs="any")
    with pytest.raises(KeyError) as error:
        values(lambda outputs, _: outputs["logits"], classifier=named)
    (note,) = error.value.__notes__
    assert "NumPy" in note and "['out'] ndarray of float32" in note
    assert "['sum']" in note and "Labels: ndarray of bool and the shape" in note
    listed = jaxrob.Classifier.from_host(
        lambda x: [{"out": one} for one in x], outputs="any"
    )
    with pytest.raises(KeyError) as error:
        values(lambda outputs, _: [one["logits"] for one in outputs], [0.0], listed)
    assert "a list of 20, the first is ['out'] ndarray" in error.value.__notes__[0]


def detect(images):
    """The upright box around what is bright; an empty list if nothing is."""
    found = []
    for image in images[..., 0] > 0.5:
        rows, columns = (np.flatnonzero(image.any(axis)) for axis in (1, 0))
        box = [columns[0], rows[0], columns[-1] + 1, rows[-1] + 1] if len(rows) else []
        found.append([box] if box else [])
    return found


def as_close(outputs, labels):
    """Whether the boxes are as many, and within a pixel and a half."""
    assert all(isinstance(one, np.ndarray) and one.ndim == 2 for one in labels)
    return [
        float(len(a) == len(b) and bool(np.allclose(np.reshape(a, b.shape), b, 0, 1.5)))
        for a, b in zip(outputs, labels)
    ]


BARS = np.zeros((6, 24, 24, 1), np.float32)
BARS[1:, 8:16, 6:14] = 1
BOXES = [[], *[[[6.0, 8.0, 14.0, 16.0]]] * 5]
DETECTOR = jaxrob.Classifier.from_host(detect, outputs="any")


def test_boxes_and_masks_follow_the_pixels():
    """A detector and a network that make no mistake are right at the ends as well."""
    alteration = alterations.rotation(-90.0, 90.0, fill="constant")
    levels = [alteration.lower, alteration.identity, alteration.upper]
    boxes = jaxrob.Dataset(BARS, BOXES), jaxrob.Score(as_close, labels="boxes")
    masks = (BARS > 0.5)[..., 0]
    masks = jaxrob.Dataset(BARS, masks), jaxrob.Score(share, labels="masks")
    for network, (data, score) in ((DETECTOR, boxes), (NETWORK, masks)):
        curve = jaxrob.evaluate(network, data, alteration, levels, score=score)
        assert curve.values.min() > 0.95, curve.values


def test_masks_of_another_type_leave_those_beside_them():
    masks = np.uint8(9 * (BARS > 0.5))
    mixed, turn = [*masks[:5], np.float32(masks[5])], alterations.rotation(-90.0, 90.0)
    score = jaxrob.Score(
        lambda _, labels: [np.isin(one, [0, 9]).all() for one in labels], labels="masks"
    )
    data = jaxrob.Dataset(BARS, mixed)
    curve = jaxrob.evaluate(DETECTOR, data, turn, [17.0], score=score)
    np.testing.assert_array_equal(curve.scores, [[1, 1, 1, 1, 1, 0]])
    batches = jaxrob.Dataset.from_batches([(BARS, masks), (BARS, np.float32(masks))])
    with pytest.raises(ValueError, match="batch 1 .*float32 after .*uint8"):
        values(score, [17.0], DETECTOR, batches, turn)


@pytest.mark.parametrize(
    ("labels", "text"),
    [
        ([np.divide(one, 24) for one in BOXES], "x1, y1, x2, y2 in pixels.*width"),
        ([np.multiply(one, 1000 / 24) for one in BOXES], "labels.*boxes"),
        ([{"boxes": np.divide(one, 24)} for one in BOXES], "fractions of the picture"),
        ([[[0.1, 0.2, 0.9, 1.02]], np.divide(BOXES[1], 24), *BOXES[2:]], "fractions"),
        ([[[6, 8, 14, 8, 14, 16, 6, 16]]] * 6, "labels.*polygons"),
        (np.uint8(BARS[:, ::2, ::2, 0]), 'say labels="masks"'),
        (np.uint8(BARS[..., 0]), "labels look like masks.*size"),
        ([*np.uint8(5 * BARS[..., 0])], 'size .24, 24.*say labels="masks"'),
        ([{"bbox": one} for one in BOXES], r"labels\[0\].*\"boxes\".*the keys 'bbox'$"),
        (BOXES * 11 + [np.divide(one, 24) for one in BOXES], "fractions"),
        ([*BOXES[:-1], [[14, 8, 6, 16]]], r"labels\[5\].*x1 <= x2"),
        ([*BOXES[:-1], [[6, 8, 14]]], r"labels\[5\].*4 columns.*\(1, 3\)"),
    ],
)
def test_labels_that_are_no_boxes_in_pixels(labels, text):
    score, starts = jaxrob.Score(as_close, labels="boxes"), range(0, len(labels), 6)
    whole = jaxrob.Dataset(np.concatenate([BARS for _ in starts]), labels)
    batches = [(BARS, labels[at : at + 6]) for at in starts]
    for data in (whole, jaxrob.Dataset.from_batches(batches)):
        with pytest.raises(ValueError, match=text):
            values(score, [0.0], DETECTOR, data)


def test_masks_of_volumes_do_not_move():
    still = jaxrob.Alteration("own", lambda image, level: image, 0, 1)
    moving = dataclasses.replace(still, geometry=alterations.zoom().geometry)
    volumes = jaxrob.Dataset(IMAGES[..., None], MASKS[..., None] & [True] * 3)
    score = jaxrob.Score(lambda found, _: found.mean((1, 2, 3)), labels="masks")
    with pytest.raises(ValueError, match="pictures .*shape .6, 6, 3, 1"):
        values(score, [1.0], data=volumes, change=moving)
    assert len(values(score, data=volumes, change=still)) == 2


def test_a_box_in_the_first_pixel_and_images_without_boxes():
    score = jaxrob.Score(lambda outputs, labels: [1.0] * len(labels), labels="boxes")
    first, padding = ([[[0, 0, end, end]], *BOXES[1:]] for end in (1, 0))
    for boxes in (first, padding, [[]] * 6):
        assert values(score, [0.0], DETECTOR, jaxrob.Dataset(BARS, boxes)) == [1]


@pytest.mark.parametrize(
    "name, part",
    [("masks", [BARS[1]]), ("rle", [{"counts": "0"}]), ("corners", [[1, 2], [3]])]
    + [("size", [24, 24]), ("hw", [24]), ("cx", [6.5]), ("polys", ["1 2 3 4"])]
    + [("angle", [30]), ("box_width", [4]), ("x", [3]), ("end", [2]), ("xmin", [3])],
)
def test_what_cannot_move_with_boxes_is_refused(name, part):
    turn = alterations.rotation(-90.0, 90.0, fill="constant")
    labels = [{"boxes": one, "classes": [7] * len(one), "id": 3} for one in BOXES]
    alike = jaxrob.Score(
        lambda _, labels: [len(one["classes"]) == len(one["boxes"]) for one in labels],
        labels="boxes",
    )
    assert values(alike, [45.0], DETECTOR, jaxrob.Dataset(BARS, labels), turn) == [1]
    labels[-1][name] = part
    with pytest.raises(ValueError, match=name):
        values(alike, [0.0], DETECTOR, jaxrob.Dataset(BARS, labels), turn)
