"""Assessments by a user's score: what it gives, comparisons, documents, resuming."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrob
from jaxrob import alterations, metrics, strategies

from ..linear import linear
from .documents import assert_refused, packed, put

NUMBER, LEVELS = 97, np.linspace(-0.5, 0.5, 5)
BRIGHTNESS = alterations.brightness(-0.5, 0.5)
NOISE = alterations.gaussian_noise(0.0, 0.2)
KEY = jax.random.key(3)
random_values = np.random.default_rng(0)
IMAGES = random_values.random((NUMBER, 8, 8, 1)).astype(np.float32)
WEIGHTS = random_values.normal(size=(64, 3)).astype(np.float32)
OTHERS = WEIGHTS + 0.2 * random_values.normal(size=(64, 3)).astype(np.float32)


LABELS = np.asarray(linear(WEIGHTS, IMAGES)).argmax(1)
DATA = jaxrob.Dataset(IMAGES, LABELS)
FIRST, SECOND = (jaxrob.Classifier(linear, one) for one in (WEIGHTS, OTHERS))


def confidence(outputs, labels):
    return jnp.take_along_axis(jax.nn.softmax(outputs), labels[:, None], 1)[:, 0]


def confidence_on_host(outputs, labels):
    outputs, labels = np.asarray(outputs, np.float64), np.asarray(labels)
    shares = np.exp(outputs - outputs.max(1, keepdims=True))
    return (shares / shares.sum(1, keepdims=True))[np.arange(len(labels)), labels]


def is_right(outputs, labels):
    return (outputs.argmax(-1) == labels).astype(jnp.float32)


CONFIDENCE = jaxrob.Score(confidence, version="1")
ON_HOST = jaxrob.Score(confidence_on_host, name="confidence", version="1")
RIGHT = jaxrob.Score(is_right, name="right", version="1")


EVEN = strategies.Uniform(5)
FEW = {"strategy": strategies.FewImages(EVEN, half_width=0.1)}
CURTAILED = {"strategy": strategies.FewImages(EVEN, curtail=True)}


def assess(network=FIRST, alteration=BRIGHTNESS, threshold=0.9, **how):
    how = {"strategy": EVEN, "key": KEY, "score": CONFIDENCE} | how
    return jaxrob.assess(network, DATA, alteration, threshold, **how)


@functools.cache
def text_of_one():
    return assess().to_json()


def by_hand():
    """The scores of altered images, one level at a time, in NumPy."""
    rows = []
    for level in LEVELS:
        altered = np.clip(IMAGES * np.float32(1 + level), 0, 1)
        rows.append(confidence_on_host(linear(WEIGHTS, altered), LABELS))
    return np.array(rows)


@pytest.mark.parametrize(("score", "batch_size"), [(CONFIDENCE, None), (ON_HOST, 40)])
def test_scores_are_the_function_s_own(score, batch_size):
    result = assess(score=score, batch_size=batch_size)
    np.testing.assert_allclose(result.curve.scores, by_hand(), atol=1e-5)
    assert result.measure == "mean confidence" and result.curve.num_classes == 0
    np.testing.assert_allclose(result.values, by_hand().mean(1), atol=1e-5)
    assert result.robustness == np.mean(result.curve.scores.mean(1) >= 0.9)


@pytest.mark.slow
def test_scores_do_not_depend_on_how_they_are_computed():
    """Order of levels, batches and strategy; with noise, whose keys are the images'."""
    levels = np.array([0.1, 0.0, 0.2, 0.05])
    given = {"key": KEY, "score": CONFIDENCE}
    curve = jaxrob.evaluate(FIRST, DATA, NOISE, levels, **given)
    batches = jaxrob.Dataset.from_batches(
        [(IMAGES[at : at + 40], LABELS[at : at + 40]) for at in range(0, NUMBER, 40)]
    )
    streamed = jaxrob.evaluate(FIRST, batches, NOISE, levels[::-1], **given)
    np.testing.assert_allclose(curve.scores, streamed.scores[::-1], atol=1e-6)
    asap = assess(alteration=NOISE, strategy=strategies.ASAP(n=8), threshold=0.8)
    some = jaxrob.evaluate(FIRST, DATA, NOISE, asap.levels[:3], **given)
    np.testing.assert_allclose(some.scores, asap.curve.scores[:3], atol=1e-6)


@pytest.mark.parametrize("how", [{}, FEW, CURTAILED], ids=str)
def test_a_score_of_right_answers_is_the_accuracy(how):
    """An oracle for everything that follows from a mean: values and intervals."""
    ours = assess(SECOND, threshold=0.6, score=RIGHT, **how)
    theirs = assess(SECOND, threshold=0.6, score=None, **how)
    np.testing.assert_array_equal(ours.values, theirs.values)
    assert ours.robustness == theirs.robustness
    assert ours.error_bound == theirs.error_bound
    assert ours.evaluations == theirs.evaluations
    assert ours.dataset_interval == theirs.dataset_interval
    for number in (ours.robustness, *ours.dataset_interval, *ours.confidence_interval):
        assert type(number) is float
    if how:
        assert ours.sampling.status == theirs.sampling.status
        np.testing.assert_array_equal(ours.sampling.sides, theirs.sampling.sides)
    assert jaxrob.Assessment.from_json(ours.to_json()).to_json() == ours.to_json()


