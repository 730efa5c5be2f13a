"""Half widths of the categories' means, and other confidence levels."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from common.timing import compilations
from scipy import special, stats

import jaxrob
from jaxrob import reporting
from jaxrob._engine.queue import random_order
from jaxrob.roma import RomaResult, assess, compare_categories
from jaxrob.roma._assess import answers_of_few
from jaxrob.roma._categorial import inputs_mean, mean_of_all, means_by_category
from jaxrob.roma._draws import Inputs, Settings, counted
from jaxrob.roma._estimate import Answers, unknown, with_estimates, with_second_opinion

from .test_assess import FIRST, SECOND, network

KEY = jax.random.key(5)
FIELDS = ("status", "log_adversarial_probability", "log_low", "log_high", "hits")

NUMBER = 300
RNG = np.random.default_rng(20)
# Known plr of 300 inputs.
SHAPES = {
    "ones": np.ones(NUMBER),
    "constant": np.full(NUMBER, 0.7),
    "two values": (np.arange(NUMBER) % 10 > 0).astype(float),
    "one of 300": (np.arange(NUMBER) > 0).astype(float),
    "U-shaped": RNG.beta(0.3, 0.3, NUMBER),
}


def ended(plr, categories, order, half_width):
    """What a run on inputs of known plr looks at: their values and places."""

    def answer(inputs, settings):
        del settings
        log_p = np.log1p(-plr[inputs.indices])
        none = np.full(len(log_p), np.nan)
        zeros = np.zeros(len(log_p), int)
        return Answers(np.full(len(log_p), "fine"), log_p, none, none, zeros, zeros + 1)

    number = len(plr)
    indices = np.arange(number, dtype=np.uint32)
    inputs = Inputs(np.zeros((number, 1)), indices, np.zeros(number, np.int32))
    with np.errstate(divide="ignore"):
        answers, place = answers_of_few(
            answer,
            inputs,
            Settings(0.6, 10, None),
            categories=categories,
            order=order,
            half_width=half_width,
        )
    np.testing.assert_array_equal(place >= 0, answers.evaluations > 0)
    np.testing.assert_array_equal(place >= 0, answers.status == "fine")
    values = -np.expm1(answers.log_adversarial_probability)
    np.testing.assert_allclose(values[place >= 0], plr[place >= 0], atol=1e-12)
    assert np.isnan(values[place < 0]).all() and (answers.hits[place < 0] == -1).all()
    return values, place


def misses(plr, categories, seeds, half_width):
    """In how many runs any interval misses, and how many inputs were looked at."""
    truth = [plr[categories == number].mean() for number in np.unique(categories)]
    missed, seen = 0, []
    for seed in seeds:
        order = np.random.default_rng(seed).permutation(len(plr))
        values, place = ended(plr, categories, order, half_width)
        means = means_by_category(values, place, categories, 0.05)
        for one in means:
            assert one.high - one.low <= 2 * half_width
        if len(means) > 1:
            means.append(mean_of_all(values, place, categories, 0.05))
        missed += any(
            not one.low - 1e-9 <= right <= one.high + 1e-9
            for one, right in zip(means, [*truth, plr.mean()])
        )
        seen.append((place >= 0).sum())
    return missed, np.mean(seen)


@pytest.mark.slow
def test_all_intervals_hold_together():
    plr = np.concatenate([*SHAPES.values()])
    missed, seen = misses(plr, np.repeat(np.arange(5), NUMBER), range(500, 530), 0.08)
    assert stats.binomtest(missed, 30, 0.05, alternative="greater").pvalue > 0.01
    # What spreads little takes fewer inputs.
    assert seen < 0.6 * len(plr)


def test_a_known_category_is_left_out_and_the_others_go_on():
    plr = np.concatenate([SHAPES["constant"], SHAPES["U-shaped"]])
    categories = np.repeat([0, 4], NUMBER)
    order = np.random.default_rng(3).permutation(2 * NUMBER)
    values, place = ended(plr, categories, order, 0.05)
    seen = [(place[categories == number] >= 0).sum() for number in (0, 4)]
    assert seen[0] < 150 < seen[1]
    # Each category's inputs come in the order that was given.
    for number in (0, 4):
        mine = order[categories[order] == number]
        shown = place[mine][place[mine] >= 0]
        assert (np.diff(shown) > 0).all() and (place[mine][len(shown) :] == -1).all()
    found = compare_categories(values, None, 1, categories, place=place)
    np.testing.assert_array_equal(found.seen, seen)
    np.testing.assert_array_equal(found.answered, seen)
    np.testing.assert_array_equal(found.inputs, [NUMBER, NUMBER])


def test_few_inputs_are_all_looked_at():
    plr, categories = np.linspace(0, 1, 7), np.array([0, 0, 0, 1, 1, 1, 2])
    values, place = ended(plr, categories, np.arange(7)[::-1], 0.01)
    assert sorted(place) == list(range(7))
    found = compare_categories(values, None, 1, categories, place=place)
    for number in range(3):
        exact = plr[categories == number].mean()
        assert found.inputs_interval[number] == pytest.approx([exact, exact])


def test_a_population_of_ones_is_not_known_to_be_all_ones():
    low, high = inputs_mean(np.ones(50), 2**40, 0.05)[1:]
    assert 0.05 ** (1 / 50) > low > 0.7 and high == 1


CLASSIFIER = jaxrob.Classifier(network, (FIRST, SECOND / 1.5))
IMAGES = np.random.default_rng(1).integers(0, 256, (400, 4, 5, 1), dtype=np.uint8)
LABELS = np.arange(400) % 2
# NumPy's numbers are taken as well.
SETTINGS = {
    "epsilon": np.float32(0.1),
    "num_samples": np.int64(60),
    "key": KEY,
    "delta": 0.5,
    "estimator": "count",
}


def asked(images=IMAGES, **settings):
    return assess(CLASSIFIER, images, LABELS, **(SETTINGS | settings))


@pytest.fixture(scope="module")
def full():
    return asked()


@pytest.fixture(scope="module")
def early():
    return asked(half_width=0.1)


def check_same_where_seen(found, full):
    for name in FIELDS:
        np.testing.assert_array_equal(
            getattr(found, name)[found.seen], getattr(full, name)[found.seen]
        )
    np.testing.assert_array_equal(found.excluded, full.excluded)


@pytest.mark.slow
def test_answers_are_those_of_the_full_run(early, full):
    assert 64 <= early.seen.sum() < 300
    check_same_where_seen(early, full)
    order = random_order(KEY, 400)
    np.testing.assert_array_equal(
        order[: early.seen.sum()], np.argsort(early.place)[(~early.seen).sum() :]
    )


def test_blocks_of_any_number_share_their_steps():
    """No program is compiled for the blocks, however many inputs are left."""
    key = jax.random.key(6)
    # First here, because a process with many programs forgets them between two tests.
    asked(half_width=0.1, key=key)
    with compilations() as programs:
        asked(half_width=0.2, key=key)
        asked(half_width=0.03, key=key)
    assert not programs


def test_a_jax_array_is_an_array(full):
    assert asked(jnp.asarray(IMAGES)).to_json() == full.to_json()


def test_what_was_not_looked_at_is_said_so(early):
    unseen = ~early.seen
    assert (early.status[unseen] == "unseen").all()
    assert not early.answered[unseen].any() and np.isnan(early.plr[unseen]).all()
    assert (early.evaluations[unseen] == 0).all()
    assert np.isnan(early.confidence_interval[unseen]).all()
    words = f"unseen ({unseen.sum()} of 400): not looked at"
    assert any(one.startswith(words) for one in early.caveats)


def test_means_are_known_to_the_half_width(early, full):
    found, exact = early.categorial(), full.categorial()
    low, high = found.inputs_interval.T
    assert ((low <= exact.plr_all) & (exact.plr_all <= high)).all()
    assert (high - low <= 0.2).all()
    start, end = early.mean_plr_interval
    assert start <= full.mean_plr <= end and end - start < (high - low).max()
    assert start <= early.mean_plr <= end
    assert full.mean_plr_interval == (full.mean_plr, full.mean_plr)
    np.testing.assert_array_equal(exact.inputs_interval.T, [exact.plr_all] * 2)
    found = reporting.quantities(early)
    assert found["plr"] == early.mean_plr
    assert found["plr.low"] < full.confidence_interval[:, 0].mean() < start


def test_back_from_json(early):
    text = early.to_json()
    after = RomaResult.from_json(text)
    assert after.to_json() == text and after.mean_plr_interval == (
        early.mean_plr_interval
    )
    np.testing.assert_array_equal(after.place, early.place)


def test_a_resumed_run_ends_alike(early, tmp_path):
    path = tmp_path / "journal"
    again = functools.partial(asked, half_width=0.1, journal=path)
    expected = early.to_json()
    assert again().to_json() == expected
    content = path.read_bytes()
    path.write_bytes(content[: 2 * len(content) // 3])
    assert again().to_json() == expected and path.read_bytes() == content
    with pytest.raises(ValueError, match="half_width"):
        again(half_width=None)


def test_what_a_number_fixed_beforehand_needs_is_refused(early):
    with pytest.raises(ValueError, match="global_robustness"):
        early.global_robustness()


@pytest.mark.parametrize("half_width", [0.0, 0.5])
def test_bad_arguments(half_width):
    with compilations() as programs, pytest.raises(ValueError, match="half_width"):
        asked(half_width=half_width)
    assert not programs


def test_bad_places():
    plr = np.array([0.5, 1.0, 1.0])
    for place in ([0, 0, -1], [1, 2, -1], [-2, 0, 1], [0, 1]):
        with pytest.raises(ValueError, match="place"):
            compare_categories(plr, None, 1, np.zeros(3, int), place=np.array(place))


@pytest.fixture(scope="module")
def sure():
    return asked(confidence_level=0.999)


@pytest.mark.slow
def test_counts_have_exact_intervals_of_the_level(sure):
    assert sure.confidence_level == 0.999
    for index in (0, int(np.argmax(sure.hits))):
        hits = int(sure.hits[index])
        expected = stats.binomtest(hits, 60).proportion_ci(0.999, "exact")
        found = 1 - sure.confidence_interval[index][::-1]
        np.testing.assert_allclose(found, expected, atol=1e-12)


def test_a_journal_of_another_level_is_refused(tmp_path):
    journal = tmp_path / "journal"
    asked(journal=journal)
    with pytest.raises(ValueError, match="confidence_level"):
        asked(confidence_level=0.99, journal=journal)


@pytest.mark.slow
def test_a_surer_mean_takes_more_inputs():
    seen = []
    for level in (0.5, 0.999):
        found = asked(confidence_level=level, half_width=0.15)
        seen.append(found.seen.sum())
        low, high = found.categorial().inputs_interval.T
        assert (high - low <= 0.3).all()
    assert seen[0] < seen[1]


def test_means_are_of_the_level(sure):
    found = sure.categorial()
    usual = compare_categories(sure.plr, sure.hits, 60, sure.labels)
    assert (found.interval[:, 0] < usual.interval[:, 0]).all()
    assert (found.interval[:, 1] >= usual.interval[:, 1]).all()
    # The p-values are no intervals.
    np.testing.assert_array_equal(found.welch, usual.welch)
    assert sure.global_robustness("label", jointly=False).confidence_level == 0.999
    assert sure.global_robustness("label", confidence_level=0.9).confidence_level == 0.9


@pytest.mark.parametrize(("level", "alike"), [(0.2, False), (0.999, True)])
def test_estimates_have_intervals_of_the_level(level, alike):
    z = special.ndtri((1 + level) / 2)
    first = unknown(2)._replace(
        status=np.full(2, "splitting"),
        log_probability=np.log([1e-5, 1e-5]),
        standard_error=np.full(2, 0.1),
    )
    second = unknown(2)._replace(
        other_log_probability=np.log([np.nan, 3e-5]), other_error=np.full(2, 0.2)
    )
    # What excludes each other leaves no answer, and an interval that holds both.
    found = with_second_opinion(first, second, alike, level)
    answers = with_estimates(counted(np.zeros(2, int), 9, level), [0, 1], found, level)
    assert np.isnan(answers.log_adversarial_probability).tolist() == [False, True]
    np.testing.assert_allclose(answers.log_low, np.log(1e-5) - 0.1 * z)
    np.testing.assert_allclose(
        answers.log_high, np.log([1e-5, 3e-5]) + [0.1 * z, 0.2 * z]
    )


@pytest.mark.parametrize("level", [0, 1, np.nan, "0.95"])
def test_the_level_lies_between_0_and_1(level):
    with pytest.raises((ValueError, TypeError), match="confidence_level"):
        asked(confidence_level=level)
    with pytest.raises((ValueError, TypeError), match="confidence_level"):
        compare_categories(np.ones(3), None, 9, np.zeros(3, int), None, None, level)


@pytest.mark.parametrize("level", [1e-6, 1 - 1e-12])
def test_far_levels_are_finite(level):
    values = np.linspace(0, 1, 30)
    for place in (None, np.arange(30)):
        found = compare_categories(
            values, None, 9, np.arange(30) % 3, place=place, confidence_level=level
        )
        low, high = found.interval.T
        assert ((low >= 0) & (low <= found.plr) & (found.plr <= high)).all()
        assert (high <= 1).all()
