"""What every entry point does before it computes, in one place."""

import contextlib
import dataclasses
import functools
import pathlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh

from jaxrob._arguments.checks import (
    check_type,
    checked_flag,
    checked_integer,
    checked_path,
)
from jaxrob._arguments.warnings import collected
from jaxrob._classifier import Classifier
from jaxrob._dataset import BatchedDataset, Dataset
from jaxrob._devices.memory_maps import make_room
from jaxrob._devices.mesh import checked_mesh
from jaxrob._engine.cached_answers import cached_answers_in
from jaxrob._engine.checks import (
    check_together,
    first_image_and_length,
)
from jaxrob._engine.execution import Execution, progress_bar, set_up
from jaxrob._engine.provenance import provenance
from jaxrob._keys import checked_key
from jaxrob._run.as_they_are import as_they_are
from jaxrob._run.pseudo_labels import labelled
from jaxrob.alterations import Alteration


class Arguments(NamedTuple):
    """The arguments that entry points share, each checked for itself.

    Attributes:
      classifier: the classifier.
      dataset: the images.
      alterations: the alterations, at least one.
      key: a threefry key, None if nothing is random.
      mesh: the devices.
      batch_size: images in a block, None for as many as fit.
      reduced: whether only counts by class are kept.
      journal: the journal's path, or None.
      progress: whether a progress bar is shown.
    """

    classifier: Classifier
    dataset: Dataset | BatchedDataset
    alterations: Sequence[Alteration]
    key: jax.Array | None
    mesh: Mesh
    batch_size: int | None
    reduced: bool
    journal: pathlib.Path | None
    progress: bool


class Run(NamedTuple):
    """What is measured, checked and fingerprinted, and how.

    Attributes:
      classifier: the classifier, fingerprinted.
      dataset: the images with labels: the network's own answers if there were none.
      alterations: the alterations, fingerprinted.
      image: the first image.
      key: the key as it was given, None if nothing is random.
      execution: the classifier and the key on the devices, the journal's answers and
        the bar.
      source: returns the provenance. It reads all data at its first call.
      warned: what is warned of all, until the run ends.
      warned_of_each: what was warned of each alteration.
    """

    classifier: Classifier
    dataset: Dataset | BatchedDataset
    alterations: tuple[Alteration, ...]
    image: np.ndarray
    key: jax.Array | None
    execution: Execution
    source: Callable[[], dict[str, Any]]
    warned: list[str]
    warned_of_each: list[list[str]]


def checked_arguments(
    classifier: Any,
    dataset: Any,
    alterations: Sequence[Any],
    key: Any,
    mesh: Any,
    batch_size: Any = None,
    reduced: Any = False,
    journal: Any = None,
    progress: Any = False,
) -> Arguments:
    """Checks each argument for itself, without tracing.

    Raises:
      TypeError: if an argument has a wrong type.
      ValueError: if the key is not a single one, the batch size below 1, the path empty
        or the mesh of some processes alone.
    """
    check_type("classifier", classifier, Classifier, "a jaxrob.Classifier")
    is_array = isinstance(dataset, np.ndarray | jax.Array)
    wanted = "a jaxrob.Dataset" + is_array * ": say jaxrob.Dataset(images, labels)"
    check_type("dataset", dataset, Dataset | BatchedDataset, wanted)
    for one in alterations:
        check_type("alteration", one, Alteration, "a jaxrob.Alteration")
    if key is not None:
        key = checked_key(key)
    if batch_size is not None:
        checked_integer("batch_size", batch_size, at_least=1)
    checked_flag("reduced", reduced)
    checked_flag("progress", progress)
    if journal is not None:
        journal = checked_path("journal", journal)
    given = classifier, dataset, alterations, key, checked_mesh(mesh)
    return Arguments(*given, batch_size, reduced, journal, progress)


@contextlib.contextmanager
def prepare_run(arguments: Arguments) -> Iterator[Run]:
    """Checks that the arguments go together, and opens what the run writes to.

    The journal and the bar are closed at its end, and warnings are gathered until then.
    In several processes all of them must come here with the same arguments.

    Args:
      arguments: as `checked_arguments` returns them; what else an entry point is given
        must have been checked too.

    Raises:
      ValueError: if the arguments do not go together, see `check_together`, or the
        journal is of something else or cannot tell what is measured from others.
      OSError: if the journal cannot be read or written.
    """
    classifier, dataset, alterations, key, mesh, batch_size, *_ = arguments
    make_room()
    with collected() as warned:
        image, _ = first_image_and_length(dataset)
        classifier, alterations = as_they_are(classifier, alterations, image)
        each = [_warned(classifier, dataset, one, image, key) for one in alterations]
        with progress_bar(_title(alterations), arguments.progress) as bar:
            about = classifier, image.shape, key, mesh
            execution = set_up(*about, bar, batch_size)
            dataset = labelled(execution, dataset)
            about = classifier, dataset, key, mesh
            source = functools.cache(functools.partial(provenance, *about))
            path = arguments.journal
            with cached_answers_in(
                path, classifier, alterations, source, mesh
            ) as cached:
                # Checks for mistakes run again after those on the labels.
                execution = dataclasses.replace(
                    execution, reduced=arguments.reduced, cached=cached, checked=set()
                )
                what = classifier, dataset, alterations, image
                yield Run(*what, key, execution, source, warned, each)


def _warned(
    classifier: Classifier,
    dataset: Dataset | BatchedDataset,
    alteration: Alteration,
    image: np.ndarray,
    key: jax.Array | None,
) -> list[str]:
    """What is warned of an alteration; refuses what does not go together with it."""
    with collected() as messages:
        check_together(classifier, dataset, alteration, image, key)
    return messages


def _title(alterations: Sequence[Alteration]) -> str:
    """What a progress bar is called."""
    number = len(alterations)
    return alterations[0].name if number == 1 else f"{number} alterations"
