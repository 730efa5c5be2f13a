"""What a strategy must have, and what it is told."""

import numpy as np
import pytest

from jaxrob.metrics import RULES, heaviside_robustness
from jaxrob.strategies import (
    ASAP,
    Quadrature,
    Question,
    Random,
    Samples,
    Uniform,
    sample,
)

QUESTION = Question(0.0, 1.0, 0.8)


class Ends:
    """The example of `Strategy`'s docstring."""

    rule = "linear"
    rules = ("linear",)

    def propose(self, question, samples):
        known = len(samples.levels) > 0
        return np.array([] if known else [question.lower, question.upper])

    def error_bound(self, question, samples):
        return None


def test_a_strategy_of_one_s_own_is_four_parts():
    found = sample(Ends(), QUESTION, lambda x: 1 - x / 2)
    np.testing.assert_array_equal(found.levels, [0, 1])
    assert found.rounds == 1
    robustness = heaviside_robustness(found.levels, found.values, 0.8, Ends.rule)
    assert robustness == pytest.approx(0.4)


@pytest.mark.parametrize("part", ["rule", "rules", "propose", "error_bound"])
def test_a_part_that_is_missing_is_named(part):
    parts = {name: value for name, value in vars(Ends).items() if name != part}
    with pytest.raises(TypeError, match=f"Mine lacks {part}$"):
        sample(type("Mine", (), parts)(), QUESTION, lambda x: x)


@pytest.mark.parametrize(
    "strategy", [ASAP(), ASAP(64, 128.0), Quadrature(), Random(), Uniform(), Ends()]
)
def test_every_strategy_has_all_parts(strategy):
    assert strategy.rule in strategy.rules and set(strategy.rules) <= set(RULES)
    found = sample(strategy, QUESTION, lambda x: 1 - x / 2)
    bound = strategy.error_bound(QUESTION, found)
    assert bound is None or 0 <= bound <= 1


def test_positions_and_levels_are_inverse_and_exact_at_the_ends():
    question = Question(-4.0, 4.0, 0.8)
    np.testing.assert_array_equal(
        question.levels_at(np.array([0.0, 0.5, 1.0])), [-4, 0, 4]
    )
    levels = np.array([-4.0, -1.5, 0.0, 4.0])
    np.testing.assert_allclose(
        question.levels_at(question.positions_of(levels)), levels
    )


def test_the_typical_number_is_the_median_over_distinct_effects():
    levels = np.arange(5.0)
    inputs = np.array([100, 90, 10, 10, 10])
    assert Samples(levels, levels, inputs).typical_inputs == 10
    effects = np.array([0, 2, 1, 1, 1])
    shared = Samples(levels, levels, inputs, effects)
    np.testing.assert_array_equal(shared.distinct, [0, 1, 2])
    assert shared.typical_inputs == 90
    assert Samples(levels, levels).typical_inputs is None
    assert Samples(levels[:0], levels[:0], inputs[:0]).typical_inputs is None


@pytest.mark.parametrize("number", [0, -5])
def test_values_are_shares_of_at_least_one_input(number):
    with pytest.raises(
        ValueError, match=f"num_inputs must be at least 1.*got {number}"
    ):
        sample(Ends(), QUESTION, lambda x: x, number)
