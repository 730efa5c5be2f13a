"""How probable a failure is in operation: at levels from a profile."""

import dataclasses
import os
import time
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from jaxrob._arguments.checks import check_type, checked_integer, checked_number
from jaxrob._arguments.texts import collected
from jaxrob._assessment.assess import provenance_of
from jaxrob._classifiers.classifier import Classifier
from jaxrob._dataset import BatchedDataset, Dataset
from jaxrob._devices.host_function import own_errors
from jaxrob._domain import Domain
from jaxrob._engine.blocks import counted
from jaxrob._engine.evaluate import Arguments, Run, checked, prepare_run, source_ahead
from jaxrob._engine.provenance import warn_of_dependence
from jaxrob._engine.queue import answer_parts, random_order
from jaxrob.domains._draws import Draws, Look, Spans, Wanted, search
from jaxrob.domains._levels import MOST_DRAWS, checked_profile, drawn_levels, in_words
from jaxrob.domains._results import FailureProbability
from jaxrob.metrics import ConfidenceInterval
from jaxrob.metrics._bands import bands
from jaxrob.metrics._counts import ImageScores, checked_confidence_level
from jaxrob.strategies._drive import Span


@own_errors()
def failure_probability(
    classifier: Classifier,
    dataset: Dataset | BatchedDataset,
    domain: Domain,
    profile: Any,
    *,
    relative: float = 0.2,
    half_width: float = 0.0,
    budget: int = 200_000,
    confidence_level: float = 0.95,
    key: jax.Array | None = None,
    batch_size: int | None = None,
    mesh: Mesh | None = None,
    journal: str | os.PathLike | None = None,
    progress: bool = False,
) -> FailureProbability:
    """Estimates how probable a misclassification is at levels from a profile.

    A draw is a random image of the data set at a random level of the profile, with
    noise of its own. Images whose margin is low unaltered are drawn more often where
    that saves evaluations, and weigh less; else draws are plain.

    Example::

        from numpyro import distributions as dist

        rainy = [dist.Normal(0, 4), dist.Uniform(-0.4, 0), dist.HalfNormal(0.5)]
        found = jaxrob.failure_probability(
            classifier, dataset, domain, rainy, key=jax.random.key(0)
        )
        print(found.probability, found.dataset_interval, found.confidence_interval)

    Args:
      classifier: the classifier.
      dataset: the test set. Without labels the network's own answers on the unaltered
        images count as right.
      domain: the alterations.
      profile: how probable levels are in operation: a sequence of NumPyro
        distributions, one for each of the d alterations; a joint one of d numbers; or
        recorded levels `[M, d]`, each as probable as another. What a distribution
        draws outside the alterations' ranges is left out, with a warning.
      relative: half the width of `dataset_interval` that is narrow enough, as a share
        of the probability; 0 for none.
      half_width: half the width that is narrow enough whatever the probability. Give
        one for a failure that may never happen: relative alone goes on until the budget
        is spent, and the interval then is [0, u].
      budget: the most images classified, altered and unaltered, below 2**23.
      confidence_level: the coverage of the intervals, in (0, 1).
      key: a random key, for images, levels and noise.
      batch_size, mesh, journal, progress: see `assess_domain`.

    Returns:
      The `FailureProbability`.

    Raises:
      TypeError: if an argument has a wrong type.
      ValueError: if an argument is outside its range, the key is missing, the profile
        has another number of levels or lies outside the box, or as `evaluate`.
      OSError: if the journal cannot be read or written.
    """
    check_type("domain", domain, Domain, "a jaxrob.Domain")
    relative = checked_number("relative", relative, at_least=0, below=1)
    half_width = checked_number("half_width", half_width, at_least=0, below=0.5)
    if not relative and not half_width:
        raise ValueError("relative or half_width must be above 0; got 0 for both")
    budget = checked_integer("budget", budget, at_least=1, at_most=MOST_DRAWS)
    level = checked_confidence_level(confidence_level)
    wanted = Wanted(relative, half_width, budget, level)
    with collected() as said:
        alteration = drawn_levels(domain, checked_profile(domain, profile))
    given = Arguments(classifier, dataset, [alteration], key, mesh, batch_size)
    arguments = checked(given._replace(journal=journal, progress=progress))
    with prepare_run(arguments) as prepared, source_ahead(prepared) as run:
        labels, start = np.asarray(counted(run.dataset).labels), time.perf_counter()
        order = random_order(run.key, len(labels))
        found, status = search(wanted, order, _look(run, labels))
        seconds = time.perf_counter() - start
        warn_of_dependence(run.source()["dataset"], len(labels))
    probability, interval = found.interval(level)
    table = getattr(run.dataset, "_table", None)
    failures, draws = found.counts
    return FailureProbability(
        axes=domain.axes,
        profile=in_words(profile),
        probability=probability,
        dataset_interval=interval,
        confidence_interval=of_population(found, level, table and table.groups),
        status=status,
        unaltered=len(found.margins),
        images=found.sizes,
        draws=draws,
        failures=failures,
        confidence_level=level,
        evaluations=found.evaluations,
        num_images=len(labels),
        warnings=(*said, *run.warnings(0)),
        provenance=provenance_of(run, run.alterations[0]),
        seconds=seconds,
    )


def of_population(
    found: Draws, confidence_level: float, groups: np.ndarray | None
) -> ConfidenceInterval:
    """The interval for images to come: over images' shares, and the draws' error."""
    share, (low, high) = found.interval(confidence_level)
    values = found.values()
    comes_once = len(found.starts) == 1 and found.drawn.max() <= 1
    if comes_once:
        values = np.where(found.drawn > 0, values, np.nan)
    scores = ImageScores(values[None], groups)
    (start,), (end,) = bands(scores, "mean failure", confidence_level)
    start, end = min(start, share), max(end, share)
    if comes_once:
        # The images' error holds that of the draws.
        return ConfidenceInterval(float(min(low, start)), float(max(high, end)))
    below = share - float(np.hypot(share - low, share - start))
    above = share + float(np.hypot(high - share, end - share))
    return ConfidenceInterval(max(below, 0.0), min(above, 1.0))


def _look(run: Run, labels: np.ndarray) -> Look:
    """Classifies draws by the engine."""
    data = again = counted(run.dataset)
    if not isinstance(data, Dataset):
        # Batches keep the first images of one order.
        again = dataclasses.replace(data)

    def look(
        order: np.ndarray, spans: Sequence[Spans], by_margin: bool
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        parts = [
            Span(run.alterations[0], max(2.0 * draw + by_margin, -1.0), *images)
            for draw, *images in spans
        ]
        where = again if by_margin else data
        found = answer_parts(run.execution, where, parts, order)
        wrong = (
            one.predicted != labels[order[start:stop]]
            for one, (_, start, stop) in zip(found, spans)
        )
        sure = (np.nan_to_num(one.confidence, nan=1.0) for one in found)
        return list(zip(wrong, sure))

    return look
