"""How many passes of the network an estimate takes, before it runs."""

from jaxrob._engine.cost import Cost
from jaxrob.roma._estimators import estimator_named

# The most for an input, about, where no budget is set; see `assess`.
_MOST = {"importance": 50_000, "splitting": 300_000, "auto": 300_000}


def expected_cost(
    estimator: str,
    number: int,
    num_samples: int,
    budget: float,
    half_width: float | None,
) -> Cost:
    """Returns the cost of an assessment.

    Args:
      estimator: one of `ESTIMATORS`.
      number: inputs.
      num_samples: plain draws for each.
      budget: passes for each at most, infinite for no limit.
      half_width: None if all inputs are looked at.
    """
    plain, counted = num_samples * number, f"{num_samples * number:,}"
    cheaper = "fewer images, fewer num_samples="
    if half_width is None:
        cheaper += ", or half_width=0.02 (as few images as the answer takes)"
    if estimator_named(estimator).plain is not None:
        fewest, most = plain, plain
    else:
        most = number * int(min(budget, num_samples + _MOST[estimator]))
        fewest = plain
        cheaper = f'estimator="count" ({counted} passes), {cheaper}'
        if estimator == "auto":
            cheaper = f"a smaller budget=, {cheaper}"
    return Cost(0 if half_width is not None else fewest, most, cheaper)
