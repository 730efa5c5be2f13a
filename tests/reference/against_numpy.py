"""What `jaxrob.evaluate` and `jaxrob.assess` find, beside the reference in NumPy."""

import collections
import functools
from typing import Any, NamedTuple

import numpy as np
import numpy_reference as slow
from random_parts import inside

import jaxrob
from jaxrob import strategies
from jaxrob.strategies import Found, History, all_images


def evaluated(found, rng, setting):
    pair = setting.structure.pairs[rng.integers(len(setting.structure.pairs))]
    levels = inside(rng, pair.alteration, rng.integers(1, 8))
    reduced = rng.random() < 0.25
    setting.note(pair.alteration.name, f"levels {levels.tolist()}")
    curve = jaxrob.evaluate(
        setting.classifier,
        setting.dataset,
        pair.alteration,
        levels,
        reduced=reduced,
        **setting.arguments,
    )
    found.equal(curve.levels, levels, "curve.levels")
    if reduced:
        check_reduced(found, curve, setting.truth, pair)
        return
    check_answers(found, curve, setting.truth, pair, rng)
    alpha = setting.random_alpha(rng)
    setting.note(f"alpha {alpha}")
    curve = curve.with_unknown(alpha)
    found.equal(curve.alpha, alpha, "curve.alpha")
    check_measures(found, check_curve(found, curve, alpha, pair.alteration.identity))


def check_reduced(found, curve, truth, pair):
    """Counts, where no near tie leaves them open."""
    expected = truth.answers(pair, curve.levels)
    sure = (expected.margin >= NEAR_TIE).all(1)
    counts = slow.confusion(
        expected.predicted.astype(int),
        np.zeros(expected.predicted.shape, bool),
        truth.labels,
        truth.num_classes,
    )
    found.equal(curve.confusion[sure], counts[sure], "confusion of a reduced curve")
    found.tally["answers"] += expected.predicted.size
    check_counts(found, curve, curve.confusion)


class Ends:
    """A user's own strategy: the ends, the middle, and the quarters one by one."""

    rule = "linear"
    rules = ("linear", "right")

    def init(self, task):
        return History()

    def ask(self, task, state, history):
        share = ([0.0, 1.0], [0.5], [0.25, 0.75], [])[min(history.rounds, 3)]
        levels = task.lower + np.array(share) * (task.upper - task.lower)
        return all_images(levels), history

    def result(self, task, state):
        return Found(error_bound=0.125)


class Asked(NamedTuple):
    """What an assessment is asked, beside its setting."""

    measure: str
    threshold: float
    alpha: float | None
    strategy: Any
    rule: str | None


def assessed(found, rng, setting):
    together = rng.random() < 0.2
    number = rng.integers(1, 1 + len(setting.structure.pairs)) if together else 1
    chosen = rng.choice(len(setting.structure.pairs), number, replace=False)
    pairs = [setting.structure.pairs[i] for i in chosen]
    asked = random_question(rng, setting, pairs[0])
    setting.note(*(pair.alteration.name for pair in pairs), asked)
    results = ask(found, rng, setting, asked, pairs, together)
    for pair, result in zip(pairs, results or ()):
        check(found, rng, setting, asked, pair, result)


def ask(found, rng, setting, asked, pairs, together):
    """None if the measure is not defined at a level."""
    alterations = [pair.alteration for pair in pairs]
    call = functools.partial(jaxrob.assess, setting.classifier, setting.dataset)
    arguments = dict(setting.arguments)
    if asked.alpha is None and rng.random() < 0.15:
        arguments["reduced"] = True
        setting.note("reduced")
    try:
        results = call(
            alterations if together else alterations[0], **arguments, **asked._asdict()
        )
    except ValueError as error:
        if "undefined" not in str(error):
            raise
        some = [may_be_undefined(setting, asked, pair) for pair in pairs]
        found.expect(any(some), f"refused without a reason: {error}")
        return None
    return results if together else [results]


def random_question(rng, setting, pair):
    """Measure, alpha, strategy, and a threshold that is often exactly attained."""
    measure = str(rng.choice(list(slow.MEASURES)))
    if rng.random() < 0.4:
        measure = "accuracy"
    strategy = random_strategy(rng)
    rule = str(rng.choice(strategy.rules)) if rng.random() < 0.4 else None
    alpha = setting.random_alpha(rng)
    threshold = random_threshold(rng, setting, pair, measure, alpha)
    return Asked(measure, threshold, alpha, strategy, rule)


