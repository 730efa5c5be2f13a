import base64
import dataclasses
import functools
import html
import json
import pickle
import re
import tracemalloc
import zlib

import jax
import numpy as np
import pytest

import jaxrob
from jaxrob import Assessment, Curve, ReducedCurve, alterations, reporting, strategies
from jaxrob._assessment.diagnostics import Diagnostics
from jaxrob._codec import digest_of
from jaxrob.alterations._alteration import doubts, settings, words
from jaxrob.alterations.corruptions import contrast

from .documents import assert_refused, changed, drop, packed, put
from .test_few import assess


def assessment(levels=5, images=30, classes=3, alpha=None, **changes):
    rng = np.random.default_rng(0)
    labels = rng.integers(0, classes, images).astype(np.int32)
    right = rng.random((levels, images)) < np.linspace(0.95, 0.4, levels)[:, None]
    other = rng.integers(0, classes, (levels, images))
    curve = Curve(
        np.linspace(0.1, 0.7, levels),
        np.where(right, labels, other).astype(np.int16),
        rng.random((levels, images), np.float32),
        rng.random((levels, images), np.float32),
        labels,
        classes,
        alpha,
    )
    settings = {
        "alteration": "blur ü",
        "unit": "px",
        "lower": 0.1,
        "upper": 0.7,
        "identity": 0.1,
        "threshold": 0.75,
        "measure": "accuracy",
        "rule": "right",
        "strategy": "Uniform(n=5)",
        "error_bound": None,
        "diagnostics": diagnostics(levels, 1.5),
        "warnings": (),
        "scores": None,
        "curve": curve,
        "provenance": {
            "key": [0, 1],
            "devices": {"count": 1},
            "none": None,
            "alteration": "blur ü",
            "dataset": {"name": "some", "fingerprint": "0a"},
        },
        "seconds": 1 / 3,
    }
    return Assessment(**(settings | changes))


def diagnostics(levels, jitter):
    """Of evenly spaced levels, at both ends of the range too."""
    gaps = levels - 1
    half_met = 0.5 / (gaps - 0.5)
    return Diagnostics(levels, 1, 1 / gaps, jitter, 0.0, 0.2, 0.01, 0.1, half_met)


@functools.cache
def text_with_unknown():
    return assessment(alpha=0.6).to_json()


def same_settings(one, other):
    for field in dataclasses.fields(Assessment):
        if field.name != "curve":
            assert getattr(one, field.name) == getattr(other, field.name)


def strict(text):
    return json.loads(text, parse_constant=pytest.fail)


@pytest.mark.parametrize(("alpha", "measure"), [(None, "f1"), (0.6, "accuracy")])
def test_back_as_it_was(alpha, measure):
    before = assessment(alpha=alpha, measure=measure)
    after = Assessment.from_json(before.to_json())
    same_settings(before, after)
    for field in dataclasses.fields(Curve):
        one, other = (getattr(a.curve, field.name) for a in (before, after))
        if isinstance(one, np.ndarray):
            assert one.dtype == other.dtype and one.shape == other.shape
            assert one.tobytes() == other.tobytes()
        else:
            assert one == other
    assert after.robustness == before.robustness
    np.testing.assert_array_equal(after.first_failing_level, before.first_failing_level)
    assert after.to_json() == before.to_json()


def test_what_is_not_known_is_null():
    before = assessment(levels=2, diagnostics=diagnostics(2, np.nan))
    text = before.to_json()
    after = Assessment.from_json(text)
    assert strict(text)["diagnostics"]["jitter"] is None
    assert np.isnan(after.diagnostics.jitter)
    assert after.confidence_interval == before.confidence_interval


def test_answers_without_probabilities_and_of_many_classes():
    before = assessment()
    curve = dataclasses.replace(
        before.curve,
        predicted=before.curve.predicted.astype(np.int32),
        confidence=None,
        uncertainty=None,
    )
    after = Assessment.from_json(dataclasses.replace(before, curve=curve).to_json())
    assert after.curve.confidence is None and after.curve.uncertainty is None
    np.testing.assert_array_equal(after.curve.predicted, curve.predicted, strict=True)


