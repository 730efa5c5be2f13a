"""Categories side by side, against SciPy and Holm's procedure by hand."""

import numpy as np
import pytest
from scipy import stats

from jaxrob.roma import compare_categories
from jaxrob.roma._bounded_mean import mean_interval

RNG = np.random.default_rng(0)
CATEGORIES = np.repeat([0, 1, 3], [40, 30, 20])
PLR = np.concatenate(
    [
        1 - 0.02 * RNG.random(40),
        1 - 0.03 * RNG.random(30),
        1 - 0.2 * RNG.random(20),
    ]
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
    hits = np.array([50, 0, 0, 0, 0, 0])
    found = compare_categories(plr, hits, 100, categories)
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


def test_a_category_without_a_name():
    with pytest.raises(ValueError, match="class_names"):
        compare_categories(PLR, HITS, 1000, CATEGORIES, ("a", "b"))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"hits": np.array([-2, 0])}, "hits"),
        ({"hits": np.array([11, 0])}, "hits"),
        ({"hits": [1]}, "hits"),
        ({"class_names": "ab"}, "class_names"),
    ],
)
def test_counts_that_cannot_be(changed, message):
    arguments = {
        "plr": np.array([0.9, 0.5]),
        "hits": np.array([1, 5]),
        "num_samples": 10,
        "categories": np.array([0, 1]),
    }
    with pytest.raises((TypeError, ValueError), match=message):
        compare_categories(**(arguments | changed))
