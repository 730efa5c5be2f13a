"""`evaluate`, and the preparation of a run that all entry points share."""

import contextlib
import dataclasses
import functools
import math
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh

from jaxrob._arguments.checks import (
    as_written,
    check_type,
    checked_array,
    checked_flag,
    checked_integer,
    checked_path,
)
from jaxrob._arguments.messages import classifier_wanted, dataset_wanted
from jaxrob._arguments.texts import collected, warn
from jaxrob._classifiers.classifier import Classifier, check_has_classes
from jaxrob._classifiers.network import Score, checked_score
from jaxrob._classifiers.trace import fingerprinted_classifier
from jaxrob._curve import Curve, ReducedCurve, ScoreCurve, select
from jaxrob._dataset import BatchedDataset, Dataset, value_doubt, with_pseudo_labels
from jaxrob._devices.blocks import Kept, make_room
from jaxrob._devices.host_function import own_errors
from jaxrob._devices.mesh import checked_mesh
from jaxrob._domain import AnyAlteration, Domain, fingerprinted, members
from jaxrob._engine.blocks import first_batch, must_be_read
from jaxrob._engine.execution import Execution, progress_bar, set_up
from jaxrob._engine.journal import cached_answers_in
from jaxrob._engine.preflight import check_shape_is_kept, preflight
from jaxrob._engine.provenance import provenance, score_facts
from jaxrob._engine.queue import evaluate_queue, everywhere
from jaxrob._engine.scores import ScoreRule, check_labels_move, rule_of
from jaxrob._engine.step import UNALTERED
from jaxrob._identity.identity import text
from jaxrob._keys import checked_key
from jaxrob._stored_images import StoredImages
from jaxrob.alterations._recorded import Recorded, paired


@own_errors()
def evaluate(
    classifier: Classifier,
    dataset: Dataset | BatchedDataset,
    alteration: AnyAlteration,
    levels: Sequence[float] | Sequence[Sequence[float]] | np.ndarray,
    *,
    score: Score | Callable[[Any, Any], Any] | None = None,
    key: jax.Array | None = None,
    batch_size: int | None = None,
    mesh: Mesh | None = None,
    reduced: bool = False,
    journal: str | os.PathLike | None = None,
    progress: bool = False,
) -> Curve | ReducedCurve | ScoreCurve:
    """Evaluates a classifier on every image of a data set, at every level.

    Measures by level, "unknown" answers, and each image's first failing level follow
    from the answers. `jaxrob.assess` chooses the levels itself and says how robust the
    classifier is.

    Example::

        blur = jaxrob.alterations.gaussian_blur(0.0, 2.0)
        curve = jaxrob.evaluate(classifier, dataset, blur, [0.0, 0.5, 1.0, 2.0])
        print(curve.accuracy)  # one for each level

    The answers do not depend on the batch size, on the order or number of the levels,
    or on the devices: noise is drawn from `fold_in(key, index of the image)`, the same
    at every level. Only rounding may differ, and change the class of an image whose
    best two classes are within about 1e-5 of each other. Levels of the same effect (see
    `Alteration.resolution`) are evaluated once.

    One compiled step alters a block of images at a few levels and classifies it. It is
    compiled once for each structure of classifier, alteration and shape of a block; new
    variables trigger no compilation, unless they are committed to a device and those
    before were not. A CPU and a TPU take levels one by one, a GPU 1, 4, 16, ... at
    once, where each size is compiled when it is first needed.

    Args:
      classifier: the classifier.
      dataset: N images with their labels. Without labels the network's own answers on
        the unaltered images count as right.
      alteration: the alteration, or a `jaxrob.Domain` of several at once.
      levels: `[L]` levels within the alteration's range, in any order; of a domain
        `[L, d]`.
      score: a score of the network's outputs, in place of answers: see
        `jaxrob.Score`.
      key: a random key, needed if the alteration or the classifier is stochastic.
      batch_size: images in a block; by default as many as fit in memory and keep the
        devices busy. It is rounded up to a multiple of the number of devices (of the
        parts into which the mesh splits images).
      mesh: devices over which the images are sharded, along all axes of the mesh; by
        default all devices of this process. Variables that are sharded (by a
        `NamedSharding`) stay so: the mesh is theirs, and the images are sharded along
        the axes that no variable names. If the mesh spans all processes
        (`jax.distributed`), each makes the same call, feeds its own devices and returns
        the whole result; the first reads and writes the journal and shows progress.
      reduced: whether only counts by class are kept (up to 64 classes with the
        confusion), where about ten bytes for each image and level are too many.
      journal: a file, see `jaxrob.assess`.
      progress: whether a progress bar is shown, and a line on standard error says how
        long the run takes, if that is over ten seconds.

    Returns:
      A `Curve`, or a `ReducedCurve` if `reduced`, with the levels as given; with a
      score a `ScoreCurve`.

    Raises:
      TypeError: if an argument has a wrong type.
      ValueError: if levels are none, NaN or outside the range, a key is missing, the
        alteration or the classifier rejects the images' shape, the alteration changes
        an image at its identity, a label is no class of the classifier, it returned NaN
        or rows that are no probabilities, the journal belongs to another run or cannot
        identify a host callback (without name and version), or variables are sharded
        over another mesh or fail there (constraints along the images' axes).
      OSError: if the journal cannot be read or written.
    """
    arguments = Arguments(
        classifier, dataset, [alteration], key, mesh, batch_size, reduced, journal,
        progress, score,
    )  # fmt: skip
    arguments = checked(arguments)
    shape = "L, d" if isinstance(alteration, Domain) else "L"
    axes = {"d": len(members(alteration))}
    levels = as_written(checked_array("levels", levels, shape, axes=axes))
    found = alteration.canonical(levels)
    canonical, inverse = np.unique(found, axis=0, return_inverse=True)
    with prepare_run(arguments) as run:
        queue = [everywhere(run.alterations[0], canonical)]
        (curve,) = evaluate_queue(run.execution, run.dataset, queue)
    return select(curve, inverse.reshape(-1), levels)


