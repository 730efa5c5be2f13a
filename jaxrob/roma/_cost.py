"""How many passes of the network an estimate takes, before it runs."""

from jaxrob._engine.cost import Cost
from jaxrob.roma._estimators import estimator_named

# The most for an input, about, where no budget is set; see `assess`.
_MOST = {"importance": 50_000, "splitting": 300_000, "auto": 300_000}
#: Of fewer inputs, fewer or as few as the answer takes are no advice.
FEW_INPUTS = 100
_NO_GRADIENTS = (
    "no gradients, as of a network on the host: rare misclassifications take many more "
    'passes, and what the budget does not decide will be "undecided", with an interval '
    "alone. A larger budget decides more"
)


def expected_cost(
    estimator: str,
    number: int,
    num_samples: int,
    budget: float,
    half_width: float | None,
    has_gradients: bool = True,
) -> Cost:
    """Returns the cost of an assessment.

    Args:
      estimator: one of `ESTIMATORS`.
      number: inputs.
      num_samples: plain draws for each.
      budget: passes for each at most, infinite for no limit.
      half_width: None if all inputs are looked at.
      has_gradients: False if "auto" has only particles for what plain draws leave open.
    """
    plain, counted = num_samples * number, f"{num_samples * number:,}"
    cheaper, note = ["fewer num_samples="], None
    if number > FEW_INPUTS:
        cheaper.insert(0, "fewer images")
        if half_width is None:
            cheaper.append("half_width=0.02 (as few images as the answer takes)")
    if estimator_named(estimator).plain is not None:
        fewest, most = plain, plain
    else:
        most = number * int(min(budget, num_samples + _MOST[estimator]))
        fewest = plain
        cheaper.insert(0, f'estimator="count" ({counted} passes)')
        if estimator == "auto":
            cheaper.insert(0, "a smaller budget=")
            if not has_gradients and budget < num_samples + _MOST[estimator]:
                note = _NO_GRADIENTS
    fewest = 0 if half_width is not None else fewest
    return Cost(fewest, most, ", ".join(cheaper), note=note)
