"""Robustness of a classifier to an alteration, as one call."""

import functools
import os
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh

from jaxrob import metrics
from jaxrob._assessment.assessment import Assessment
from jaxrob._assessment.diagnostics import Diagnostics, diagnose
from jaxrob._assessment.scores import Scores
from jaxrob._classifier import Classifier
from jaxrob._curve import Curve, ReducedCurve, join, select
from jaxrob._dataset import BatchedDataset, Dataset
from jaxrob._engine.checks import check_together, check_types, first_look
from jaxrob._engine.execution import Execution, progress_bar
from jaxrob._engine.kept_answers import kept_in
from jaxrob._engine.provenance import provenance
from jaxrob._engine.queue import Frontier, evaluate_queue
from jaxrob._runtime.keys import checked_key
from jaxrob._runtime.mesh import checked_mesh
from jaxrob.alterations import Alteration
from jaxrob.metrics import RULES
from jaxrob.metrics._tolerance import check_scoring
from jaxrob.strategies import ASAP, Question, Strategy
from jaxrob.uncertainty import unknown_threshold

if TYPE_CHECKING:
    from numpyro.distributions import Distribution


def assess(
    classifier: Classifier,
    dataset: Dataset | BatchedDataset,
    alteration: Alteration | Sequence[Alteration],
    threshold: float = 0.8,
    measure: str = "accuracy",
    *,
    strategy: Strategy = ASAP(),  # noqa: B008 (immutable)
    rule: str | None = None,
    tolerance: str | Callable[[float, float], float] | None = None,
    penalization: str | Callable[[float, float], float] | None = None,
    level_distribution: "Distribution | None" = None,
    alpha: float | None = None,
    key: jax.Array | None = None,
    batch_size: int | None = None,
    mesh: Mesh | None = None,
    reduced: bool = False,
    journal: str | os.PathLike | None = None,
    progress: bool = False,
) -> Assessment | tuple[Assessment, ...]:
    """The robustness of a classifier: where, in the range, it stays good enough.

    2020 paper, Definitions 4 and 5.

    Args:
      classifier: the classifier.
      dataset: the test set.
      alteration: the alteration, or several, whose levels are evaluated in one queue.
      threshold: the lowest value of the measure that is accepted, in [0, 1]; a value
        on the threshold is accepted.
      measure: the quality measure: "accuracy", "precision", "recall", "f1" or
        "effectiveness" or "decided_ratio".
      strategy: decides which levels are evaluated.
      rule: how the integral is taken, "right", "count", "linear" or "quadrature"; by
        default the strategy's own. See `jaxrob.metrics.heaviside_robustness`.
      tolerance: the reward of accepted values, "linear" (up to the measure's value at
        the identity), "step" or a function, see `jaxrob.metrics.tolerance_robustness`
        (2024 paper, Definitions 6 to 9 and 11).
      penalization: the penalty of the other values, likewise. With a tolerance, a
        penalization or a distribution the robustness is an integral over all levels:
        evenly spaced ones suit it, `strategies.Uniform(21)` as in the paper.
      level_distribution: how probable the levels are, a NumPyro distribution; by
        default uniform.
      alpha: the confidence level in [0, 1] above which the classifier may answer
        "unknown"; None if it always decides.
      key: a random key, needed if an alteration or the classifier is stochastic.
      batch_size: see `evaluate`.
      mesh: see `evaluate`.
      reduced: see `evaluate`; not with alpha.
      journal: a file that the answers on every block of images at every level are
        written to, and synced, as soon as they are known. A rerun takes from there
        what there is, whatever the strategy, measure or threshold; a journal of
        another classifier, data set, key or version is refused. The code of a
        classifier without variables cannot be told: give each its own.
      progress: whether a progress bar is shown.

    Returns:
      An `Assessment`, or a tuple of them for several alterations.

    Raises:
      TypeError: if an argument has a wrong type.
      ValueError: if an argument is outside its range, the rule does not suit the
        strategy's levels, the measure is undefined at a level (a recall where nothing
        is decided, for instance), the journal is of something else or damaged, or as
        `evaluate`.
      OSError: if the journal cannot be read or written, as on a full disk.
    """
    several = not isinstance(alteration, Alteration)
    alterations = _checked_sequence(alteration) if several else (alteration,)
    # All that can fail before anything is computed does.
    parts = ("propose", "rule")
    if isinstance(strategy, type) or not all(hasattr(strategy, x) for x in parts):
        raise TypeError(
            "strategy must be one of jaxrob.strategies, such as ASAP(); got "
            f"{strategy!r}"
        )
    scoring = (tolerance, penalization, level_distribution)
    scored = any(some is not None for some in scoring)
    if scored and rule is not None:
        raise ValueError(
            "rule does not go with tolerance, penalization or level_distribution, "
            f"whose integral is by the trapezoidal rule; got {rule!r}"
        )
    rule = strategy.rule if rule is None else rule
    key = None if key is None else checked_key(key)
    mesh = checked_mesh(mesh)
    check_types(classifier, dataset, alterations[0])
    image, _ = first_look(dataset)
    for one in alterations:
        check_together(classifier, dataset, one, image, key)
        if scored:
            bounds = one.lower, one.upper
            check_scoring(
                threshold, tolerance, penalization, level_distribution, bounds
            )
    _check_settings(threshold, measure, rule, alpha, reduced, classifier)
    allowed = getattr(strategy, "rules", RULES)
    if rule not in allowed:
        raise ValueError(
            f"rule must be one of {allowed} with {strategy!r}, whose levels suit no "
            f"other; got {rule!r}"
        )
    source = provenance(classifier, dataset, key, mesh)

    def measure_of(curve):
        confusion = _with_unknown(curve, alpha).confusion
        num_inputs = metrics.effective_inputs(confusion, measure)
        return metrics.measures[measure](confusion), num_inputs

    name = alterations[0].name
    if len(alterations) > 1:
        name = f"{len(alterations)} alterations"
    with (
        progress_bar(name, progress) as bar,
        kept_in(journal, classifier, lambda: source, mesh) as kept,
    ):
        execution = Execution(key, mesh, bar, batch_size, reduced, kept)
        evaluate_all = functools.partial(
            evaluate_queue, classifier, dataset, execution=execution
        )
        found = _explore_all(
            alterations,
            strategy,
            threshold,
            measure_of,
            evaluate_all,
            nominal=tolerance in ("linear", metrics.linear_tolerance),
        )
    results = []
    for one, exploration in zip(alterations, found):
        curve = _with_unknown(exploration.curve, alpha)
        bound, scores = exploration.error_bound, None
        if scored:
            scores = _scores(
                one,
                curve,
                measure,
                threshold,
                tolerance,
                penalization,
                level_distribution,
                exploration.nominal,
            )
            bound = None
        elif rule in ("right", "linear"):
            _check_ends(one, curve.levels, rule)
        result = Assessment(
            alteration=one.name,
            unit=one.unit,
            lower=one.lower,
            upper=one.upper,
            identity=one.identity,
            threshold=float(threshold),
            measure=measure,
            rule="trapezoid" if scored else rule,
            strategy=repr(strategy),
            error_bound=bound,
            diagnostics=exploration.diagnostics,
            scores=scores,
            curve=curve,
            provenance=source | {"alteration": one.description},
            seconds=exploration.seconds,
        )
        results.append(result)
    return tuple(results) if several else results[0]


