"""How levels are evaluated, whichever they are."""

import dataclasses

import jax
from jax.sharding import Mesh
from tqdm.auto import tqdm

from jaxrob._engine.kept_answers import KeptAnswers
from jaxrob._runtime.hosts import is_first


@dataclasses.dataclass(frozen=True)
class Execution:
    """How levels are evaluated: what stays the same in every queue of one call.

    Attributes:
      key: the random key, None if nothing is random.
      mesh: the devices over which the images are split.
      bar: where progress is shown.
      batch_size: images in a block; None takes what fits in memory.
      reduced: whether only counts by class are kept.
      kept: where known answers are found and new ones go, None without a journal.
      looked: what was looked at already for signs of a mistake, once in a call.
    """

    key: jax.Array | None
    mesh: Mesh
    bar: tqdm
    batch_size: int | None = None
    reduced: bool = False
    kept: KeptAnswers | None = None
    looked: set[str] = dataclasses.field(default_factory=set)


def progress_bar(
    name: str, progress: bool, unit: str = "image", total: int = 0
) -> tqdm:
    """A bar, of altered images if not told otherwise; every queue adds to its total."""
    shown = progress and is_first()
    return tqdm(desc=name, unit=unit, unit_scale=True, disable=not shown, total=total)
