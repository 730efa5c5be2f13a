"""The engine: a classifier's answers on a data set at every level of an alteration."""

import functools
import os
from collections.abc import Sequence

import jax
import numpy as np
from jax.sharding import Mesh

from jaxrob._classifier import Classifier
from jaxrob._curve import Curve, ReducedCurve, select
from jaxrob._dataset import BatchedDataset, Dataset
from jaxrob._engine.checks import check_together, check_types, first_look
from jaxrob._engine.execution import Execution, progress_bar
from jaxrob._engine.kept_answers import kept_in
from jaxrob._engine.provenance import provenance
from jaxrob._engine.queue import Frontier, evaluate_queue
from jaxrob._runtime.mesh import checked_mesh
from jaxrob.alterations import Alteration


def evaluate(
    classifier: Classifier,
    dataset: Dataset | BatchedDataset,
    alteration: Alteration,
    levels: Sequence[float] | np.ndarray,
    *,
    key: jax.Array | None = None,
    batch_size: int | None = None,
    mesh: Mesh | None = None,
    reduced: bool = False,
    journal: str | os.PathLike | None = None,
    progress: bool = False,
) -> Curve | ReducedCurve:
    """What the classifier answers on every image at every level.

    One compiled step alters a block of images at a few levels and classifies it. It is
    compiled once for each structure of classifier, alteration and block shape; new
    variables go through it as they are. So does any number of levels on a CPU, where
    they are taken one by one; elsewhere they are batched, 1, 4, 16, ... in a step, and
    each size is compiled when it is first needed. Levels with the same effect (see
    `Alteration.resolution`) are evaluated once.

    The answers do not depend on the batch size, the order or number of the levels, or
    the devices, but for images whose best two classes are closer than rounding (about
    1e-5): noise is drawn from `fold_in(key, index of the image)`, at every level the
    same.

    Args:
      classifier: the classifier.
      dataset: N images with their labels.
      alteration: the alteration.
      levels: `[L]` levels within the alteration's range, in any order.
      key: a random key, needed if the alteration or the classifier is stochastic.
      batch_size: images in a block; by default what fits in memory and keeps the
        device busy. Rounded up to a multiple of the devices.
      mesh: devices over which the images are split, along all of its axes; by default
        all devices of this process. If it spans all processes (`jax.distributed`),
        each of them makes the call with the same arguments, feeds its own devices, of
        arrays and memory maps with just the part that they take, and returns the
        whole result; the first one reads and writes the journal and shows progress.
      reduced: whether only counts by class are kept, for data sets so large that about
        ten bytes for each image and level are too many.
      journal: a file that every block of answers is written to as soon as it is known,
        and found in by a rerun on the same classifier, data and key (see
        `jaxrob.assess`).
      progress: whether a progress bar is shown.

    Returns:
      A `Curve`, or a `ReducedCurve` if `reduced`, with the levels as given.

    Raises:
      TypeError: if an argument has a wrong type.
      ValueError: if a level is NaN or outside the range, no level is given, a key is
        missing, the alteration or the classifier refuses the images' shape, a label is
        no class of the classifier, or the classifier returned NaN (or rows that are no
        probabilities) for some image, or the journal is of something else.
      OSError: if the journal cannot be read or written.
    """
    check_types(classifier, dataset, alteration)
    levels = np.asarray(levels, np.float64)
    if levels.ndim != 1 or not levels.size:
        raise ValueError(
            f"levels must be a sequence of at least one level; got the shape "
            f"{levels.shape}"
        )
    canonical, inverse = np.unique(alteration.canonical(levels), return_inverse=True)
    mesh = checked_mesh(mesh)
    image, _ = first_look(dataset)
    check_together(classifier, dataset, alteration, image, key)
    source = functools.partial(provenance, classifier, dataset, key, mesh)
    with (
        progress_bar(alteration.name, progress) as bar,
        kept_in(journal, classifier, source, mesh) as kept,
    ):
        execution = Execution(key, mesh, bar, batch_size, reduced, kept)
        frontiers = [Frontier(alteration, canonical)]
        (curve,) = evaluate_queue(classifier, dataset, frontiers, execution)
    return select(curve, inverse, levels)
