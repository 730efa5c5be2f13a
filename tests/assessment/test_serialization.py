import base64
import dataclasses
import json
import pickle
import tracemalloc
import zlib

import numpy as np
import pytest

from jaxrob import Assessment, Curve, ReducedCurve
from jaxrob._assessment.diagnostics import Diagnostics

from .documents import all_of, assert_refused, changed, drop, put


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


def same_settings(one, other):
    for field in dataclasses.fields(Assessment):
        if field.name != "curve":
            assert getattr(one, field.name) == getattr(other, field.name)


def strict(text):
    return json.loads(text, parse_constant=pytest.fail)


@pytest.mark.parametrize("alpha", [None, 0.6])
@pytest.mark.parametrize("measure", ["accuracy", "f1", "effectiveness"])
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
    before = assessment(
        levels=2,
        rule="quadrature",
        diagnostics=diagnostics(2, np.nan),
    )
    text = before.to_json()
    after = Assessment.from_json(text)
    assert strict(text)["robustness"] is None and np.isnan(after.robustness)
    assert strict(text)["diagnostics"]["jitter"] is None
    assert np.isnan(after.diagnostics.jitter)
    assert after.confidence_interval == before.confidence_interval


@pytest.mark.parametrize("wrong", [[], {}, {"points": 3}, "x", None])
def test_diagnostics_of_another_shape(wrong):
    change = put("diagnostics", wrong)
    assert_refused(assessment().to_json(), change, "diagnostics")


def test_scores_have_no_probabilities():
    before = assessment()
    curve = dataclasses.replace(before.curve, confidence=None, uncertainty=None)
    after = Assessment.from_json(dataclasses.replace(before, curve=curve).to_json())
    assert after.curve.confidence is None and after.curve.uncertainty is None
    np.testing.assert_array_equal(after.curve.predicted, curve.predicted)


def test_many_classes_keep_their_type():
    before = assessment()
    curve = dataclasses.replace(
        before.curve, predicted=before.curve.predicted.astype(np.int32)
    )
    after = Assessment.from_json(dataclasses.replace(before, curve=curve).to_json())
    assert after.curve.predicted.dtype == np.int32


@pytest.mark.parametrize("alpha", [None, 0.6])
def test_without_answers_the_counts_remain(alpha):
    before = assessment(alpha=alpha)
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
    document = strict(before.to_json())
    assert document["robustness_per_class"][3:] == [None, None]
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


def test_size_of_41_levels_and_10_000_images():
    text = assessment(levels=41, images=10_000, classes=10).to_json()
    # Ten bytes an answer, most of them random here, and a third more in base64.
    assert len(text) < 41 * 10_000 * 14
    assert len(Assessment.to_json(Assessment.from_json(text), answers=False)) < 50_000
    assert Assessment.from_json(text).curve.predicted.shape == (41, 10_000)


def packed(array):
    return {
        "dtype": array.dtype.name,
        "base64_zlib": base64.b64encode(zlib.compress(array.tobytes())).decode(),
    }


def swap_counts(document):
    """As many inputs at the level, but with other answers."""
    row = document["confusion"][0][0]
    row[0], row[1] = row[0] - 1, row[1] + 1


def lose_an_input(document):
    del document["answers"]
    document["confusion"][-1][0][1] -= 1


