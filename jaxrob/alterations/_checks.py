"""Checks of alterations' ranges of levels and parameters."""

from typing import Any

import numpy as np

from jaxrob._arguments.checks import check_ascending, check_type, checked_number


def checked_range(
    name: str,
    lower: float,
    upper: float,
    identity: float | None = None,
    *,
    at_least: float | None = None,
    at_most: float | None = None,
) -> tuple[float, float]:
    """Returns the ends of a range of levels."""
    name_low, name_high = f"{name}: lower", f"{name}: upper"
    lower = checked_number(name_low, lower, at_least=at_least, at_most=identity)
    upper = checked_number(name_high, upper, at_least=identity, at_most=at_most)
    check_levels_range(name_low, lower, "upper", upper)
    return lower, upper


def check_levels_range(
    lower_name: str, lower: float, upper_name: str, upper: float
) -> None:
    """Rejects a range of levels that is empty in float32, in which levels are computed.

    float32 has no numbers above 3.4e38 and, as XLA computes, none below 1.2e-38 but 0.
    """
    check_ascending(lower_name, lower, upper_name, upper)
    largest = float(np.finfo(np.float32).max)
    got = f"got {lower:g} and {upper:g}"
    if max(-lower, upper) > largest or upper - lower > largest:
        raise ValueError(
            f"{lower_name} and {upper_name} must lie, and lie apart, at most "
            f"{largest:.2g}, the largest number of float32; {got}"
        )
    apart = float(np.float32(upper)) - float(np.float32(lower))
    if apart < np.finfo(np.float32).tiny:
        raise ValueError(
            f"{lower_name} and {upper_name} must differ in float32, in which levels "
            f"are computed; {got}, which are one number there"
        )


def check_parameter(name: str, value: Any) -> None:
    """Rejects a parameter that a document cannot hold."""
    wanted = "a text, a number, a boolean or a function of a shape"
    check_type(name, value, str | int | float, wanted)
    if isinstance(value, float):
        checked_number(name, value)
