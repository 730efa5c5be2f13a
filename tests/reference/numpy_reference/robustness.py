"""Robustness from the measure at each level, by each rule.

`levels` ascend; `values` are floats, each the correctly rounded exact fraction, since
thresholds are compared in float64: 160 of 200 is 0.8. On the threshold is above.
"""

from fractions import Fraction

from scipy import integrate


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


def quadrature(accepted_at, lower, upper, limit):
    """What `scipy.integrate.quad` gives; None where it gives up."""
    value, _, *rest = integrate.quad(
        lambda level: float(accepted_at(level)),
        lower,
        upper,
        limit=limit,
        full_output=True,
    )
    return None if len(rest) > 1 else value / (upper - lower)


def scored(levels, values, threshold, tolerance, penalization, nominal, mass=None):
    """2024 paper, Definition 8, the integral by the trapezoidal rule.

    `mass(a, b)` is the probability of the levels between; by default they are uniform.
    """
    lower, upper = levels[0], levels[-1]
    if mass is None:

        def mass(a, b):
            return (b - a) / (upper - lower)

    total = 0.0
    for i, value in enumerate(values):
        before = levels[max(i - 1, 0)]
        after = levels[min(i + 1, len(levels) - 1)]
        weight = (mass(before, levels[i]) + mass(levels[i], after)) / 2
        score = reward(value, threshold, tolerance, nominal)
        score -= penalty(value, threshold, penalization)
        total += weight * score
    return 0.5 + 0.5 * total / mass(lower, upper)


def reward(value, threshold, tolerance, nominal):
    """Definition 6."""
    if value < threshold:
        return 0.0
    if callable(tolerance):
        return tolerance(value, threshold)
    if tolerance != "linear":
        return 1.0
    if nominal <= threshold:
        return float(value > 0)
    return (min(value, nominal) - threshold) / (nominal - threshold)


def penalty(value, threshold, penalization):
    """Definition 7."""
    if value >= threshold:
        return 0.0
    if callable(penalization):
        return penalization(value, threshold)
    return (threshold - value) / threshold if penalization == "linear" else 1.0


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
