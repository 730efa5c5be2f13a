"""A classifier's answers on a data set, at every level of an alteration."""

import os
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from jaxrob._arguments.checks import checked_array
from jaxrob._classifier import Classifier
from jaxrob._curve import Curve, ReducedCurve, select
from jaxrob._dataset import BatchedDataset, Dataset
from jaxrob._devices.host_function import own_errors
from jaxrob._engine.queue import Frontier, evaluate_queue
from jaxrob._run.prepare import Arguments, checked, prepare_run
from jaxrob._score import Score
from jaxrob._score_curve import ScoreCurve
from jaxrob.alterations import Alteration


def evaluate(
    classifier: Classifier,
    dataset: Dataset | BatchedDataset,
    alteration: Alteration,
    levels: Sequence[float] | np.ndarray,
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

    Everything else follows from the answers: accuracy and other measures by level,
    "unknown" answers, each image's first failing level. `jaxrob.assess` chooses the
    levels itself and says how robust the classifier is.

    Example::

        blur = jaxrob.alterations.gaussian_blur(0.0, 2.0)
        curve = jaxrob.evaluate(classifier, dataset, blur, [0.0, 0.5, 1.0, 2.0])
        print(curve.accuracy)  # one for each level

    The answers do not depend on the batch size, on the order or number of the levels,
    or on the devices: noise is drawn from `fold_in(key, index of the image)`, the same
    at every level. Only rounding may differ. It may change the class of an image whose
    best two classes are within about 1e-5 of each other.

    One compiled step alters a block of images at a few levels and classifies it. It is
    compiled once for each structure of classifier, alteration and shape of a block. New
    variables trigger no compilation, unless they are committed to a device and those
    before were not. On a CPU and a TPU neither does another number of levels, since a
    step takes them one by one. On a GPU a step takes 1, 4, 16, ... of them at once, and
    each size is compiled when it is first needed. Levels of the same effect (see
    `Alteration.resolution`) are evaluated once.

    Args:
      classifier: the classifier.
      dataset: N images with their labels. Without labels the network's own answers on
        the unaltered images count as right.
      alteration: the alteration.
      levels: `[L]` levels within the alteration's range, in any order.
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
        (`jax.distributed`), each process makes the call with the same arguments, feeds
        its own devices and returns the whole result. The first process reads and writes
        the journal and shows progress.
      reduced: whether only counts by class are kept, for data sets so large that about
        ten bytes for each image and level are too many. Up to 64 classes they include
        the confusion.
      journal: a file. Every block of answers is written to it as soon as it is known,
        and a rerun on the same classifier, data and key reads the answers from there
        (see `jaxrob.assess`).
      progress: whether a progress bar is shown, and a line on standard error says how
        long the run takes, if that is over ten seconds.

    Returns:
      A `Curve`, or a `ReducedCurve` if `reduced`, with the levels as given; with a
      score a `ScoreCurve`.

    Raises:
      TypeError: if an argument has a wrong type.
      ValueError: if no level is given, a level is NaN or outside the range, a key is
        missing, the alteration or the classifier rejects the images' shape, the
        alteration changes an image at its identity, a label is not a class of the
        classifier, the classifier returned NaN (or rows that are not probabilities) for
        some image, the journal belongs to another evaluation, a host callback has no
        name and version by which a journal could identify it, or variables are sharded
        over another mesh or fail there (constraints along the images' axes).
      OSError: if the journal cannot be read or written.
    """
    arguments = checked(
        Arguments(
            classifier,
            dataset,
            [alteration],
            key,
            mesh,
            batch_size,
            reduced,
            journal,
            progress,
            score,
        )
    )
    if score is not None and reduced:
        raise ValueError("score keeps each image's score; got reduced=True")
    levels = checked_array("levels", levels, "L").astype(np.float64)
    canonical, inverse = np.unique(alteration.canonical(levels), return_inverse=True)
    with own_errors(), prepare_run(arguments) as run:
        frontiers = [Frontier(run.alterations[0], canonical)]
        (curve,) = evaluate_queue(run.execution, run.dataset, frontiers)
    return select(curve, inverse, levels)