class _Exploration(NamedTuple):
    """What a strategy found out about one alteration."""

    curve: Curve | ReducedCurve
    error_bound: float | None
    diagnostics: Diagnostics
    nominal: float | None
    seconds: float


def _explore_all(alterations, strategy, threshold, measure_of, evaluate_all, nominal):
    """An exploration of each alteration; all frontiers of a round go in one queue."""
    explorations = [
        _explore(one, strategy, threshold, measure_of, nominal) for one in alterations
    ]
    frontiers = {i: next(steps) for i, steps in enumerate(explorations)}
    results = {}
    while frontiers:
        start = time.perf_counter()
        curves = evaluate_all(
            [Frontier(alterations[i], levels) for i, levels in frontiers.items()]
        )
        seconds = time.perf_counter() - start
        # An alteration's share of the round's time is its share of the levels.
        each = seconds / sum(map(len, frontiers.values()))
        following = {}
        for (i, levels), curve in zip(frontiers.items(), curves):
            try:
                following[i] = explorations[i].send((curve, each * len(levels)))
            except StopIteration as done:
                results[i] = done.value
        frontiers = following
    return [results[i] for i in range(len(alterations))]


def _explore(alteration, strategy, threshold, measure_of, nominal):
    """Yields the levels to evaluate, is sent their curve and its seconds.

    With `nominal`, the identity is evaluated beside what the strategy asks for. No
    level is evaluated twice, nor two of the same effect. Returns an `_Exploration`.
    """
    levels = values = np.array([])
    rows = np.array([], int)
    known = None  # the curve of all canonical levels, in the order evaluated
    row_of = {}  # from a canonical level to its row in it
    num_inputs = None
    identity = float(alteration.canonical(np.array([alteration.identity]))[0])
    rounds, seconds = 0, 0.0
    while True:
        question = Question(
            alteration.lower,
            alteration.upper,
            threshold,
            num_inputs,
            alteration.identity,
        )
        asked = np.asarray(strategy.propose(question, levels, values), np.float64)
        asked = np.setdiff1d(alteration.snap(asked), levels)
        if not len(asked) and known is None:
            raise ValueError("the strategy proposed no level to begin with")
        if not len(asked):
            bound = getattr(strategy, "error_bound", lambda *_: None)
            at_identity = None
            if nominal:
                at_identity = float(measure_of(known)[0][row_of[identity]])
            return _Exploration(
                select(known, rows, levels),
                bound(question, levels, values),
                diagnose(question, levels, values, rows, len(row_of), rounds),
                at_identity,
                seconds,
            )
        canonical = alteration.canonical(asked)
        wanted = np.append(canonical, identity) if nominal else canonical
        new = np.array([c for c in np.unique(wanted) if c not in row_of])
        if len(new):
            row_of |= {c: len(row_of) + i for i, c in enumerate(new)}
            curve, taken = yield new
            rounds, seconds = rounds + 1, seconds + taken
            known = curve if known is None else join(known, curve)
        levels = np.append(levels, asked)
        rows = np.append(rows, [row_of[c] for c in canonical])
        order = np.argsort(levels)
        levels, rows = levels[order], rows[order]
        values, num_inputs = measure_of(known)
        values = values[rows]
        if np.isnan(values).any():
            raise ValueError(
                f"{alteration.name}: the measure is undefined at level "
                f"{levels[np.isnan(values)][0]:g}, where no input that it counts is "
                "decided (or none is of its class)"
            )