def test_without_answers_the_counts_remain():
    before = assessment(alpha=0.6)
    text = before.to_json(answers=False)
    after = Assessment.from_json(text)
    assert isinstance(after.curve, ReducedCurve)
    assert "answers" not in strict(text)
    same_settings(before, after)
    np.testing.assert_array_equal(after.curve.confusion, before.curve.confusion)
    np.testing.assert_array_equal(after.values, before.values)
    assert after.robustness == before.robustness
    with pytest.raises(ValueError, match="reduced"):
        after.first_failing_level  # noqa: B018
    assert after.to_json() == after.to_json(answers=False)


def test_classes_without_inputs_are_strict_json():
    before = assessment()
    absent = dataclasses.replace(before.curve, num_classes=5)
    before = dataclasses.replace(before, curve=absent)
    assert strict(before.to_json())["robustness_per_class"][3:] == [None, None]
    after = Assessment.from_json(before.to_json())
    np.testing.assert_array_equal(
        after.robustness_per_class, before.robustness_per_class
    )


def test_a_reader_without_jaxrob_finds_the_numbers():
    before = assessment()
    document = strict(before.to_json())
    assert document["alteration"] == "blur ü"
    assert document["robustness"] == before.robustness
    assert document["levels"] == before.levels.tolist()
    assert document["values"] == before.values.tolist()
    assert document["confusion"] == before.curve.confusion.tolist()
    packed = document["answers"]["predicted"]
    data = zlib.decompress(base64.b64decode(packed["base64_zlib"]))
    predicted = np.frombuffer(data, "<i2").reshape(5, 30)
    np.testing.assert_array_equal(predicted, before.curve.predicted)
    many = assessment(images=1000, classes=10).to_json()
    # Ten bytes an answer, most of them random here, and a third more in base64.
    assert len(many) < 5 * 1000 * 15
    assert len(Assessment.from_json(many).to_json(answers=False)) < 10_000


def test_what_is_written_otherwise_is_the_same():
    text = assessment(threshold=1.0, seconds=2.0).to_json()
    document = json.loads(text) | {"threshold": 1, "seconds": 2}
    written = json.dumps(document, indent=2, ensure_ascii=False)
    assert Assessment.from_json(written).to_json() == text
    in_order = Assessment.from_json(json.dumps(document, sort_keys=True))
    assert in_order.robustness == Assessment.from_json(text).robustness
    # Of an alteration that nothing tells from others.
    change = put("provenance", "alteration", None)
    after = Assessment.from_json(changed(text, change, digest_too=True))
    assert after.provenance["alteration"] is None


DATA = "base64_zlib"
FACTS = "provenance"
# What was taken for an assessment, or raised another error; and what is named.
IMPLAUSIBLE = {
    "format": (put("format", "jaxrob assessment 0"), "format"),
    "range turned around": (put("lower", 0.9), "lower must be below upper"),
    "range infinite": (put("lower", -np.inf), "no finite number"),
    "range of one number": (put("lower", 0.7 - 1e-12), "lower"),
    "range beyond float32": (put("upper", 1e308), "upper"),
    "lower huge": (put("lower", -(10**400)), "lower must be finite"),
    "identity outside": (put("identity", 0.8), "identity"),
    "level NaN": (put("levels", 1, float("nan")), "no finite number|NaN"),
    "levels descending": (put("levels", lambda levels: levels[::-1]), "ascend"),
    "levels more": (put("levels", lambda levels: [*levels, 0.9]), "L ="),
    "measure unknown": (put("measure", "beauty"), "measure"),
    "rule of scores": (put("rule", "trapezoid"), "rule"),
    "no alteration's parameters": (drop(FACTS, "alteration"), "alteration"),
    "no data set": (drop(FACTS, "dataset"), "dataset"),
    "no fingerprint": (drop(FACTS, "dataset", "fingerprint"), "fingerprint"),
    "network's name": (put(FACTS, "network", {"name": 3}), "network.name"),
    "class a number": (put(FACTS, "network", {"class_names": [1]}), r"names\[0\]"),
    "settings a list": (put(FACTS, "settings", []), "settings must be an object"),
    "words": (put(FACTS, "words", {"level": 3}), "words"),
    "plan": (put(FACTS, "plan", "x" * 64), "plan must be 64"),
    "interval": (put("confidence_interval", [0.5, 7]), "confidence_interval"),
    "confidence": (put("confidence_level", 1.0), "confidence_level"),
    "huge counts": (
        put("confusion", [[[2**62, 0, 0, 0]] + [[0] * 4] * 2] * 5),
        "confusion",
    ),
    "no answers": (drop("answers", "predicted"), "predicted"),
    "other images": (put("answers", "labels", packed(np.zeros(29, "i4"))), "labels"),
    "label above": (put("answers", "labels", packed(np.full(30, 3, "i4"))), "labels"),
    "class above": (
        put("answers", "predicted", packed(np.full((5, 30), 3, np.int16))),
        "predicted",
    ),
    "other type": (put("answers", "predicted", "dtype", "float32"), "predicted"),
    "no base64": (put("answers", "confidence", DATA, "?!?!"), "confidence"),
    "no zlib": (put("answers", "confidence", DATA, "AAAA"), "confidence"),
    "data cut": (put("answers", "labels", DATA, lambda text: text[:-8]), "labels"),
}