def random_strategy(rng):
    number = int(rng.integers(2, 10))
    concavity = float(rng.choice([0.5, 2.0, 8.0, 128.0]))
    choices = (
        strategies.Uniform(number),
        strategies.Uniform(number),
        strategies.Random(number, seed=number),
        strategies.ASAP(n=64),
        strategies.ASAP(n=int(rng.choice([7, 16, 64])), concavity=concavity),
        Ends(),
    )
    weights = np.array([4, 4, 2, 3, 3, 2])
    return choices[rng.choice(len(choices), p=weights / weights.sum())]


def random_threshold(rng, setting, pair, measure, alpha):
    """On a count, on or beside a value of the measure, or anywhere."""
    number, draw = len(setting.truth.labels), rng.random()
    if draw < 0.3:
        return float(int(rng.integers(0, number + 1)) / number)
    if draw < 0.4:
        return float(rng.choice([0.0, 1.0, 0.5, 0.8, 0.9]))
    if draw < 0.5:
        return float(rng.random())
    share = rng.choice([0, 0.25, 0.5, 1])
    lower, upper = pair.alteration.lower, pair.alteration.upper
    value = value_at(setting, pair, lower + share * (upper - lower), measure, alpha)
    value = 0.5 if value is None else float(value)
    beside = (value, value, np.nextafter(value, 0), np.nextafter(value, 1))
    return float(beside[rng.integers(4)])


def counts_at(setting, pair, level, alpha):
    truth = setting.truth
    expected = truth.answers(pair, [level])
    unknown = slow.unknown(expected.uncertainty, alpha)
    predicted = expected.predicted.astype(int)
    return slow.confusion(predicted, unknown, truth.labels, truth.num_classes)[0]


def value_at(setting, pair, level, measure, alpha):
    return slow.MEASURES[measure](counts_at(setting, pair, level, alpha))


def may_be_undefined(setting, asked, pair):
    """Whether the measure is not defined at some level of a grid."""
    grid = np.linspace(pair.alteration.lower, pair.alteration.upper, 17)
    return any(
        value_at(setting, pair, level, asked.measure, asked.alpha) is None
        for level in [pair.alteration.identity, *grid]
    )


def check(found, rng, setting, asked, pair, result):
    alteration, curve = pair.alteration, result.curve
    if isinstance(curve, jaxrob.Curve):
        check_answers(found, curve, setting.truth, pair, rng)
        identity = alteration.identity
        counts = check_curve(found, curve, asked.alpha, identity)
        first = curve.first_failing_level(identity)
        found.close(result.first_failing_level, first, "result.first_failing_level")
    else:
        counts = curve.confusion
        check_counts(found, curve, counts)
    check_measures(found, counts)
    exact = [slow.MEASURES[asked.measure](at_level) for at_level in counts]
    if None in exact:
        found.expect(False, f"{asked.measure} is not defined, but answered")
        return
    values = [float(value) for value in exact]
    found.equal(result.values, values, "values")
    found.equal(result.levels, np.sort(result.levels), "levels in order")
    check_levels(found, asked, pair, result)
    check_robustness(found, asked, result, values, counts)
    check_kept(found, result)


def check_levels(found, asked, pair, result):
    strategy, levels = asked.strategy, result.levels
    lower, upper = pair.alteration.lower, pair.alteration.upper
    inside = (levels >= lower).all() and (levels <= upper).all()
    found.expect(inside, "levels outside the range", levels, (lower, upper))
    if isinstance(strategy, strategies.Uniform):
        found.close(levels, np.linspace(lower, upper, strategy.n), "uniform levels")
    elif isinstance(strategy, strategies.Random):
        found.expect(len(levels) == strategy.n, "number of random levels")
    elif isinstance(strategy, Ends):
        expected = lower + np.array([0, 0.25, 0.5, 0.75, 1]) * (upper - lower)
        found.close(levels, expected, "levels of a user's strategy")
        found.equal(result.error_bound, 0.125, "error bound of a user's strategy")
    elif isinstance(strategy, strategies.ASAP):
        ends = levels[0] == lower and levels[-1] == upper
        found.expect(ends, "ASAP without the ends", levels)
        found.expect(0 <= result.error_bound <= 1, "error bound")


