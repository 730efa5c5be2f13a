"""What every queue of one run shares, on the devices."""

import dataclasses
import functools
from typing import Any

import jax
from jax.sharding import Mesh
from tqdm.auto import tqdm

from jaxrob._adapters.on_host import OnHost
from jaxrob._classifier import Classifier, TraceInfo, trace_info, unnamed
from jaxrob._devices.hosts import check_same, is_first, put
from jaxrob._devices.mesh import replicated
from jaxrob._engine.cached_answers import CachedAnswers
from jaxrob._engine.on_host import network_on_host
from jaxrob._engine.provenance import arguments_digest
from jaxrob._engine.sizes import rows_for
from jaxrob._identity.digest import digest
from jaxrob._identity.identity import text


@dataclasses.dataclass(frozen=True, eq=False)
class Execution:
    """A classifier on the devices, and how levels are evaluated.

    Attributes:
      classifier: whole on every device, without its names.
      key: the random key, likewise.
      mesh: the devices over which the images are split.
      bar: where progress is shown.
      info: what a trace tells of the classifier.
      network: the network if it is one on this host.
      image_shape: the shape of one image.
      rows: the most images that fit in a step.
      batch_size: images in a block; None takes what fits in memory.
      reduced: whether only counts by class are kept.
      kept: where known answers are found and new ones go, None without a journal.
      looked: what was looked at already for signs of a mistake, once in a call.
    """

    classifier: Classifier
    key: jax.Array
    mesh: Mesh
    bar: tqdm
    info: TraceInfo
    network: OnHost | None
    image_shape: tuple[int, ...]
    rows: int
    batch_size: int | None
    reduced: bool = False
    kept: CachedAnswers | None = None
    looked: set[str] = dataclasses.field(default_factory=set)


def set_up(
    classifier: Classifier,
    image_shape: tuple[int, ...],
    key: jax.Array | None,
    mesh: Mesh,
    bar: tqdm,
    batch_size: int | None = None,
) -> Execution:
    """Puts a classifier and the key on the devices.

    Args:
      classifier: the classifier, fingerprinted.
      image_shape: the shape of one image.
      key: the random key, None if nothing is random.
      mesh: the devices.
      bar: where progress is shown.
      batch_size: images in a block, or None.

    Raises:
      ValueError: if processes differ in the classifier or the key.
    """
    key = _no_key() if key is None else key
    given = classifier, key
    check_same("classifier and key", lambda: arguments_digest(*given), mesh)
    placed, key_there = put((unnamed(classifier), key), replicated(mesh))
    return Execution(
        placed,
        key_there,
        mesh,
        bar,
        trace_info(classifier, image_shape),
        network_on_host(classifier, mesh),
        image_shape,
        rows_for(classifier, image_shape, mesh),
        batch_size,
    )


def check_alike(execution: Execution, *asked: Any) -> None:
    """Refuses what is not asked for alike in all processes.

    Raises:
      ValueError: if processes differ in it.
    """
    what = "levels and number of images"
    check_same(what, lambda: digest([text(asked)]), execution.mesh)


def progress_bar(
    name: str, progress: bool, unit: str = "image", total: int = 0
) -> tqdm:
    """A bar, of altered images if not told otherwise; every queue adds to its total."""
    shown = progress and is_first()
    return tqdm(desc=name, unit=unit, unit_scale=True, disable=not shown, total=total)


@functools.cache
def _no_key() -> jax.Array:
    """The key where nothing is random."""
    return jax.random.key(0)
