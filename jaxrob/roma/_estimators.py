"""The estimators that `assess` offers, and what an estimator is.

An estimator is a function from N inputs to the probability of a distinct
misclassification near each. To add one:

1. Write a file with the function. "count", for instance, is no more than this::

       def count(work: Work, inputs: Inputs, settings: Settings) -> Answers:
           hits = summarise_draws(work, inputs, settings, HITS)
           return counted(hits, settings.num_samples, settings.confidence_level)

   `_draws` gives it plain draws, in blocks over the devices. `_margins` computes
   by how much a class is the distinct answer. `_cascade` estimates class by class, by
   methods that can be added there.
2. Enter it in `_TABLE` below. If it does not work with every classifier and every
   perturbation, name the function that says why.
3. Describe it in the docstring of `assess`, and its statuses in that of `RomaResult`.
"""

from collections.abc import Callable
from typing import NamedTuple

from jaxrob._arguments.checks import check_choice
from jaxrob.roma._algorithm1 import NORMALITY, roma
from jaxrob.roma._count import HITS, count
from jaxrob.roma._draws import Inputs, Settings, Statistic, Work
from jaxrob.roma._estimate import Answers
from jaxrob.roma.rare._cascade import auto, importance, splitting
from jaxrob.roma.rare._importance import importance_obstacle
from jaxrob.roma.rare._splitting import splitting_obstacle


def no_obstacle(work: Work, image_shape: tuple[int, ...]) -> None:
    """Says that an estimator works with every classifier and perturbation."""
    del work, image_shape


class Estimator(NamedTuple):
    """A way to estimate how probable a distinct misclassification is near inputs.

    Attributes:
      estimate: `estimate(work, inputs, settings)` takes the `Work`, placed on the
        devices, at least one input, and what the caller asked for. It returns the
        `Answers`, one for each input. The answer for an input depends on the input, its
        index and `work.key` alone: not on other inputs, blocks or devices. It raises a
        ValueError if the classifier returns NaN, and calls `settings.bar.update` as it
        goes on.
      obstacle: `obstacle(work, image_shape)` is asked before anything is computed. It
        returns why the estimator does not work with this classifier or perturbation, as
        the end of a sentence about the estimator ("needs a perturbation with a move"),
        or None if it does.
      plain: what it computes of plain draws, None if it is not made of these alone.
    """

    estimate: Callable[[Work, Inputs, Settings], Answers]
    obstacle: Callable[[Work, tuple[int, ...]], str | None] = no_obstacle
    plain: Statistic | None = None


_TABLE = {
    "roma": Estimator(roma, plain=NORMALITY),
    "count": Estimator(count, plain=HITS),
    "importance": Estimator(importance, importance_obstacle),
    "splitting": Estimator(splitting, splitting_obstacle),
    "auto": Estimator(auto),
}

#: How the probability may be estimated; see `assess`.
ESTIMATORS = tuple(_TABLE)


def estimator_named(name: str) -> Estimator:
    """The estimator of a name."""
    check_choice("estimator", name, ESTIMATORS)
    return _TABLE[name]
