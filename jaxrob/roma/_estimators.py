"""The estimators that `assess` offers, each one row of a table.

An estimator is a function from N inputs to the probability of a distinct
misclassification near each; `_count.py` has the shortest. `_rare/_cascade.py` estimates
class by class, by methods that can be added there. Results, costs and the command read
the table.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from jaxrob._arguments.checks import check_choice
from jaxrob.roma._algorithm1 import FITTED, NORMALITY, roma, warn_of_contradictions
from jaxrob.roma._draws import COUNTED, HITS, Inputs, Settings, Statistic, Work, count
from jaxrob.roma._estimate import UNSEEN, Answers
from jaxrob.roma._rare._cascade import RARE, auto, importance, splitting
from jaxrob.roma._rare._importance import importance_obstacle
from jaxrob.roma._rare._splitting import splitting_obstacle


class Estimator(NamedTuple):
    """A way to estimate how probable a distinct misclassification is near inputs."""

    # `estimate(work, inputs, settings)` takes the `Work`, placed on the devices, at
    # least one input, and what the caller asked for. It returns the `Answers`, one for
    # each input. The answer for an input depends on the input, its index and `work.key`
    # alone: not on other inputs, blocks or devices. It raises a ValueError if the
    # classifier returns NaN, and calls `settings.bar.update` as it goes on.
    estimate: Callable[[Work, Inputs, Settings], Answers]
    # Those that its answers may have, and what such answers may miss without notice, in
    # words; "" for nothing.
    statuses: Mapping[str, str]
    # `obstacle(work, image_shape)` is asked before anything is computed. It returns why
    # the estimator does not work with this classifier or perturbation, as the end of a
    # sentence about the estimator ("needs a perturbation with a move"), or None if it
    # does.
    obstacle: Callable[[Work, tuple[int, ...]], str | None] = lambda *_: None
    # What it computes of plain draws, None if it is not made of these alone.
    plain: Statistic | None = None
    # Forward passes for an input at most, about, beside its plain draws, where no
    # budget is set.
    most: int = 0
    # The forward passes for an input by default; None if it takes no budget.
    budget: int | None = None
    # `doubt(log_probability, hits, num_samples)` warns of all answers together.
    doubt: Callable[[np.ndarray, np.ndarray, int], None] = lambda *_: None


# By default "auto" spends ten times the paper's passes.
_TABLE = {
    "roma": Estimator(roma, FITTED, plain=NORMALITY, doubt=warn_of_contradictions),
    "count": Estimator(count, COUNTED, plain=HITS),
    "importance": Estimator(importance, RARE, importance_obstacle, most=50_000),
    "splitting": Estimator(splitting, RARE, splitting_obstacle, most=300_000),
    "auto": Estimator(auto, RARE, most=300_000, budget=10_000),
}

#: How the probability may be estimated; see `assess`.
ESTIMATORS = tuple(_TABLE)

#: The caveats of all statuses, "" for none.
STATUSES = {
    status: caveat
    for estimator in _TABLE.values()
    for status, caveat in estimator.statuses.items()
} | {
    UNSEEN: "not looked at; the mean of each category was known within the half width "
    "asked for without them"
}


def estimator_named(name: str) -> Estimator:
    check_choice("estimator", name, ESTIMATORS)
    return _TABLE[name]
