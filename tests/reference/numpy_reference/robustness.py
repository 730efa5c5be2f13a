"""Robustness from the measure at each level, by each rule.

`levels` ascend; `values` are floats, each the correctly rounded exact fraction, since
thresholds are compared in float64: 160 of 200 is 0.8. On the threshold is above.
"""

from fractions import Fraction


def count(levels, values, threshold):
    """2020 paper, Definition 5: the share of levels accepted."""
    return Fraction(sum(value >= threshold for value in values), len(values))


def right(levels, values, threshold):
    """2022 paper, section III: an interval counts if its right end is accepted."""
    levels = [Fraction(level) for level in levels]
    total = sum(
        (after - before)
        for before, after, value in zip(levels, levels[1:], values[1:])
        if value >= threshold
    )
    return total / (levels[-1] - levels[0])


def linear(levels, values, threshold):
    """The values joined by straight lines."""
    levels = [Fraction(level) for level in levels]
    total = Fraction(0)
    for i in range(len(levels) - 1):
        low, high = sorted((values[i], values[i + 1]))
        if low >= threshold:
            share = Fraction(1)
        elif high >= threshold:
            share = (Fraction(high) - Fraction(threshold)) / (
                Fraction(high) - Fraction(low)
            )
        else:
            share = Fraction(0)
        total += share * (levels[i + 1] - levels[i])
    return total / (levels[-1] - levels[0])


RULES = {"count": count, "right": right, "linear": linear}


def accepted_intervals(levels, values, threshold):
    """Where the values, joined by straight lines, are at least the threshold."""
    found = []
    for i, (level, value) in enumerate(zip(levels, values)):
        if value < threshold:
            continue
        start = end = level
        if i > 0 and values[i - 1] < threshold:
            start = crossing(levels, values, threshold, i, i - 1)
        if i + 1 < len(levels) and values[i + 1] < threshold:
            end = crossing(levels, values, threshold, i, i + 1)
        if i > 0 and values[i - 1] >= threshold:
            found[-1][1] = end
        else:
            found.append([start, end])
    return found


def crossing(levels, values, threshold, above, below):
    share = (values[above] - threshold) / (values[above] - values[below])
    return levels[above] + share * (levels[below] - levels[above])