ANSWERS = ("predicted", "confidence", "uncertainty", "labels")
DATA = "base64_zlib"
TAMPERED = {
    "robustness": put("robustness", 1.0),
    "robustness as text": put("robustness", "0.5"),
    "counts": swap_counts,
    "counts of fewer inputs": lose_an_input,
    "negative counts": put("confusion", 0, 0, 0, -1),
    "fractional counts": put("confusion", 0, 0, 0, 1.5),
    "huge counts": put("confusion", 0, 0, 0, 2**62),
    "counts beyond int64": put("confusion", 0, 0, 0, 10**30),
    "more levels": put("levels", lambda levels: [*levels, 0.9]),
    "repeated levels": put("levels", lambda levels: [levels[0]] * 5),
    "level null": put("levels", 1, None),
    "level NaN": put("levels", 1, float("nan")),
    "levels none": put("levels", None),
    "levels empty": put("levels", []),
    "range of one number": put("lower", 0.7 - 1e-12),
    "range beyond float32": put("upper", 1e308),
    "confusion flat": put("confusion", [1, 2, 3]),
    "confusion ragged": put("confusion", 0, [[1]]),
    "confusion empty": put("confusion", []),
    "alpha of another reading": put("alpha", 0.9),
    "alpha text": put("alpha", "0.9"),
    "alpha outside": put("alpha", 2),
    "alpha missing": drop("alpha"),
    "format": put("format", "jaxrob assessment 0"),
    "measure": put("measure", "beauty"),
    "measure list": put("measure", []),
    "rule": put("rule", "left"),
    "threshold text": put("threshold", "0.75"),
    "threshold true": put("threshold", True),
    "threshold huge": put("threshold", 10**400),
    "lower text": put("lower", "0.1"),
    "identity null": put("identity", None),
    "alteration number": put("alteration", 3),
    "provenance list": put("provenance", []),
    "seconds infinite": put("seconds", float("inf")),
    "answers null": put("answers", None),
    "answers list": put("answers", []),
    "answers empty": put("answers", {}),
    "answer as text": put("answers", "predicted", "abc"),
    "other images": put("answers", "labels", packed(np.zeros(29, np.int32))),
    "label above": put("answers", "labels", packed(np.full(30, 3, np.int32))),
    "label below": put("answers", "labels", packed(np.full(30, -1, np.int32))),
    "class above": put("answers", "predicted", packed(np.full((5, 30), 3, np.int16))),
    "class below": put("answers", "predicted", packed(np.full((5, 30), -1, np.int16))),
    "wrong type": put("answers", "predicted", "dtype", "float32"),
    "other width": put("answers", "predicted", "dtype", "int32"),
    "object type": put("answers", "labels", "dtype", "object"),
    "type list": put("answers", "labels", "dtype", ["int32"]),
    "no base64": put("answers", "confidence", DATA, "?!?!"),
    "no zlib": put("answers", "confidence", DATA, "AAAA"),
    "data null": put("answers", "confidence", DATA, None),
} | {
    f"{name} {what}": change
    for name in ANSWERS
    for what, change in {
        "cut": put("answers", name, DATA, lambda text: text[:-8]),
        "halved": put("answers", name, DATA, lambda text: text[: len(text) // 8 * 4]),
        "cut to no base64": put("answers", name, DATA, lambda text: text[:-3]),
        "doubled": put("answers", name, packed(np.zeros(300, np.int32))),
    }.items()
}
for part in ("levels", "confusion", "robustness", "format"):
    TAMPERED[f"{part} missing"] = drop(part)
for part in ("predicted", "labels"):
    TAMPERED[f"{part} missing"] = drop("answers", part)
for part in dataclasses.fields(Assessment):
    if part.name != "curve":
        TAMPERED[f"{part.name} missing"] = drop(part.name)


@pytest.mark.parametrize("name", TAMPERED)
def test_tampering_is_a_value_error(name):
    assert_refused(assessment(alpha=0.6).to_json(), TAMPERED[name])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no JSON",
        "null",
        "[]",
        "{}",
        "3",
        '{"format": "another"}',
        "[" * 100_000,
        "9" * 10_000,
        pickle.dumps({"format": "jaxrob assessment 1"}),
        b"\x80\x04\x95",
    ],
)
def test_what_is_no_assessment(text):
    with pytest.raises(ValueError, match="not JSON|must be|nested too deep"):
        Assessment.from_json(text)


def test_a_small_text_cannot_fill_the_memory():
    document = json.loads(assessment().to_json())
    stream = zlib.compressobj(9)
    zeros = bytes(2**20)
    bomb = b"".join(stream.compress(zeros) for _ in range(200)) + stream.flush()
    document["answers"]["confidence"][DATA] = base64.b64encode(bomb).decode()
    text = json.dumps(document)
    tracemalloc.start()
    with pytest.raises(ValueError, match="confidence must hold 600 bytes"):
        Assessment.from_json(text)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10 * 2**20


@pytest.mark.parametrize("strategy", ["Uniform(n=5)", "Random(n=5, seed=0)", "Mine()"])
def test_a_range_widened_later_does_not_keep_its_counted_share(strategy):
    before = assessment(rule="count", strategy=strategy)
    assert Assessment.from_json(before.to_json()).robustness == before.robustness
    by_levels = "diagnostics.* by the levels"
    by_float32 = "lower and upper must lie.* float32"
    for wider, message in (
        ({"upper": 0.7 + 1e-6}, by_levels),
        ({"upper": 0.8}, by_levels),
        # A gap of the widest interval's own share is added.
        ({"upper": 0.9}, by_levels),
        ({"upper": 3e38}, by_levels),
        ({"lower": 0.0, "identity": 0.0}, by_levels),
        ({"upper": 1e308}, by_float32),
        ({"lower": -1e308, "upper": 1e308}, by_float32),
    ):
        change = all_of(*(put(*entry) for entry in wider.items()))
        assert_refused(before.to_json(), change, message)


def test_a_stated_robustness_is_written_as_in_the_file():
    text = changed(assessment().to_json(), put("robustness", 0.123))
    with pytest.raises(ValueError, match="robustness stated, 0.123, is not") as error:
        Assessment.from_json(text)
    assert "np." not in str(error.value)