@pytest.mark.parametrize("function", [jnp.asarray, lambda some: np.array(some)])
def test_a_score_gets_the_only_column_of_a_network(function):
    def half(outputs, labels):
        return function(outputs).shape[-1] / 2 + 0 * function(outputs).sum(-1)

    one = jaxrob.Classifier(lambda weights, x: linear(weights, x)[:, :1], WEIGHTS)
    found = jaxrob.evaluate(one, DATA, BRIGHTNESS, LEVELS[:1], score=half)
    assert (found.scores == 0.5).all()
    # One of single precision on the threshold is good enough.
    found = assess(score=lambda out, _: 0.7 + 0 * out[:, 0], threshold=0.7)
    assert found.robustness == 1


def test_a_mean_is_not_said_twice():
    result = assess(score=jaxrob.Score(confidence, name="mean best IoU", version="1"))
    assert result.measure == result.curve.measure == "mean best IoU"
    assert jaxrob.Assessment.from_json(result.to_json()).measure == "mean best IoU"


def test_scores_that_are_no_numbers_name_their_image():
    """Whatever the batches, and if images are seen in a random order."""
    bright = int(IMAGES.mean((1, 2, 3)).argmax())
    limit = float(IMAGES.mean((1, 2, 3)).max()) - 1e-6

    def marked(weights, images):
        return {"scores": linear(weights, images), "mean": images.mean((1, 2, 3))}

    def nan_of_one(outputs, labels):
        found = jnp.clip(confidence(outputs["scores"], labels), 0, 1)
        return jnp.where(outputs["mean"] >= limit, jnp.nan, found)

    network = jaxrob.Classifier(marked, WEIGHTS, outputs="any")
    darker = alterations.brightness(-0.5, 0.0)
    for how in ({"batch_size": 40}, CURTAILED):
        with pytest.raises(ValueError, match=rf"nan for.* {bright}\b"):
            assess(network, darker, score=nan_of_one, **how)


def test_an_interrupted_journal_is_resumed(tmp_path):
    """Scores that were stored are not computed again, and change nothing."""
    journal, seen = tmp_path / "journal", []

    def counted(outputs, labels):
        seen.append(len(labels))
        return confidence_on_host(outputs, labels)

    score = jaxrob.Score(counted, name="confidence", version="1")
    whole = assess(score=ON_HOST, batch_size=40)
    first = assess(score=score, batch_size=40, journal=journal)
    lines = journal.read_bytes().splitlines(keepends=True)
    # As a run leaves it that is killed while it writes a line.
    half = len(lines) // 2
    journal.write_bytes(b"".join(lines[:half]) + lines[half][: len(lines[half]) // 2])
    spent = sum(seen)
    again = assess(score=score, batch_size=40, journal=journal)
    assert 0 < sum(seen) - spent < spent
    for one in (first, again):
        np.testing.assert_array_equal(one.curve.scores, whole.curve.scores)
    other = jaxrob.Score(confidence_on_host, name="confidence", version="2")
    with pytest.raises(ValueError, match="journal"):
        assess(score=other, batch_size=40, journal=journal)
    # What one on the devices captures is seen whatever its version.
    scale = np.ones(3, np.float32)
    scaled = jaxrob.Score(lambda *of: confidence(scale * of[0], of[1]), version="1")
    assess(score=scaled, journal=tmp_path / "scaled")
    scale *= 2
    with pytest.raises(ValueError, match="score"):
        assess(score=scaled, journal=tmp_path / "scaled")


def test_a_comparison_of_right_answers_is_that_of_accuracies():
    """The swap test has the same p-values, and the differences are the same."""
    ours, other = (
        jaxrob.compare(
            *(assess(one, score=score, threshold=0.8) for one in (FIRST, SECOND))
        )
        for score in (RIGHT, None)
    )
    assert ours.difference == other.difference
    assert ours.p_value == other.p_value and ours.mean_p_value == other.mean_p_value
    np.testing.assert_allclose(ours.level_difference, other.level_difference)
    np.testing.assert_allclose(ours.mean_interval, other.mean_interval, atol=0.02)


def made(scores, threshold=0.5, fingerprint="da7a", name="IoU", version="1"):
    about = {"name": name, "version": version, "labels": None}
    one = jaxrob.Assessment.from_json(text_of_one())
    provenance = {"alteration": "x", "dataset": {"fingerprint": fingerprint}}
    return dataclasses.replace(
        one,
        lower=0.0,
        upper=1.0,
        identity=0.0,
        threshold=threshold,
        rule="linear",
        measure=f"mean {name}",
        curve=jaxrob.ScoreCurve(np.array([0.0, 1.0]), scores, name),
        provenance=provenance | {"score": about},
    )


def test_the_swap_test_is_exact_for_few_images():
    """Of all 2^6 swaps of these differences, as many are as extreme by hand."""
    first = np.tile(np.array([0.9, 0.8, 0.7, 0.9, 0.6, 0.8]), (2, 1))
    off = np.array([0.3, 0.2, -0.1, 0.25, 0.15, 0.05])
    found = jaxrob.compare(made(first), made(first - off))
    signs = 1 - 2 * ((np.arange(64)[:, None] >> np.arange(6)) & 1)
    means = np.abs((signs * off).mean(1))
    assert found.mean_p_value == np.mean(means >= abs(off.mean()) - 1e-12)
    assert found.mean_difference == pytest.approx(off.mean())
    swapped = jaxrob.compare(made(first - off), made(first))
    assert swapped.mean_interval.low == -found.mean_interval.high


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"version": None}, "second must be of a score"),
        ({"version": "2"}, "same score"),
        ({"name": "F1"}, "same measure"),
        ({"fingerprint": "other"}, "same images"),
        ({"scores": np.where(np.eye(2, 6), np.nan, 0.7)}, "second must have a score"),
    ],
)
def test_scores_that_differ_are_not_compared(changes, message):
    given = {"scores": np.full((2, 6), 0.7)}
    with pytest.raises(ValueError, match=message):
        jaxrob.compare(made(**given), made(**given | changes))


