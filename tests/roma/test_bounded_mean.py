"""Intervals of means without assumptions, and categories side by side."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from jaxrob.roma import compare_categories, inputs_needed
from jaxrob.roma._bounded_mean import mean_interval

TAIL = 0.025


def hoeffding(values, tail):
    half = np.sqrt(np.log(1 / tail) / (2 * len(values)))
    return max(values.mean() - half, 0), min(values.mean() + half, 1)


@pytest.mark.slow
@given(
    values=arrays(
        float,
        st.integers(1, 60),
        elements=st.one_of(st.sampled_from([0.0, 1.0]), st.floats(0, 1)),
    ),
    tail=st.floats(1e-6, 0.25),
    draws=st.sampled_from([None, 2, 8]),
)
@settings(max_examples=20, deadline=None)
def test_never_reaches_beyond_hoeffdings(values, tail, draws):
    low, high = mean_interval(values, values, tail, draws)
    least, most = hoeffding(values, tail)
    assert least - 1e-9 <= low <= values.mean() + 1e-9
    assert values.mean() - 1e-9 <= high <= most + 1e-9


@pytest.mark.slow
@given(
    values=arrays(float, st.integers(1, 40), elements=st.floats(0, 1)),
    seed=st.integers(0),
)
@example(values=np.array([5e-324]), seed=0)
@settings(max_examples=20, deadline=None)
def test_neither_order_nor_which_answer_counts_matters(values, seed):
    ends = mean_interval(values, values, TAIL)
    shuffled = np.random.default_rng(seed).permutation(values)
    assert mean_interval(shuffled, shuffled, TAIL) == pytest.approx(ends, abs=1e-9)
    other = mean_interval(1 - values, 1 - values, TAIL)
    assert (1 - other[1], 1 - other[0]) == pytest.approx(ends, abs=1e-4)


@given(
    values=arrays(float, st.integers(1, 40), elements=st.floats(0, 0.5)),
    more=st.floats(0, 0.5),
)
@settings(max_examples=20, deadline=None)
def test_what_is_not_known_widens_it(values, more):
    known = mean_interval(values, values, TAIL)
    low, high = mean_interval(values, values + more, TAIL)
    assert low == known[0]
    assert high >= known[1] - 1e-9


def test_one_draw_each_is_clopper_and_pearsons():
    for hits, number in ((0, 50), (3, 1000), (50, 50), (17, 40)):
        values = np.repeat([1.0, 0.0], [hits, number - hits])
        expected = stats.binomtest(hits, number).proportion_ci(0.95, method="exact")
        assert mean_interval(values, values, TAIL, 1) == pytest.approx(expected)


def test_rare_hits_are_far_narrower_than_hoeffdings():
    values = np.zeros(10_000)
    values[:3] = 1 / 8, 1, 3 / 8
    low, high = mean_interval(values, values, TAIL, 8)
    assert high - low < 0.06 * np.subtract(*hoeffding(values, TAIL)[::-1])
    # Without a hit it is little wider than the exact one of one draw each.
    low, high = mean_interval(values * 0, values * 0, TAIL, 8)
    exact = stats.binomtest(0, 10_000).proportion_ci(0.95, method="exact").high
    assert low == 0 and exact < high < 1.2 * exact


@pytest.mark.parametrize("scale", [1e-6, 1e-30])
def test_small_means_have_lower_ends_that_are_not_lost_in_rounding(scale):
    for values in (np.ones(1000), np.geomspace(0.01, 1, 1000)):
        low, _ = mean_interval(scale * values, scale * values, TAIL)
        assert 0.01 < low / (scale * values.mean()) < 1


def simulated_widths(plan, p, correlation, confidence, runs=15):
    rng = np.random.default_rng(0)
    widths = []
    for _ in range(runs):
        local = np.full(plan.inputs, p)
        if correlation == 1:
            local = (rng.random(plan.inputs) < p).astype(float)
        elif correlation:
            ends = np.array([p, 1 - p]) * (1 / correlation - 1)
            local = rng.beta(*ends, plan.inputs)
        values = rng.binomial(plan.num_samples, local) / plan.num_samples
        tail = (1 - confidence) / 2
        interval = mean_interval(values, values, tail, plan.num_samples)
        widths.append(interval[1] - interval[0])
    return np.median(widths)


@pytest.mark.parametrize(
    ("p", "relative", "correlation", "draws"),
    [(0.3, 0.1, 0.2, None), (0.1, 0.2, 0.0, 8)],
)
def test_intervals_are_as_wide_as_asked_for(p, relative, correlation, draws):
    plan = inputs_needed(
        p,
        relative=relative,
        correlation=correlation,
        num_samples=draws,
        confidence_level=0.9,
    )
    assert plan.evaluations == plan.inputs * (1 + plan.num_samples)
    width = simulated_widths(plan, p, correlation, 0.9)
    assert 0.94 <= width / (2 * relative * p) <= 1.06


def test_one_draw_each_by_the_exact_interval():
    plan = inputs_needed(0.3, half_width=0.02, num_samples=1)
    for number, enough in ((plan.inputs, True), (round(0.98 * plan.inputs), False)):
        hits = round(0.3 * number)
        low, high = stats.binomtest(hits, number).proportion_ci(0.95, "exact")
        assert (high - low <= 0.04 * 1.002) == enough


def test_draws_are_those_that_cost_least():
    alike = {"half_width": 0.003, "correlation": 0.001}
    best = inputs_needed(0.05, **alike)
    for draws in (16, 64):
        other = inputs_needed(0.05, num_samples=draws, **alike)
        assert best.evaluations < other.evaluations
    # Where inputs are always or never misclassified, more draws tell nothing.
    assert inputs_needed(0.05, half_width=0.01).num_samples == 8


def test_draws_hardly_correlated_are_independent_ones():
    none, hardly, all_but, wholly = (
        inputs_needed(0.1, relative=0.2, correlation=correlation, num_samples=8).inputs
        for correlation in (0, 5e-324, 1 - 1e-12, 1)
    )
    assert none == hardly < all_but == wholly


@pytest.mark.slow
def test_several_categories_take_more():
    known = {"relative": 0.4, "correlation": 0.2, "num_samples": 8}
    one, ten = (inputs_needed(0.1, **known, categories=number) for number in (1, 10))
    stricter = inputs_needed(0.1, **known, confidence_level=0.995)
    assert one.inputs < ten.inputs == stricter.inputs


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"probability": 0.0}, "probability"),
        ({"half_width": None}, "half_width"),
        ({"relative": 0.1}, "relative"),
        ({"half_width": 0.6}, "half_width"),
        ({"correlation": 1.5}, "correlation"),
        ({"num_samples": 0}, "num_samples"),
        ({"confidence_level": 0.2}, "confidence_level"),
        ({"categories": 0}, "categories"),
        ({"half_width": 1e-7}, "2147483647"),
    ],
)
def test_refusals(arguments, message):
    with pytest.raises(ValueError, match=message):
        inputs_needed(**({"probability": 0.1, "half_width": 0.05} | arguments))


RNG = np.random.default_rng(0)
CATEGORIES = np.repeat([0, 1, 3], [40, 30, 20])
PLR = np.concatenate(
    [1 - 0.02 * RNG.random(40), 1 - 0.03 * RNG.random(30), 1 - 0.2 * RNG.random(20)]
)
HITS = RNG.binomial(1000, (1 - PLR) ** 2)
FAILED = np.zeros(90, bool)
FAILED[[0, 5, 41, 75, 76]] = True
SOME = np.where(FAILED, np.nan, PLR)


def holm(p_values):
    """Step down from the smallest: times m, m - 1, ..., never below one before."""
    corrected, largest = {}, 0.0
    for rank, number in enumerate(np.argsort(p_values)):
        largest = max(largest, (len(p_values) - rank) * p_values[number])
        corrected[number] = min(largest, 1.0)
    return [corrected[number] for number in range(len(p_values))]


def test_means_and_spreads():
    found = compare_categories(SOME, HITS, 1000, CATEGORIES, ("a", "b", "c", "d"))
    assert found.names == ("a", "b", "d")
    np.testing.assert_array_equal(found.inputs, [40, 30, 20])
    np.testing.assert_array_equal(found.answered, [38, 29, 18])
    for number, category in enumerate((0, 1, 3)):
        mine = SOME[(CATEGORIES == category) & ~FAILED]
        assert found.plr[number] == pytest.approx(mine.mean())
        assert found.adversarial[number] == pytest.approx(1 - mine.mean())
        assert found.std[number] == pytest.approx(mine.std(ddof=1))
        interval = mean_interval(mine, mine, 0.025)
        assert found.interval[number] == pytest.approx(interval)
        everyone = np.where(FAILED, 1 - HITS / 1000, PLR)[CATEGORIES == category]
        assert found.plr_all[number] == pytest.approx(everyone.mean())


def test_p_values():
    found = compare_categories(SOME, HITS, 1000, CATEGORIES)
    assert found.names == ("0", "1", "3")
    groups = [SOME[(CATEGORIES == c) & ~FAILED] for c in (0, 1, 3)]
    hits = [HITS[CATEGORIES == c] > 0 for c in (0, 1, 3)]
    pairs = [(0, 1), (0, 2), (1, 2)]
    welch, binomial = [], []
    for i, j in pairs:
        pair = groups[i], groups[j]
        tests = [stats.ttest_ind(*pair, equal_var=alike) for alike in (False, True)]
        tests += [stats.mannwhitneyu(*pair)] * (min(map(len, pair)) < 30)
        welch.append(max(test.pvalue for test in tests))
        # Of all inputs with a hit, those of the first; by its share of the inputs.
        share = len(hits[i]) / (len(hits[i]) + len(hits[j]))
        total = int(hits[i].sum() + hits[j].sum())
        binomial.append(stats.binomtest(int(hits[i].sum()), total, share).pvalue)
    for got, expected in ((found.welch, welch), (found.binomial, binomial)):
        np.testing.assert_array_equal(np.diag(got), 1)
        np.testing.assert_array_equal(got, got.T)
        assert [got[pair] for pair in pairs] == pytest.approx(holm(expected))
    assert found.welch[0, 2] < 0.001 < found.welch[0, 1]


@pytest.mark.parametrize("sizes", [np.full(30, 20), np.r_[290, np.full(29, 20)]])
@pytest.mark.parametrize("mean", [0.03, 0.5])
def test_groups_of_inputs_are_worth_their_number(sizes, mean):
    """Groups that are misclassified as one, as copies are."""
    rng = np.random.default_rng(6617)
    groups, held = np.repeat(np.arange(30), sizes), np.zeros(2)
    for _ in range(40):
        hit = 1.0 * (rng.random(30) < mean)[groups]
        ends = [mean_interval(hit, hit, 0.025, groups=one) for one in (groups, None)]
        held += [low <= mean <= high for low, high in ends]
    assert held[0] >= 35 > held[1]
    values = rng.random(30)
    of_groups = mean_interval(values, values, 0.025, groups=rng.permutation(30))
    assert of_groups == pytest.approx(mean_interval(values, values, 0.025))


def test_categories_of_inputs_in_groups():
    groups = np.arange(len(SOME)) // 10
    found = compare_categories(SOME, HITS, 1000, CATEGORIES, groups=groups)
    alone = compare_categories(SOME, HITS, 1000, CATEGORIES)
    assert (found.interval[:, 0] < alone.interval[:, 0]).all()
    assert np.isnan(found.welch[0, 1]) and np.isnan(found.binomial[0, 1])
    np.testing.assert_array_equal(found.inputs_interval, alone.inputs_interval)
    place = np.arange(len(SOME))
    found = compare_categories(SOME, HITS, 1000, CATEGORIES, place=place, groups=groups)
    assert (found.interval == [0, 1]).all()
    with pytest.raises(ValueError, match="groups"):
        compare_categories(SOME, HITS, 1000, CATEGORIES, groups=groups[1:])


def test_equal_answers_leave_room_for_others():
    """As many ones as there are hide a share of zeros that Clopper and Pearson tell."""
    for number in (1, 2, 3, 30):
        found = compare_categories(np.ones(number), None, 10, np.zeros(number, int))
        low, high = found.interval[0]
        assert 0 <= low <= 0.025 ** (1 / number) + 1e-9 and high == 1


def test_categories_with_few_answers_or_none():
    plr = np.array([np.nan, np.nan, 0.9, 0.99, 0.98, 0.97])
    categories = np.array([0, 0, 1, 2, 2, 2])
    found = compare_categories(plr, None, 100, categories)
    np.testing.assert_array_equal(found.answered, [0, 1, 3])
    np.testing.assert_array_equal(np.isnan(found.plr), [True, False, False])
    np.testing.assert_array_equal(np.isnan(found.std), [True, True, False])
    np.testing.assert_array_equal(np.isnan(found.interval[:, 0]), [True, False, False])
    np.testing.assert_array_equal(np.isnan(found.plr_all), [True, False, False])
    off = ~np.eye(3, dtype=bool)
    assert np.isnan(found.welch[off]).all() and np.isnan(found.binomial[off]).all()
    found = compare_categories(plr, np.array([50, 0, 0, 0, 0, 0]), 100, categories)
    assert found.plr_all[0] == pytest.approx(0.75)


def test_equal_answers_and_no_hits():
    plr, categories = np.ones(8), np.repeat([0, 1], 4)
    found = compare_categories(plr, np.zeros(8, int), 100, categories)
    np.testing.assert_array_equal(found.welch, 1)
    np.testing.assert_array_equal(found.binomial, 1)
    plr[:4] = 0.5
    # Of 70 ways to divide eight inputs, two are as extreme.
    assert compare_categories(plr, None, 100, categories).welch[0, 1] >= 2 / 70
    many = np.repeat([0, 1], 5000)
    assert compare_categories(many / 1.0, None, 100, many).welch[0, 1] > 0


def test_equal_populations_seldom_differ():
    wrong = 0
    for values in np.random.default_rng(1).choice([1, 0.999], (30, 8)):
        found = compare_categories(values, None, 100, np.repeat(np.arange(4), 2))
        wrong += (found.welch < 0.05).any()
    assert wrong <= stats.binom.ppf(0.999, 30, 0.05)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"hits": np.array([-2, 0])}, "hits"),
        ({"hits": np.array([11, 0])}, "hits"),
        ({"hits": [1]}, "hits"),
        ({"class_names": "ab"}, "class_names"),
        ({"class_names": ("a",)}, "class_names"),
    ],
)
def test_counts_and_names_that_cannot_be(changed, message):
    arguments = {
        "plr": np.array([0.9, 0.5]),
        "hits": np.array([1, 5]),
        "num_samples": 10,
        "categories": np.array([0, 1]),
    }
    with pytest.raises((TypeError, ValueError), match=message):
        compare_categories(**(arguments | changed))