def _scores(
    alteration,
    curve,
    measure,
    threshold,
    tolerance,
    penalization,
    level_distribution,
    nominal,
):
    values = metrics.measures[measure](curve.confusion)
    bands = metrics.bands(curve.confusion, measure)
    middle, *ends = (
        metrics.level_scores(some, threshold, tolerance, penalization, nominal=nominal)
        for some in (values, *bands)
    )
    weights = metrics.level_weights(
        curve.levels, level_distribution, (alteration.lower, alteration.upper)
    )
    settings = {
        "tolerance": tolerance,
        "penalization": penalization,
        "nominal": nominal,
        "level_distribution": level_distribution,
    }
    text = ", ".join(f"{name}={_named(value)}" for name, value in settings.items())
    # A function of the user's need not be monotone.
    return Scores(
        text,
        middle,
        np.minimum(middle, np.min(ends, 0)),
        np.maximum(middle, np.max(ends, 0)),
        weights,
    )


def _named(value):
    return getattr(value, "__name__", None) or repr(value)


def _check_ends(alteration, levels, rule):
    """Refuses an integral over less than the range."""
    ends = alteration.snap(np.array([alteration.lower, alteration.upper]))
    if (levels[0], levels[-1]) != tuple(ends):
        raise ValueError(
            f'rule="{rule}" needs both ends of the range [{alteration.lower:g}, '
            f"{alteration.upper:g}]; the strategy asked for levels from {levels[0]:g} "
            f"to {levels[-1]:g}"
        )


def _with_unknown(curve, alpha):
    return curve if alpha is None else curve.with_unknown(alpha)


def _checked_sequence(alterations):
    if isinstance(alterations, str) or not isinstance(alterations, Sequence):
        raise TypeError(
            "alteration must be a jaxrob.Alteration or a sequence of them; got "
            f"{type(alterations).__name__}"
        )
    if not alterations:
        raise ValueError("alteration is an empty sequence; at least one is needed")
    for one in alterations:
        if not isinstance(one, Alteration):
            raise TypeError(
                "alteration must be a sequence of jaxrob.Alteration; it holds a "
                f"{type(one).__name__}"
            )
    return alterations


def _check_settings(threshold, measure, rule, alpha, reduced, classifier):
    if not isinstance(threshold, int | float | np.number):
        raise TypeError(f"threshold must be a number; got {threshold!r}")
    if not 0 <= threshold <= 1:
        raise ValueError(f"threshold must lie in [0, 1]; got {threshold}")
    if measure not in metrics.measures:
        raise ValueError(
            f"measure must be one of {tuple(metrics.measures)}; got {measure!r}"
        )
    if rule not in RULES:
        raise ValueError(f"rule must be one of {RULES}; got {rule!r}")
    if alpha is not None:
        unknown_threshold(alpha)
        if reduced:
            raise ValueError("alpha needs single answers; it does not go with reduced")
        if classifier.outputs == "scores":
            raise ValueError(
                'alpha needs uncertainties, which outputs="scores" does not have'
            )