def test_a_sequential_comparison_of_right_answers_is_that_of_accuracies():
    few = strategies.FewImages(half_width=0.05)
    how = {"threshold": 0.8, "key": KEY, "strategy": few}
    about = FIRST, SECOND, DATA, BRIGHTNESS
    ours = jaxrob.compare_sequentially(*about, score=RIGHT, **how)
    other = jaxrob.compare_sequentially(*about, **how)
    for name in ("difference", "dataset_interval", "is_certain", "evaluations"):
        assert getattr(ours, name) == getattr(other, name)
    assert {type(end) for end in ours.dataset_interval} == {float}
    text = ours.to_json()
    assert jaxrob.SequentialComparison.from_json(text).to_json() == text
    with pytest.raises(ValueError, match="measure"):
        jaxrob.compare_sequentially(*about, measure="recall", score=RIGHT, key=KEY)


def test_levels_where_single_images_fail():
    scores = np.float32([[0.4, 0.9, 0.9, np.nan], [0.5, 0.3, 0.7, np.nan]])
    curve = jaxrob.ScoreCurve(np.array([1.0, 0.0]), scores, "IoU")
    first = curve.first_level_below(0.7, 0.0)
    np.testing.assert_array_equal(first, [0.0, 0.0, np.nan, np.nan])
    lowest, levels = curve.lowest(0.0)
    np.testing.assert_array_equal(lowest, [0.4, 0.3, 0.7, np.nan])
    np.testing.assert_array_equal(levels, [1.0, 0.0, 0.0, np.nan])


def test_measures_of_classes_refuse_scores():
    result = assess()
    with pytest.raises(ValueError, match="first_failing_level"):
        _ = result.first_failing_level
    with pytest.raises(ValueError, match="score .* has no errors"):
        metrics.corruption_error(result.curve, metrics.ReferenceErrors(0.1, 0.2))
    with pytest.raises(TypeError, match="counts"):
        metrics.accuracy(result.counts)


def test_a_failing_level_of_scores():
    """The mean falls from 0.9 to 0.5 in a straight line: 0.7 is in the middle."""
    scores = np.array([[0.9] * 50, [0.5] * 50])
    curve = jaxrob.ScoreCurve(np.array([0.0, 4.0]), scores, "IoU")
    found = metrics.failing_level(curve.levels, curve.counts, curve.measure, 0.7)
    assert found.level == pytest.approx(2.0)
    low, high = found.confidence_interval
    assert 0 < low < 2 < high < 4


SCORED = "scored", "scores"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (put(*SCORED, packed(np.full((5, 97), np.nan))), "scores must hold"),
        (put(*SCORED, packed(np.ones((5, 96)))), "must hold .* bytes"),
        (put("num_images", 10**12), "num_images must be below"),
        (put("score", "two\nlines"), "name of a score"),
        (put("provenance", "score", "confidence"), "provenance.score"),
    ],
)
def test_documents_that_no_run_writes(change, message):
    assert_refused(text_of_one(), change, message)


def test_a_curve_of_scores_as_json():
    curve = assess().curve
    read = jaxrob.ScoreCurve.from_json(curve.to_json())
    np.testing.assert_array_equal(read.scores, curve.scores)
    assert read.score == "confidence" and read.num_images == NUMBER
    with pytest.raises(ValueError, match=r"scores"):
        jaxrob.ScoreCurve(np.zeros(1), np.full((1, 3), 2.0), "IoU")
