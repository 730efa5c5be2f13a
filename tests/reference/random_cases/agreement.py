"""Whether the library's answers and what it computes of them are the reference's."""

import collections

import numpy as np
from numpy_reference import answers, measures

import jaxrob

# An answer may differ where the two best classes are as close as that.
NEAR_TIE, CONFIDENCE, UNCERTAINTY = 1e-5, 2e-5, 1e-4
# Of a long curve so many answers are checked.
MOST_ANSWERS = 200


class Findings:
    """What differed, and how many answers were compared."""

    def __init__(self):
        self.disagreements = []
        self.tally = collections.Counter()

    def expect(self, good, what, got=None, expected=None):
        if not np.all(good):
            shown = "" if got is None else f": got {got!r}, expected {expected!r}"
            self.disagreements.append(f"{what}{shown}"[:1000])

    def equal(self, got, expected, what):
        same = np.array_equal(np.asarray(got), np.asarray(expected))
        self.expect(same, what, got, expected)

    def close(self, got, expected, what, within=1e-12):
        got, expected = (np.asarray(one, np.float64) for one in (got, expected))
        same = got.shape == expected.shape and np.allclose(
            got, expected, rtol=0, atol=within, equal_nan=True
        )
        self.expect(same, what, got, expected)


def check_answers(found, curve, truth, pair, rng):
    """Class, confidence and uncertainty of a `Curve`, within rounding."""
    found.equal(curve.labels, truth.labels, "curve.labels")
    found.equal(curve.num_classes, truth.num_classes, "curve.num_classes")
    shape = len(curve.levels), len(truth.labels)
    found.equal(curve.predicted.shape, shape, "the shape of curve.predicted")
    found.equal(curve.predicted.dtype, np.int16, "the type of curve.predicted")
    most = max(1, MOST_ANSWERS // len(truth.labels))
    some = np.arange(len(curve.levels))
    if len(some) > most:
        some = rng.choice(some, most, replace=False)
    expected = truth.answers(pair, curve.levels[some])
    differs = curve.predicted[some] != expected.predicted
    tied = expected.margin < NEAR_TIE
    wrong = differs & ~tied
    found.expect(
        not wrong.any(),
        f"curve.predicted of {pair.alteration.name} at "
        f"{[(float(curve.levels[some[at]]), int(i)) for at, i in np.argwhere(wrong)]}",
        curve.predicted[some][wrong],
        expected.predicted[wrong],
    )
    found.tally["answers"] += differs.size
    found.tally["near ties that differ"] += int((differs & tied).sum())
    if truth.outputs == "scores":
        found.expect(curve.confidence is None, "scores have a confidence")
        found.expect(curve.uncertainty is None, "scores have an uncertainty")
        return
    name = pair.alteration.name
    got = curve.confidence[some]
    found.close(got, expected.confidence, f"confidence of {name}", CONFIDENCE)
    got = curve.uncertainty[some]
    found.close(got, expected.uncertainty, f"uncertainty of {name}", UNCERTAINTY)


def unknown_of(found, curve, alpha):
    """Bool `[L, N]`, checked against the curve's own."""
    if alpha is None:
        found.expect(not curve.unknown.any(), "unknown without alpha")
        return curve.unknown
    expected = answers.unknown(curve.uncertainty, alpha)
    near = np.abs(curve.uncertainty - (1 - alpha)) < 1e-6
    found.expect((curve.unknown == expected) | near, f"unknown at alpha {alpha}")
    return curve.unknown


def check_curve(found, curve, alpha, identity):
    """What a `Curve` computes of its answers; returns the counts expected."""
    is_unknown = unknown_of(found, curve, alpha)
    counts = answers.confusion(
        curve.predicted, is_unknown, curve.labels, curve.num_classes
    )
    first = answers.first_failing_level(
        curve.levels, curve.predicted, is_unknown, curve.labels, identity
    )
    found.close(
        curve.first_failing_level(identity), first, "first failing level", within=0
    )
    check_counts(found, curve, counts)
    reduced = curve.reduced()
    found.expect(isinstance(reduced, jaxrob.ReducedCurve), "reduced() is no such curve")
    check_counts(found, reduced, counts)
    return counts


def check_counts(found, curve, counts):
    """What any curve computes of counts."""
    found.equal(curve.confusion, counts, "curve.confusion")
    for name in ("accuracy", "indecision", "effectiveness"):
        measure = getattr(measures, name)
        exact = [float(measure(at_level)) for at_level in counts]
        found.equal(getattr(curve, name), exact, f"curve.{name}")


def check_measures(found, counts):
    """Every measure of `jaxrob.metrics`, to the bit, and the bands of proportions."""
    for name, measure in measures.MEASURES.items():
        exact = [measure(at_level) for at_level in counts]
        exact = [np.nan if one is None else float(one) for one in exact]
        found.close(jaxrob.metrics.measures[name](counts), exact, name, within=0)
        shares = [measures.shares(at_level, name) for at_level in counts]
        if None in shares:
            continue
        ends = np.array([measures.wilson(*share) for share in shares]).T
        got = np.array(jaxrob.metrics.bands(counts, name))
        found.close(got, ends, f"bands of {name}", within=1e-9)
