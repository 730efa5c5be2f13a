"""The state on the devices that all queues of one run share."""

import dataclasses
import functools
from typing import Any

import jax

from jaxrob._adapters.network import OnHost
from jaxrob._classifier import Classifier, TraceInfo, trace_info, unnamed
from jaxrob._devices.hosts import check_same, is_first, put_whole
from jaxrob._devices.kept import Kept
from jaxrob._devices.memory import bytes_to_keep
from jaxrob._devices.mesh import ImageMesh
from jaxrob._engine.bar import Bar
from jaxrob._engine.cached_answers import CachedAnswers
from jaxrob._engine.on_host import network_on_host
from jaxrob._engine.provenance import arguments_digest
from jaxrob._engine.scores import ScoreRule
from jaxrob._engine.sizes import rows_for
from jaxrob._engine.split_network import check_split_network
from jaxrob._identity.digest import digest
from jaxrob._identity.identity import text


@dataclasses.dataclass(frozen=True, eq=False)
class Execution:
    """A classifier on the devices, and how levels are evaluated.

    Attributes:
      classifier: replicated, or split as it was given, without its names.
      key: the random key, replicated.
      mesh: the devices over which images are sharded.
      bar: the progress bar.
      info: facts about the classifier, from a trace.
      network: the network on this host, or None.
      image_shape: the shape of one image.
      rows: the most images that fit in a step.
      batch_size: images in a block; None: as many as fit in memory.
      reduced: whether only counts by class are kept.
      score: the score of outputs that takes the place of answers, or None.
      cached: finds journaled answers and adds new ones; None without a journal.
      checked: names of the checks for mistakes already made in this call.
      kept: images that stay on the devices for the next levels.
    """

    classifier: Classifier
    key: jax.Array
    mesh: ImageMesh
    bar: Bar
    info: TraceInfo
    network: OnHost | None
    image_shape: tuple[int, ...]
    rows: int
    batch_size: int | None
    reduced: bool = False
    score: ScoreRule | None = None
    cached: CachedAnswers | None = None
    checked: set[str] = dataclasses.field(default_factory=set)
    kept: Kept = dataclasses.field(default_factory=lambda: Kept(0))


def set_up(
    classifier: Classifier,
    image_shape: tuple[int, ...],
    key: jax.Array | None,
    mesh: ImageMesh,
    bar: Bar,
    batch_size: int | None = None,
) -> Execution:
    """Replicates a classifier and the key over the devices; a split network stays."""
    check_split_network(classifier, image_shape, mesh)
    key = _no_key() if key is None else key
    given = classifier, key
    check_same("classifier and key", lambda: arguments_digest(*given), mesh)
    placed, key_there = put_whole((unnamed(classifier), key), mesh)
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
        kept=Kept(bytes_to_keep(mesh)),
    )


def classes_of(execution: Execution) -> int | None:
    """Returns the number of classes that labels may have; None with a score."""
    return None if execution.score is not None else execution.info.num_classes


def check_same_request(execution: Execution, *asked: Any) -> None:
    """Rejects requests that differ between processes."""
    what = "levels and number of images"
    check_same(what, lambda: digest([text(asked)]), execution.mesh)


def progress_bar(name: str, progress: bool, unit: str = "image", total: int = 0) -> Bar:
    """Returns a progress bar. The total grows if queues ask for more."""
    shown = progress and is_first()
    return Bar(desc=name, unit=unit, unit_scale=True, disable=not shown, total=total)


@functools.cache
def _no_key() -> jax.Array:
    """Returns the key that stands in where nothing is random."""
    return jax.random.key(0)
