"""Robustness of a classifier to an alteration, as one call."""

import dataclasses
import os
from collections.abc import Callable, Sequence
from typing import Any, cast

import jax
import numpy as np
from jax.sharding import Mesh

from jaxrob._arguments.checks import check_choice, check_type, checked_sequence
from jaxrob._arguments.texts import collected, warn
from jaxrob._assessment.assessment import Assessment, ListedLevels
from jaxrob._assessment.criterion import Criterion, Tolerance, checked_measure
from jaxrob._assessment.explore import Exploration, check_goes_with, explore, listed
from jaxrob._classifiers.classifier import Classifier
from jaxrob._classifiers.network import Score
from jaxrob._dataset import BatchedDataset, Dataset
from jaxrob._devices.host_function import own_errors
from jaxrob._engine.evaluate import Arguments, Run, checked, prepare_run, source_ahead
from jaxrob._engine.provenance import alteration_fingerprint, warn_of_dependence
from jaxrob.alterations import Alteration
from jaxrob.alterations._alteration import settings, words
from jaxrob.alterations._recorded import Recorded
from jaxrob.metrics import RULES
from jaxrob.metrics._measures import in_words
from jaxrob.strategies import ASAP, Strategy
from jaxrob.strategies._strategy import check_strategy

# If fewer inputs are decided, the undecided rest may matter more.
_FEWEST_DECIDED = 0.75


@own_errors()
def assess(
    classifier: Classifier,
    dataset: Dataset | BatchedDataset,
    alteration: Alteration | Sequence[Alteration],
    threshold: float = 0.8,
    measure: str = "accuracy",
    *,
    # How good it has to be.
    score: Score | Callable[[Any, Any], Any] | None = None,
    alpha: float | None = None,
    tolerance: Tolerance | None = None,
    confidence_level: float = 0.95,
    # Which levels.
    strategy: Strategy | None = None,
    rule: str | None = None,
    # How it runs.
    key: jax.Array | None = None,
    batch_size: int | None = None,
    mesh: Mesh | None = None,
    reduced: bool = False,
    journal: str | os.PathLike | None = None,
    progress: bool = False,
) -> Assessment | tuple[Assessment, ...]:
    """Computes how robust a classifier is: the part of a range where it is good enough.

    2020 paper, Definitions 4 and 5.

    Example::

        blur = jaxrob.alterations.gaussian_blur(0.0, 2.0)
        result = jaxrob.assess(classifier, dataset, blur, threshold=0.8)
        print(result.robustness, result.confidence_interval)

    What is assessed:
      classifier: the classifier.
      dataset: the test set. Without labels the network's own answers on the unaltered
        images count as right, and the robustness is stability: the table, the plot and
        the JSON say so.
      alteration: the alteration, or several, whose levels are evaluated in one queue.

    How good it has to be:
      threshold: the lowest accepted value of the measure, in [0, 1]; a value on the
        threshold is accepted.
      measure: the quality measure: "accuracy", "precision", "recall", "f1",
        "effectiveness", "decided_ratio" or "top5_accuracy", the share of decided inputs
        whose class is among the 5 most probable ones, with any number from 2 and below
        that of the classes (reduced: up to 10). Of equally probable classes the first
        comes first.
      score: a function of the network's outputs and the labels that gives each image a
        number in [0, 1], or a `jaxrob.Score`, which names it. The measure is then the
        mean score.
      alpha: the confidence in [0, 1] above which the classifier may answer "unknown";
        None if it always decides.
      tolerance: how levels are rewarded, penalized and weighted, in place of accepted
        or not, see `jaxrob.Tolerance`.
      confidence_level: the coverage of the intervals, in (0, 1): how often
        `Assessment.confidence_interval` contains the robustness on all images of the
        kind tested; with few images also that of `dataset_interval`.

    Which levels:
      strategy: decides which levels are evaluated, and with `strategies.FewImages` on
        how few images; by default `strategies.ASAP()`. Of recorded pictures all levels
        are, and neither strategy, rule nor tolerance may be given.
      rule: the rule of integration, "right", "count" or "linear"; by
        default the strategy's own. See `jaxrob.metrics.heaviside_robustness`.

    How it runs:
      key: a random key, needed if an alteration or the classifier is stochastic.
      batch_size, mesh: see `evaluate`.
      reduced: see `evaluate`; not with alpha.
      journal: a file. The answers on every block of images at every level are written
        to it, and synced, as soon as they are known. A rerun reads them from there,
        whatever the strategy, measure or threshold; a journal of another classifier,
        data set, key or version is rejected. Your own functions are identified by what
        they compute, as JAX traces it, with all constants; a host callback by the name
        and version that `Classifier.from_host` takes.
      progress: see `evaluate`.

    Returns:
      An `Assessment`, or a tuple of them for several alterations.

    Raises:
      TypeError: if an argument has a wrong type.
      ValueError: if an argument is outside its range, the rule does not suit the
        strategy's levels, few images do not go with another argument, a budget is too
        small, the measure is undefined at a level (a recall where nothing is decided,
        for instance), the journal is damaged, or as `evaluate`.
      OSError: if the journal cannot be read or written, as on a full disk.
    """
    # Fail before anything is computed where possible.
    several = not isinstance(alteration, Alteration)
    some = alteration if several else (alteration,)
    wanted = "jaxrob.Alteration"
    alterations = checked_sequence("alteration", some, Alteration, wanted)
    arguments = Arguments(
        classifier, dataset, alterations, key, mesh, batch_size, reduced, journal,
        progress, score,
    )  # fmt: skip
    arguments = checked(arguments)
    wanted = "a jaxrob.Tolerance or None"
    check_type("tolerance", tolerance, Tolerance | None, wanted)
    scoring = tolerance or Tolerance()
    measure = checked_measure(measure, arguments.score)
    criterion = Criterion(threshold, measure, alpha, scoring, confidence_level)
    check_goes_with(arguments, criterion, strategy, rule)
    strategy = ASAP() if strategy is None else strategy
    check_strategy(strategy)
    rule = _checked_rule(rule, strategy, scoring)
    for one in alterations:
        scoring.check(criterion.threshold, (one.lower, one.upper))
    with prepare_run(arguments) as prepared, source_ahead(prepared) as run:
        explorations = explore(run, criterion, strategy)
        length = int(explorations[0].curve.counts.inputs.sum(-1).max())
        if (few := explorations[0].sampling) is not None:
            length = few.num_images
        warn_of_dependence(run.source()["dataset"], length)
    results = tuple(
        result_of(run, place, exploration, criterion, rule, strategy)
        for place, exploration in enumerate(explorations)
    )
    return results if several else results[0]