@pytest.mark.parametrize("name", IMPLAUSIBLE)
def test_what_cannot_be_is_named(name):
    document = json.loads(text_with_unknown())
    change, what = IMPLAUSIBLE[name]
    change(document)
    with pytest.raises(ValueError, match=what):
        # As JSON may write what float64 does not hold.
        Assessment.from_json(json.dumps(document).replace("-Infinity", "-1e999"))


def test_no_part_may_be_missing():
    # Without answers or alpha it may be of another kind.
    for part in json.loads(text_with_unknown()).keys() - {"answers", "alpha"}:
        assert_refused(text_with_unknown(), drop(part), part)
    assert_refused(text_with_unknown(), drop("alpha"))


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", "[" * 100_000, "9" * 10_000, pickle.dumps({"format": "x"})]
)
def test_what_is_no_assessment(text):
    with pytest.raises(ValueError, match="not JSON|must be|nested too deep"):
        Assessment.from_json(text)


@pytest.mark.slow
def test_a_small_text_cannot_fill_the_memory():
    document = json.loads(text_with_unknown())
    bomb = zlib.compress(bytes(40 * 2**20), 9)
    document["answers"]["confidence"][DATA] = base64.b64encode(bomb).decode()
    text = json.dumps(document)
    tracemalloc.start()
    with pytest.raises(ValueError, match="confidence must hold 600 bytes"):
        Assessment.from_json(text)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10 * 2**20


EVEN = strategies.Uniform(9)
# By name: what is asked for.
ASKED = {
    "bands": {"half_width": 0.1},
    "even, curtailed": {"curtail": True, "strategy": EVEN},
    "required": {"required": 0.3},
    "unknown": {"half_width": 0.1, "alpha": 0.2, "measure": "effectiveness"},
}


@functools.cache
def written(name):
    """The document of what was asked for."""
    return assess(**ASKED[name]).to_json()


@pytest.mark.parametrize("name", ASKED)
def test_few_images_come_back_as_they_were(name):
    assert Assessment.from_json(written(name)).to_json() == written(name)


def test_what_was_changed_or_has_no_digest():
    for change, message in (
        (put("unit", "px"), "not what was written"),
        (put("provenance", "dataset", "name", "x"), "not what was written"),
        (put("warnings", ["beware"]), "not what was written"),
        (put("digest", "0" * 16), "not what was written"),
        (put("digest", []), "not what was written"),
        (drop("digest"), "lacks 'digest'"),
    ):
        assert_refused(written("bands"), change, message)


def test_the_digest_is_not_of_the_way_values_are_written():
    one = digest_of({"a": [1.0, "1.0", {"seconds": 3}], "b": None})
    assert one == digest_of({"b": None, "a": (1, "1.0", {"seconds": 4})})
    for other in ([1, "1"], [np.nextafter(1, 2), "1.0"], [True, "1.0"], [1, "1.0", 3]):
        assert digest_of({"a": other}) != digest_of({"a": [1, "1.0"]})


CROP = alterations.rotation(-5, 5, fill="crop")
EDGE = alterations.horizontal_translation(-1, 1)
BOTH = {"rotation: fill": "crop", "horizontal translation: fill": "edge"}
SHAPE = (6, 6, 1)


