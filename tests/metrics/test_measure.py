"""A measure is one record: everything else follows from its ratio."""

import numpy as np
import pytest

from jaxrob import metrics
from jaxrob.metrics._bootstrap import resampled_values
from jaxrob.metrics._measure import Measure, Ratio

# Two levels, three classes: of class 0 five inputs are right, one wrong, two unknown.
CONFUSION = np.array(
    [
        [[5, 1, 0, 2], [0, 3, 1, 0], [2, 0, 6, 0]],
        [[8, 0, 0, 0], [0, 4, 0, 0], [0, 0, 8, 0]],
    ]
)


def errors(counts):
    """Returns wrong answers over all inputs."""
    inputs = counts.decided + counts.unknown
    return Ratio(counts.decided - counts.correct, inputs, inputs)


@pytest.fixture
def record(monkeypatch):
    def add(**settings):
        measure = Measure("errors", errors, **settings)
        monkeypatch.setitem(metrics.measures, "errors", measure)
        return measure

    return add


def test_a_new_measure_of_all_inputs_is_one_record(record):
    measure = record(is_proportion=True)
    np.testing.assert_array_equal(measure(CONFUSION), [4 / 20, 0])
    expected = [[1 / 8, 1 / 4, 2 / 8], [0, 0, 0]]
    np.testing.assert_array_equal(measure.per_class(CONFUSION), expected)
    assert metrics.effective_inputs(CONFUSION, "errors") == 20
    np.testing.assert_array_equal(
        metrics.bands(CONFUSION, "errors"),
        metrics.wilson(np.array([4, 0]), np.array([20, 20])),
    )
    interval = metrics.confidence_interval([0.0, 1.0], CONFUSION, "errors", 0.1)
    assert 0 <= interval.low <= 0.5 <= interval.high <= 1


@pytest.mark.parametrize("of_classes", [True, False])
def test_a_new_measure_has_a_bootstrap_band(record, of_classes):
    measure = record(of_classes=of_classes)
    values = measure(CONFUSION)
    low, high = metrics.bands(CONFUSION, "errors")
    assert low[0] < values[0] < high[0] and low[1] == high[1] == 0
    # Every input drawn once gives the values.
    labels, answers = np.nonzero(CONFUSION[0])
    weights = CONFUSION[0][labels, answers][:, None] * 1.0
    once = resampled_values(measure, labels, answers[None], 3, weights)
    assert once[0, 0] == pytest.approx(values[0])
    if of_classes:
        assert values[0] == pytest.approx((1 / 8 + 1 / 4 + 2 / 8) / 3)
        inputs = 9 / (1 / 8 + 1 / 4 + 1 / 8)
        np.testing.assert_allclose(measure.num_inputs(CONFUSION), [inputs, inputs])


def test_names_and_records_go_together():
    for name, measure in metrics.measures.items():
        assert measure.name == name and metrics.per_class[name] == measure.per_class
    with pytest.raises(ValueError, match="measure must be one of .* got 'auc'"):
        metrics.effective_inputs(CONFUSION, "auc")