def check_robustness(found, asked, result, values, counts):
    """Robustness, its interval, what is accepted, and each class's own."""
    levels, threshold = result.levels.tolist(), asked.threshold
    undecided = counts[:, :, :-1].sum((1, 2)) == 0
    if (
        asked.measure == "accuracy"
        and (undecided & (np.array(values) >= threshold)).any()
    ):
        # Right wherever it answers, and it answers nowhere.
        expected = np.nan
    else:
        rule = slow.RULES[asked.rule or asked.strategy.rule]
        expected = float(rule(levels, values, threshold))
    found.close(result.robustness, expected, "robustness", within=1e-9)
    if len(levels) > 1:
        intervals = slow.accepted_intervals(levels, values, threshold)
        found.close(result.accepted, intervals or np.empty((0,)), "accepted", 1e-9)
    if np.isnan(result.robustness):
        return
    low, high = result.confidence_interval
    found.expect(
        0 <= low <= result.robustness <= high <= 1,
        "confidence interval",
        (low, high),
        result.robustness,
    )
    rule = asked.rule or asked.strategy.rule
    if asked.measure == "accuracy":
        check_classes(found, result, counts, threshold, slow.RULES[rule])


def check_classes(found, result, counts, threshold, rule):
    """The accuracy of a class is its recall."""
    num_classes = counts.shape[1]
    values = np.array(
        [
            [
                np.nan if share is None else float(share)
                for share in (slow.class_recall(one, k) for k in range(num_classes))
            ]
            for one in counts
        ]
    )
    has_inputs = counts.sum(2)[0] > 0
    decided = ~np.isnan(values).any(0)
    found.close(
        result.values_per_class[:, decided], values[:, decided], "values of classes", 0
    )
    found.expect(
        np.isnan(result.values_per_class[:, ~has_inputs]).all(), "values of no inputs"
    )
    expected = [
        float(rule(result.levels.tolist(), values[:, k].tolist(), threshold))
        for k in np.flatnonzero(decided)
    ]
    found.close(
        result.robustness_per_class[decided], expected, "robustness of classes", 1e-9
    )


def check_kept(found, result):
    """JSON keeps it all."""
    again = jaxrob.Assessment.from_json(result.to_json())
    for name in (
        "robustness",
        "error_bound",
        "levels",
        "values",
        "threshold",
        "rule",
        "measure",
        "warnings",
    ):
        got, expected = getattr(again, name), getattr(result, name)
        same = got == expected
        if isinstance(expected, np.ndarray):
            same = np.array_equal(got, expected)
        elif expected != expected:
            same = got != got
        found.expect(same, f"{name} read from JSON", got, expected)
    for name in ("predicted", "confidence", "uncertainty", "confusion"):
        if hasattr(result.curve, name):
            got = getattr(again.curve, name)
            found.equal(got, getattr(result.curve, name), f"{name} from JSON")
    small = jaxrob.Assessment.from_json(result.to_json(answers=False))
    found.close(small.robustness, result.robustness, "robustness from JSON", within=0)
    found.equal(small.curve.confusion, result.curve.confusion, "counts from JSON")


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
    expected = slow.unknown(curve.uncertainty, alpha)
    near = np.abs(curve.uncertainty - (1 - alpha)) < 1e-6
    found.expect((curve.unknown == expected) | near, f"unknown at alpha {alpha}")
    return curve.unknown


def check_curve(found, curve, alpha, identity):
    """What a `Curve` computes of its answers; returns the counts expected."""
    is_unknown = unknown_of(found, curve, alpha)
    counts = slow.confusion(
        curve.predicted, is_unknown, curve.labels, curve.num_classes
    )
    first = slow.first_failing_level(
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
    found.equal(curve.confusion, counts, "curve.confusion")
    for name in ("accuracy", "indecision", "effectiveness"):
        measure = getattr(slow, name)
        exact = [float(measure(at_level)) for at_level in counts]
        found.equal(getattr(curve, name), exact, f"curve.{name}")


def check_measures(found, counts):
    """Every measure of `jaxrob.metrics`, to the bit, and the bands of proportions."""
    for name, measure in slow.MEASURES.items():
        exact = [measure(at_level) for at_level in counts]
        exact = [np.nan if one is None else float(one) for one in exact]
        found.close(jaxrob.metrics.measures[name](counts), exact, name, within=0)
        shares = [slow.shares(at_level, name) for at_level in counts]
        if None in shares:
            continue
        ends = np.array([slow.wilson(*share) for share in shares]).T
        got = np.array(jaxrob.metrics.bands(counts, name))
        found.close(got, ends, f"bands of {name}", within=1e-9)
