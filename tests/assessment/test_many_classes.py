"""Above 64 classes counts take the place of the confusion, everywhere."""

import functools
import json
import re

import jax
import numpy as np
import pytest

import jaxrob
from jaxrob import alterations, reporting, strategies
from jaxrob.metrics import _counts

from .documents import assert_refused, drop, put

NUM_CLASSES = 70
NOISE = alterations.gaussian_noise(0.0, 0.2)


def logits(variables, images):
    pixels = images.reshape(len(images), -1)
    return 20 * (pixels @ variables["kernel"] + variables["bias"])


@pytest.fixture(scope="module")
def world():
    """Returns a linear network, and images around its classes' prototypes."""
    rng = np.random.default_rng(0)
    prototypes = rng.random((NUM_CLASSES, 16), np.float32)
    variables = {
        "kernel": 2 * prototypes.T,
        "bias": -np.square(prototypes).sum(1),
    }
    labels = np.arange(300, dtype=np.int32) % NUM_CLASSES
    images = prototypes[labels] + 0.1 * rng.standard_normal((300, 16), np.float32)
    data = jaxrob.Dataset(np.clip(images, 0, 1).reshape(-1, 4, 4, 1), labels)
    return jaxrob.Classifier(logits, variables), data


EVEN = strategies.Uniform(3)


@pytest.fixture(scope="module")
def assess(world):
    @functools.cache
    def call(measure="accuracy", **settings):
        about = {"threshold": 0.7, "measure": measure}
        about |= {"strategy": EVEN, "batch_size": 64} | settings
        return jaxrob.assess(*world, NOISE, key=jax.random.key(0), **about)

    return call


def test_reduced_counts_need_no_confusion(assess, monkeypatch):
    whole = assess()

    def fail(*arguments):
        raise AssertionError("a confusion of 70 classes")

    monkeypatch.setattr(_counts, "count_pairs", fail)
    # 300 images in blocks of 64: the counts are sums over blocks.
    reduced = assess(reduced=True)
    assert reduced.curve.counts.confusion is None
    for part, other in zip(reduced.curve.counts[:4], whole.curve.counts):
        np.testing.assert_array_equal(part, other)
    assert reduced.robustness == whole.robustness
    assert reduced.confidence_interval == whole.confidence_interval
    with pytest.raises(ValueError, match="confusion .*reduced=F"):
        _ = reduced.curve.confusion
    with pytest.raises(ValueError, match="confusion"):
        reporting.plot_confusion(reduced, 0.1)
    assert "most frequent wrong" not in reporting.to_markdown([_results(reduced)])


def test_documents_hold_counts(assess):
    whole = assess("f1")
    for answers in (True, False):
        text = whole.to_json(answers=answers)
        document = json.loads(text)
        assert "confusion" not in document
        assert document["counts"] == {
            name: getattr(whole.curve.counts, name).tolist()
            for name in ("correct", "decided", "given", "unknown")
        }
        again = jaxrob.Assessment.from_json(text)
        assert isinstance(again.curve, jaxrob.Curve) == answers
        np.testing.assert_array_equal(
            again.robustness_per_class, whole.robustness_per_class
        )


CHANGES = [
    (drop("counts", "given"), "counts lacks 'given'"),
    (put("counts", None), "counts must be an object"),
]


def test_documents_of_wrong_counts(assess):
    bare, whole = (assess().to_json(answers=answers) for answers in (False, True))
    for change, what in CHANGES:
        assert_refused(bare, change, what)
    assert_refused(whole, *CHANGES[0])


def test_few_images_are_counted_alike(assess):
    whole, few = assess(), assess(strategy=strategies.FewImages(EVEN, half_width=0.0))
    text = few.to_json()
    assert jaxrob.Assessment.from_json(text).to_json() == text
    assert few.robustness == whole.robustness
    counts = few.curve.counts
    assert counts.confusion is None
    np.testing.assert_array_equal(counts.inputs.sum(1), few.sampling.seen)
    all_seen = few.sampling.seen == 300
    np.testing.assert_array_equal(
        counts.given[all_seen], whole.curve.counts.given[all_seen]
    )


def test_reports_show_the_worst_classes(assess):
    whole = assess(measure="recall")
    text = reporting.to_markdown([_results(whole)])
    html = reporting.to_html([_results(whole)])
    assert len(html) < 200_000
    rows = re.findall(r"^\| class .*%", text, re.MULTILINE)
    # Ten rows, and how many there are.
    assert len(rows) == 10 and "70" in text
    worst = int(np.argmin(whole.values))
    wrong = whole.curve.confusion[worst, :, :-1].copy()
    np.fill_diagonal(wrong, 0)
    label, answer = np.unravel_index(wrong.argmax(), wrong.shape)
    count, total = wrong.max(), whole.curve.counts.inputs[worst, label]
    assert f"“class {label}” taken for “class {answer}” ({count} of {total})" in text
    assert reporting.plot_confusion(whole, 0.1) is not None


def test_comparisons_and_reduced_curves_take_counts(assess):
    one = assess()
    found = jaxrob.compare(one, one)
    assert found.difference == 0 and found.p_value == 1
    expected = np.zeros((3, NUM_CLASSES, NUM_CLASSES + 1), np.int64)
    for table, answers in zip(expected, one.curve.predicted):
        np.add.at(table, (one.curve.labels, answers), 1)
    np.testing.assert_array_equal(one.curve.confusion, expected)
    bare = jaxrob.ReducedCurve(one.levels, expected)
    assert bare.counts.confusion is None
    np.testing.assert_array_equal(bare.accuracy, one.values)


def _results(one):
    return reporting.Results("linear", None, (one,))