def same(image):
    return image


def fade(image, level):
    return (1 - level) * image


FADING = jaxrob.Alteration(
    "fading",
    fade,
    0.0,
    1.0,
    unit="share",
    about=alterations.About(
        "of the light that is lost",
        {"hue": "grey", "shape": lambda shape: shape[0]},
        {"hue": "what the light turns into"},
    ),
)
OWN = jaxrob.Alteration("own", fade, 0.0, 1.0, unit="share")


def test_the_size_is_that_of_the_images_if_none_is_said():
    for side, size in ((28, 32), (200, 224), (300, 299)):
        assert settings(contrast(), (side, 2 * side, 3)) == {"size": size}
    (doubt,) = doubts(contrast(224), SHAPE)
    assert "6 x 6 px" in doubt and not doubts(contrast(224), (200, 200, 3))


@pytest.mark.parametrize(
    "alteration, expected",
    [
        (CROP, {"fill": "crop"}),
        (alterations.gaussian_noise(0, 0.1, clip=False), {"clip": False}),
        (alterations.zoom(), {}),
        (alterations.rescale(alterations.rescale(EDGE, 0, 1), 0, 9), {"fill": "edge"}),
        (alterations.compose([CROP, EDGE]), BOTH),
        (
            alterations.followed_by(contrast(224), same),
            {"size": 224, "followed by": "same"},
        ),
        (OWN, {}),
    ],
)
def test_settings_by_name(alteration, expected):
    assert settings(alteration, SHAPE) == expected


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::jaxrob.RobustnessWarning")
def test_an_assessment_has_settings_words_and_names():
    def left_pixels(variables, images):
        return images[:, 0, :2, 0]

    classifier = jaxrob.Classifier(left_pixels, {}, name="net", class_names=("a", "b"))
    dataset = jaxrob.Dataset(np.full((4, *SHAPE), 0.5, np.float32), [0, 0, 0, 0])
    both = alterations.compose([FADING, OWN])
    two = jaxrob.strategies.Uniform(2)
    found = jaxrob.assess(
        classifier, dataset, both, 0.0, key=jax.random.key(0), strategy=two
    )
    document = json.loads(found.to_json())["provenance"]
    assert document["settings"] == {"fading: hue": "grey", "fading: shape": 6}
    assert document["words"] == words(both)
    assert document["network"] == {"name": "net", "class_names": ["a", "b"]}
    assert Assessment.from_json(found.to_json()).provenance == document


MAGNIFIED = "above 1 the image is magnified"


@pytest.mark.parametrize(
    "alteration, expected",
    [
        (alterations.zoom(), f"factor ({MAGNIFIED})"),
        # A level of 0.5 is a factor of 1.5 here.
        (
            alterations.rescale(alterations.zoom(), 0, 1),
            f"none (0 to 1 stand for 1 to 2 [factor]: {MAGNIFIED})",
        ),
        (
            alterations.compose([alterations.zoom(1, 3), FADING]),
            f"none (0 to 1 drive zoom from 1 to 3 [factor] ({MAGNIFIED}), then fading "
            "from 0 to 1 [share] (of the light that is lost))",
        ),
        (
            alterations.followed_by(FADING, same),
            "share (of the light that is lost, then same, at every level but 0)",
        ),
        (FADING, "hue grey (what the light turns into), shape 6"),
        (OWN, "share |"),
        (alterations.gaussian_blur(), "what it does depends on the images' size)"),
    ],
)
def test_a_report_says_what_a_level_is(alteration, expected):
    assert expected in re.sub(
        r"\\(?=\W)", "", reporting.to_markdown(results(alteration))
    )


def test_a_page_says_what_a_level_is_and_no_private_name():
    # What is read: the data beside it hold the stored provenance.
    page = html.unescape(reporting.to_html(results(FADING)).partition("<script")[0])
    assert "share (of the light that is lost)" in page
    assert "jaxrob.alterations._" not in page


def results(alteration):
    facts = {"settings": settings(alteration, SHAPE), "words": words(alteration)}
    one = assessment()
    about = {"alteration": alteration.name, "unit": alteration.unit}
    found = assessment(**about, provenance=one.provenance | facts)
    return [reporting.Results("net", ("a", "b", "c"), (found,))]