# Labels whose form is looked at before anything is computed.
_LABELS_LOOKED_AT = 64
# Digests of so many bytes take about 16 ms, a thread up to 5 more than its work.
_BYTES_FOR_A_THREAD = 2**24


class Arguments(NamedTuple):
    """The arguments that entry points share, see `evaluate`; as given, then checked."""

    classifier: Classifier
    dataset: Dataset | BatchedDataset
    alterations: Sequence[AnyAlteration]
    key: jax.Array | None
    mesh: Any
    batch_size: int | None = None
    reduced: bool = False
    journal: Any = None
    progress: bool = False
    score: Any = None


class Run(NamedTuple):
    """A prepared run: checked and fingerprinted inputs, and their execution."""

    classifier: Classifier
    dataset: Dataset | BatchedDataset  # with labels, if need be the network's answers
    alterations: tuple[Any, ...]  # those, or a domain
    image: np.ndarray  # the first image
    key: jax.Array | None  # as given; None if nothing is random
    execution: Execution
    source: Callable[[], dict[str, Any]]  # the provenance; the first call reads all
    warned: list[str]  # of all alterations, until the run ends
    warned_of_each: list[list[str]]

    def warnings(self, place: int) -> tuple[str, ...]:
        """What was warned of, of the alteration in a place."""
        return (*self.warned, *self.warned_of_each[place])


def checked(given: Arguments) -> Arguments:
    """Checks each argument separately, without tracing."""
    classifier, score = given.classifier, checked_score(given.score)
    check_type("classifier", classifier, Classifier, classifier_wanted(classifier))
    if score is None:
        check_has_classes(classifier)
    wanted = dataset_wanted(given.dataset)
    check_type("dataset", given.dataset, Dataset | BatchedDataset, wanted)
    wanted = "a jaxrob.Alteration or jaxrob.Domain"
    for one in given.alterations:
        check_type("alteration", one, AnyAlteration, wanted)
    key, batch_size, journal = given.key, given.batch_size, given.journal
    if key is not None:
        key = checked_key(key)
    if batch_size is not None:
        batch_size = checked_integer("batch_size", batch_size, at_least=1)
    checked_flag("reduced", given.reduced)
    checked_flag("progress", given.progress)
    if journal is not None:
        journal = checked_path("journal", journal)
    if given.reduced and getattr(given.dataset, "groups", None) is not None:
        raise ValueError(
            "reduced keeps no image's answer, which groups need; got reduced=True"
        )
    over = checked_mesh(given.mesh, classifier.variables)
    if score is not None and given.reduced:
        raise ValueError("score keeps each image's score; got reduced=True")
    if score is not None and over.is_multi_process:
        raise ValueError("score runs in one process; mesh spans several")
    if journal is not None and score is not None and score.version is None:
        raise ValueError(
            "journal must tell scores from others, and a function cannot be looked "
            f'into: pass score=jaxrob.Score({score.name}, name="{score.name}", '
            'version="1"), and change the version whenever its values may change'
        )
    return given._replace(
        key=key, mesh=over, batch_size=batch_size, journal=journal, score=score
    )


