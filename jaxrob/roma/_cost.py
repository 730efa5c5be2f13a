"""How many passes of the network an estimate takes, before it runs."""

from jaxrob.roma._estimators import estimator_named

# The most for an input, about, where no budget is set; see `assess`.
_MOST = {"importance": 50_000, "splitting": 300_000, "auto": 300_000}


def fewest_and_most(
    estimator: str, number: int, num_samples: int, budget: float, all_inputs: bool
) -> tuple[int, int]:
    """Of `number` inputs; `budget` is infinite for no limit."""
    plain = most = num_samples * number
    if estimator_named(estimator).plain is None:
        most = number * int(min(budget, num_samples + _MOST[estimator]))
    return plain if all_inputs else 0, most