def _checked_rule(rule: str | None, strategy: Strategy, scoring: Tolerance) -> str:
    if not scoring.is_plain:
        if rule is not None:
            raise ValueError(
                "rule does not go with tolerance, whose integral is by the "
                f"trapezoidal rule; got {rule!r}"
            )
        return "trapezoid"
    rule = strategy.rule if rule is None else rule
    check_choice("rule", rule, RULES)
    if rule not in strategy.rules:
        raise ValueError(
            f"rule must be one of {strategy.rules} with {strategy!r}, whose levels "
            f"suit no other; got {rule!r}"
        )
    return rule


def result_of(
    run: Run,
    place: int,
    exploration: Exploration,
    criterion: Criterion,
    rule: str,
    strategy: Strategy,
) -> Assessment:
    alteration = run.alterations[place]
    curve = criterion.with_unknown(exploration.curve)
    levels = None
    if (only := listed(alteration)) and isinstance(alteration, Recorded):
        strategy, rule, of = only, "count", alteration.pictures
        levels = ListedLevels(np.array(of.weights), tuple(of.names))
    bound, scores, scoring = exploration.error_bound, None, criterion.scoring
    if exploration.sampling is not None:
        bound = None
    elif not scoring.is_plain:
        bound, bounds = None, (alteration.lower, alteration.upper)
        measure, threshold = criterion.measure, criterion.threshold
        scores = scoring.scores(
            curve,
            measure,
            threshold,
            bounds,
            exploration.nominal,
            criterion.confidence_level,
        )
    ends = tuple(alteration.snap(np.array([alteration.lower, alteration.upper])))
    if rule in ("right", "linear") and (curve.levels[0], curve.levels[-1]) != ends:
        raise ValueError(
            f'rule="{rule}" needs both ends of the range [{alteration.lower:g}, '
            f"{alteration.upper:g}]; the strategy asked for levels from "
            f"{curve.levels[0]:g} to {curve.levels[-1]:g}"
        )
    result = Assessment(
        alteration=alteration.name,
        unit=alteration.unit,
        lower=alteration.lower,
        upper=alteration.upper,
        identity=cast(float, alteration.identity),
        threshold=criterion.threshold,
        measure=criterion.measure,
        rule=rule,
        strategy=repr(strategy),
        error_bound=bound,
        diagnostics=exploration.diagnostics,
        warnings=run.warnings(place),
        scores=scores,
        curve=curve,
        provenance=provenance_of(run, alteration),
        seconds=exploration.seconds,
        sampling=exploration.sampling,
        confidence_level=criterion.confidence_level,
        listed=levels,
    )
    with collected() as found:
        _warn_of_undecided(result)
    return dataclasses.replace(result, warnings=(*result.warnings, *found))


def provenance_of(run: Run, alteration: Any) -> dict[str, Any]:
    source = run.source()
    return source | {
        "alteration": alteration_fingerprint(alteration),
        "stochastic": source["stochastic"] or alteration.stochastic,
        "settings": settings(alteration, run.image.shape),
        "words": words(alteration),
    }


def _warn_of_undecided(result: Assessment) -> None:
    if not result.is_of_decided:
        return
    name, alpha = result.alteration, result.curve.alpha
    if result.undecided.any():
        level = result.levels[result.undecided][0]
        warn(
            f"{name}: with alpha = {alpha:g} no input is decided at level {level:g}, "
            f"so {in_words(result.measure)} counts as 1 there and the robustness is "
            'NaN. Lower alpha, or take measure="effectiveness", which counts unknown '
            "answers"
        )
    elif result.lowest_decided_ratio < _FEWEST_DECIDED:
        warn(
            f"{name}: with alpha = {alpha:g} a level is accepted at which only "
            f"{result.lowest_decided_ratio:.1%} of the inputs are decided; the "
            "robustness says nothing about the others. Lower alpha, or take "
            'measure="effectiveness", which counts unknown answers'
        )