@contextlib.contextmanager
def prepare_run(arguments: Arguments) -> Iterator[Run]:
    """Checks that the arguments go together, and opens the journal and the bar."""
    # Both are closed when the run ends, and warnings are collected until then. With
    # several processes, all of them must call this with the same arguments.
    classifier, dataset, alterations, key, mesh, batch_size, *_ = arguments
    make_room()
    with collected() as warned:
        image = np.asarray(first_batch(dataset).images[0])
        classifier, alterations = fingerprint_inputs(classifier, alterations, image)
        each = preflight(classifier, dataset, alterations, image, key)
        alterations = tuple(paired(one, dataset) for one in alterations)
        rule = _rule(arguments.score, classifier, dataset, alterations, image)
        name, number = alterations[0].name, len(alterations)
        title = name if number == 1 else f"{number} alterations"
        with progress_bar(title, arguments.progress) as bar:
            execution = set_up(
                classifier, image.shape, key, mesh, bar, batch_size, rule
            )
            dataset = dataset if rule else labelled(execution, dataset)
            facts = functools.partial(provenance, classifier, dataset, key, mesh.mesh)
            source = functools.cache(lambda: facts() | score_facts(arguments.score))
            with cached_answers_in(
                arguments.journal,
                classifier,
                alterations,
                source,
                mesh,
                execution.kind.read,
                # Of one on the host the version alone tells.
                {"score": text(rule.score)} if rule and rule.on_devices else None,
            ) as cached:
                execution = dataclasses.replace(
                    execution, reduced=arguments.reduced, cached=cached
                )
                try:
                    yield Run(
                        classifier, dataset, alterations, image, key, execution, source,
                        warned, each,
                    )  # fmt: skip
                    images = getattr(dataset, "images", None)
                    if isinstance(images, StoredImages):
                        images.warn_of_odd()
                    if must_be_read(dataset) and (doubt := value_doubt(dataset)):
                        warn(doubt)
                finally:
                    # An error that is looked at later would hold them.
                    execution.kept.drop()


@contextlib.contextmanager
def source_ahead(run: Run) -> Iterator[Run]:
    """Yields a run whose provenance a thread computes while the devices work."""
    # What must be read is read at once: its errors come before any answer. So are
    # variables in parts, as processes communicate in one order.
    images, mesh = getattr(run.dataset, "images", None), run.execution.mesh
    if isinstance(images, StoredImages):
        yield run
        return
    is_ordered = mesh.is_multi_process and mesh.splits_network
    types = map(jax.typeof, jax.tree.leaves(run.classifier.variables))
    size = getattr(images, "nbytes", 0)
    size += sum(math.prod(one.shape) * one.dtype.itemsize for one in types)
    if must_be_read(run.dataset) or is_ordered or size < _BYTES_FOR_A_THREAD:
        run.source()
        yield run
        return
    thread = ThreadPoolExecutor(1, "jaxrob-provenance")
    try:
        yield run._replace(source=thread.submit(run.source).result)
    finally:
        # After an error nobody needs it.
        thread.shutdown(wait=False)


def _rule(
    score: Score | None,
    classifier: Classifier,
    dataset: Dataset | BatchedDataset,
    alterations: Sequence[AnyAlteration],
    image: np.ndarray,
) -> ScoreRule | None:
    if score is None:
        return None
    first = first_batch(dataset)
    if first.labels is None:
        raise ValueError(f"score needs labels, and {dataset.name} has none")
    labels = first.labels[:_LABELS_LOOKED_AT]
    check_labels_move(score, alterations, labels, image.shape)
    return rule_of(score, classifier, image.shape, labels)


def fingerprint_inputs(
    classifier: Classifier, alterations: Sequence[AnyAlteration], image: np.ndarray
) -> tuple[Classifier, tuple[AnyAlteration, ...]]:
    fingerprinted_ones = tuple(
        fingerprinted(alteration, image.shape) for alteration in alterations
    )
    # Checked first, because the classifier would only say that it fails.
    for alteration in fingerprinted_ones:
        is_recorded = isinstance(alteration, Recorded)
        for one in () if is_recorded else members(alteration):
            check_shape_is_kept(one, image.shape)
    return fingerprinted_classifier(classifier, image.shape), fingerprinted_ones


def labelled(
    execution: Execution, dataset: Dataset | BatchedDataset
) -> Dataset | BatchedDataset:
    """Returns the data; without labels, with the network's own answers as labels."""
    if not isinstance(dataset, Dataset) or dataset.labels is not None:
        return dataset
    unknown = with_pseudo_labels(dataset, np.zeros(len(dataset), np.int32))
    return with_pseudo_labels(dataset, unaltered_answers(execution, unknown))


def unaltered_answers(execution: Execution, dataset: Dataset) -> np.ndarray:
    """Returns a classifier's answers on the unaltered images, int32 `[N]`."""
    # The images come again with their labels.
    execution = dataclasses.replace(execution, kept=Kept(0))
    (curve,) = evaluate_queue(execution, dataset, [everywhere(UNALTERED, np.zeros(1))])
    assert isinstance(curve, Curve)
    return curve.predicted[0].astype(np.int32)
