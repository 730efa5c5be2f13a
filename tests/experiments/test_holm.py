"""Holm's procedure, against its definition."""

from common import holm
from scipy import stats


def p_value(times, draws):
    return stats.binomtest(times, draws, 0.95, alternative="less").pvalue


def test_a_cell_is_compared_with_the_cells_that_are_left():
    draws = 400
    # The lowest of three must reach 5 % / 3, the next 5 % / 2, the last 5 %.
    times = [368, 370, 371]
    p_values = [p_value(one, draws) for one in times]
    assert p_values[0] < 0.05 / 3 and 0.05 / 3 < p_values[1] < 0.05 / 2
    assert 0.05 / 2 < p_values[2] < 0.05
    assert holm.significantly_below(times, draws, 0.95).tolist() == [True] * 3
    # In any order; if one fails, so do those above it.
    assert holm.significantly_below([371, 368], draws, 0.95).tolist() == [True, True]
    assert not holm.significantly_below([371, 371, 372], draws, 0.95).any()


def test_chance_is_not_significant():
    assert not holm.significantly_below([380] * 48, 400, 0.95).any()
    assert not holm.significantly_below([368] + [380] * 47, 400, 0.95).any()
    assert holm.significantly_below([340] + [380] * 47, 400, 0.95).sum() == 1
