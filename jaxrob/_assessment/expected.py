"""How many levels and passes an assessment takes, before it runs."""

from typing import NamedTuple

from jaxrob._dataset import BatchedDataset, Dataset
from jaxrob._engine.cost import FEW_IMAGES, Cost
from jaxrob.strategies import ASAP, Including, Random, Strategy, Uniform
from jaxrob.strategies._few.search import FewImages

#: Of fewer levels, fewer are no advice. Of a corruption, those of its severities.
FEW_LEVELS = 6
_CHEAPER_OF_FEW = "a larger half_width=, or a budget="


class Levels(NamedTuple):
    """The levels of an alteration that a strategy asks for: at least, usually, at most.

    By ASAP at most, unless a curve crosses the threshold many times.
    """

    fewest: int
    usual: int
    most: int


def expected_levels(strategy: Strategy) -> Levels | None:
    """Returns how many levels a strategy asks for; None if only it knows."""
    if isinstance(strategy, Uniform | Random):
        return Levels(strategy.n, strategy.n, strategy.n)
    if isinstance(strategy, ASAP):
        return Levels(9, 16, 30)
    if isinstance(strategy, Including):
        found, more = expected_levels(strategy.strategy), len(strategy.levels)
        return found and Levels(*(number + more for number in found))
    return None


def expected_cost(
    search: Strategy, dataset: Dataset | BatchedDataset, alterations: int
) -> Cost | None:
    """Returns the cost of an assessment; None if it is unknown.

    Args:
      search: decides which levels, and on how many images.
      dataset: the images.
      alterations: their number.
    """
    few = isinstance(search, FewImages)
    levels = expected_levels(search.levels if few else search)
    if levels is None or not isinstance(dataset, Dataset):
        return None
    at_a_level = len(dataset) * alterations
    fewest, usual, most = (at_a_level * number for number in levels)
    if not few:
        return Cost(fewest, most, _cheaper(len(dataset), levels, alterations), usual)
    budget = search.stopping.budget
    return Cost(0, most if budget is None else min(most, budget), _CHEAPER_OF_FEW)


def _cheaper(images: int, levels: Levels, alterations: int) -> str:
    """Returns what would make an assessment on all images cheaper, in words."""
    cheaper = []
    if images > FEW_IMAGES:
        cheaper.append("half_width=0.02 or budget= (as few images as the answer takes)")
        cheaper.append(f"fewer images (dataset[:{FEW_IMAGES}])")
    if levels.usual > FEW_LEVELS:
        few = f"strategy=jaxrob.strategies.Uniform({FEW_LEVELS})"
        cheaper.append(f"fewer levels ({few})")
    if alterations > 1:
        cheaper.append("fewer alterations")
    return ", ".join(cheaper)
