"""Intervals for measures and robustness, since the test set is finite."""

import math

import numpy as np
from scipy import sparse, special

from jaxrob.metrics._curvature import bend
from jaxrob.metrics._quality import _ratio, effective_inputs, measures
from jaxrob.metrics._robustness import Interval, accepted_share, checked_curve

# A 95 % interval's end then has a Monte-Carlo error (one standard deviation) of about
# 4 % of the interval's half width, and 1,000 is the least that Efron and Tibshirani
# advise for percentiles.
RESAMPLES = 1000
# Straight pieces that stand for a parabola.
_PIECES = 32
# An interval over which the curve rises or falls by more than this many times the width
# of its bands is no smooth piece of it.
_STEEP = 6.0
_SEED = 0


def wilson(
    successes: np.ndarray, totals: np.ndarray, confidence: float = 0.95
) -> tuple[np.ndarray, np.ndarray]:
    """Wilson's score interval for a proportion.

    The proportions p with `|s/n - p| <= z sqrt(p (1 - p) / n)`, for s successes of n
    and the normal quantile z (Wilson, 1927). Unlike the interval around s/n of the
    usual standard error it is sound for small n and near 0 and 1.

    Args:
      successes: numbers in 0 ... totals, of any shape.
      totals: of the same shape; 0 gives the interval [0, 1].
      confidence: the coverage aimed at, in (0, 1).

    Returns:
      The lower and the upper ends, float64 in [0, 1], of the same shape: exactly 0
      without a success, exactly 1 without a failure.

    Raises:
      ValueError: if the shapes differ, successes lie outside 0 ... totals, or the
        confidence outside (0, 1).
    """
    check_confidence(confidence)
    s, n = np.asarray(successes, np.float64), np.asarray(totals, np.float64)
    if s.shape != n.shape:
        raise ValueError(
            "successes and totals must have one shape; got the shapes "
            f"{s.shape} and {n.shape}"
        )
    if not ((s >= 0) & (s <= n) & np.isfinite(n)).all():
        raise ValueError("successes must lie in 0 ... totals, and both be finite")
    z = special.ndtri((1 + confidence) / 2)
    some = np.where(n == 0, 1, n)
    centre = s + z**2 / 2
    half = z * np.sqrt(s * (n - s) / some + z**2 / 4)
    low, high = (centre - half) / (some + z**2), (centre + half) / (some + z**2)
    low, high = np.where(s == 0, 0, low), np.where(s == n, 1, high)
    return np.clip(low, 0, 1), np.clip(high, 0, 1)


def bands(
    confusion: np.ndarray, measure: str, confidence: float = 0.95
) -> tuple[np.ndarray, np.ndarray]:
    """Pointwise confidence bands of a quality measure, for a finite test set.

    Wilson's interval for proportions: accuracy, the decided ratio, and the recall of
    two classes (see `jaxrob.metrics.recall`). The percentile bootstrap over inputs
    (Efron, 1979) for the rest, widened if need be to hold the measured value. The
    bootstrap cannot see what never happened: where all answers are right, its band has
    no width.

    Args:
      confusion: integers `[L, K, K + 1]`, counts by label and answer, see
        `jaxrob.Curve`; at least one at each level.
      measure: a name in `jaxrob.metrics.measures`.
      confidence: the coverage aimed at, at each level alone, in (0, 1).

    Returns:
      The lower and the upper ends, float64 `[L]` in [0, 1]; 0 and 1 where the measure
      is undefined. Each depends on the counts of its own level alone, and the same
      counts always give the same.

    Raises:
      ValueError: if the measure is unknown, the confidence lies outside (0, 1), or the
        counts have a wrong shape, are negative or all 0 at a level.
    """
    check_confidence(confidence)
    confusion = _checked_confusion(confusion, measure)
    correct = np.diagonal(confusion, axis1=-2, axis2=-1)
    decided = confusion[..., :-1].sum(-1)
    if measure == "accuracy":
        return wilson(correct.sum(-1), decided.sum(-1), confidence)
    if measure == "decided_ratio":
        return wilson(decided.sum(-1), confusion.sum((-2, -1)), confidence)
    if measure == "recall" and confusion.shape[1] == 2:
        return wilson(correct[:, 1], decided[:, 1], confidence)
    ends = []
    for counts in confusion:
        counts = _merged(counts) if measure == "effectiveness" else counts
        resampled = _bootstrap(counts, measure)
        ends.append(percentiles(resampled, confidence, otherwise=(0.0, 1.0)))
    low, high = np.reshape(ends, (-1, 2)).T
    values = measures[measure](confusion)
    # fmin and fmax pass over the NaN of an undefined value.
    return np.fmin(low, values), np.fmax(high, values)


def robustness_interval(
    levels: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    threshold: float,
    bounds: tuple[float, float] | None = None,
    concavity: np.ndarray | None = None,
) -> Interval:
    """The robustness of a lower and of an upper band.

    Each band is joined by straight lines (`rule="linear"` of
    `jaxrob.metrics.heaviside_robustness`), or by parabolas that bend away from the
    other one; then a steep interval, over which the bands rise by more than six times
    their width, may be accepted or not wherever its ends differ. With pointwise bands
    of some confidence the interval covers the robustness about as often, or a little
    more: at a crossing the curve is within its band as often as that. With several
    crossings it is wider, for both bands err everywhere at once.

    Args:
      levels: `[L]` distinct levels, in any order.
      low: `[L]`, the lower band.
      high: `[L]`, the upper band, nowhere below `low`.
      threshold: the lowest value accepted.
      bounds: the range's lower and upper ends; by default the outermost levels. What
        lies beyond those may be accepted or not.
      concavity: `[L - 1]`, of the parabolas in each interval from the lowest to the
        highest, per squared level; by default 0.

    Returns:
      The interval of the robustness, in [0, 1].

    Raises:
      ValueError: if `low` exceeds `high` somewhere, a level lies outside the bounds, or
        as `jaxrob.metrics.heaviside_robustness`.
    """
    fewest = 1 if bounds is not None else 2
    _, low = checked_curve(levels, low, threshold, fewest)
    levels, high = checked_curve(levels, high, threshold, fewest)
    if (low > high).any():
        bad = np.flatnonzero(low > high)[0]
        raise ValueError(
            f"low must not exceed high; got {low[bad]} and {high[bad]} at index {bad}"
        )
    lower, upper = _checked_bounds(levels, bounds)
    if concavity is not None:
        concavity = np.asarray(concavity, np.float64)
        if concavity.shape != (len(levels) - 1,) or not (concavity >= 0).all():
            raise ValueError(
                "concavity must hold a number from 0 for each of the "
                f"{len(levels) - 1} intervals; got {concavity}"
            )
    shortest, longest = accepted_widths(levels, low, high, threshold, concavity)
    unseen = (upper - lower) - (levels[-1] - levels[0])
    start = math.fsum(shortest) / (upper - lower)
    end = (math.fsum(longest) + unseen) / (upper - lower)
    # Rounding may part them where they meet.
    return Interval(min(start, 1.0), min(max(start, end), 1.0))


def confidence_interval(
    levels: np.ndarray,
    confusion: np.ndarray,
    measure: str,
    threshold: float,
    confidence: float = 0.95,
    bounds: tuple[float, float] | None = None,
) -> Interval:
    """A confidence interval of the robustness, for a finite test set.

    The `robustness_interval` of the measure's `bands`, which bend between the levels
    twice as much as the levels around show. It says how far the robustness may lie from
    that on all inputs of the kind tested.

    Args:
      levels: `[L]` distinct levels, in any order.
      confusion: integers `[L, K, K + 1]`, counts by label and answer.
      measure: a name in `jaxrob.metrics.measures`.
      threshold: the lowest value accepted.
      confidence: the coverage aimed at, in (0, 1).
      bounds: the range's lower and upper ends; by default the outermost levels.

    Returns:
      The interval of the robustness, in [0, 1].

    Raises:
      ValueError: as `bands` and `robustness_interval`.
    """
    check_confidence(confidence)
    confusion = _checked_confusion(confusion, measure)
    # All that can fail fails before the bootstrap.
    widest = np.zeros(len(confusion)), np.ones(len(confusion))
    robustness_interval(levels, *widest, threshold, bounds)
    low, high = bands(confusion, measure, confidence)
    values = measures[measure](confusion)
    num_inputs = effective_inputs(confusion, measure)
    order = np.argsort(levels)
    concavity = shown_concavity(np.asarray(levels)[order], values[order], num_inputs)
    return robustness_interval(levels, low, high, threshold, bounds, concavity)


def accepted_widths(
    levels: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    threshold: float,
    concavity: np.ndarray | None,
) -> tuple[np.ndarray, np.ndarray]:
    """The accepted part of each interval by the lower and by the upper band.

    Args:
      levels: `[L]`, ascending.
      low: `[L]`, the lower band.
      high: `[L]`, the upper band.
      threshold: the lowest value accepted.
      concavity: `[L - 1]`, see `robustness_interval`.

    Returns:
      Two arrays float64 `[L - 1]`, in units of the levels.
    """
    width = np.diff(levels)
    if concavity is not None:
        rise = np.abs(np.diff(low + high)) / 2
        steep = rise > _STEEP * ((high - low)[:-1] + (high - low)[1:]) / 2
    share = np.linspace(0, 1, 2 if concavity is None else _PIECES + 1)[:, None]
    sag = 0 if concavity is None else concavity * width**2 * share * (1 - share)
    widths = []
    for band, sign in ((low, -1), (high, 1)):
        chord = band[:-1] * (1 - share) + band[1:] * share
        # Bands are of shares: a parabola that leaves [0, 1] means its edge.
        values = np.where(sag == 0, chord, np.clip(chord + sign * sag, 0, 1))
        if concavity is not None:
            # A jump may be anywhere in its interval.
            farthest = np.minimum if sign < 0 else np.maximum
            values = np.where(steep, farthest(band[:-1], band[1:]), values)
        accepted = accepted_share(values[:-1], values[1:], threshold)
        widths.append(width * accepted.mean(axis=0))
    return widths[0], widths[1]


def shown_concavity(
    levels: np.ndarray, values: np.ndarray, num_inputs: int
) -> np.ndarray:
    """`[L - 1]`: twice what a curve bends in each interval, per squared level."""
    if len(levels) < 2:
        return np.zeros(0)
    span = levels[-1] - levels[0]
    shape = bend((levels - levels[0]) / span, values, num_inputs)
    return np.nan_to_num(shape.concavity) / span**2


def check_confidence(confidence: float) -> None:
    """Refuses a confidence that is none."""
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie in (0, 1); got {confidence}")


def percentiles(
    values: np.ndarray, confidence: float, otherwise: tuple[float, float]
) -> tuple[float, float]:
    """The middle part of the values, NaN left out; `otherwise` if all are NaN."""
    values = values[~np.isnan(values)]
    if not len(values):
        return otherwise
    low, high = np.quantile(values, ((1 - confidence) / 2, (1 + confidence) / 2))
    return float(low), float(high)


def resampled_values(
    measure: str,
    labels: np.ndarray,
    answers: np.ndarray,
    num_classes: int,
    weights: np.ndarray,
) -> np.ndarray:
    """A measure of resampled inputs, from how often each was drawn.

    `jaxrob.metrics.measures` of the counts, but vectorised and with means over classes
    taken in float64: they may miss an exact threshold, which does not matter here.

    Args:
      measure: a name in `jaxrob.metrics.measures`.
      labels: integers `[M]` in 0 ... K - 1.
      answers: integers `[L, M]` in 0 ... K, K for "unknown".
      num_classes: K.
      weights: float64 `[M, B]`, how often each replicate drew each input.

    Returns:
      float64 `[L, B]`; NaN where the measure is undefined.
    """
    if measure in ("accuracy", "effectiveness", "decided_ratio"):
        hits = (answers == labels).astype(np.float64) @ weights
        decided = (answers < num_classes).astype(np.float64) @ weights
        if measure == "decided_ratio":
            return decided / weights.sum(0)
        if measure == "accuracy":
            return _ratio(hits, decided, 1.0)
        # All, and the unknown ones once more.
        return _ratio(hits, 2 * weights.sum(0) - decided, np.nan)
    return np.stack(
        [_by_class(measure, labels, some, num_classes, weights) for some in answers]
    )


def _by_class(measure, labels, answers, num_classes, weights):
    """`[B]`: the measure of class 1 of 2, or the mean over the classes of more."""
    # Inputs of one label and answer are alike; most often they are many.
    cell_of = labels.astype(np.int64) * (num_classes + 1) + answers
    cells, cell_of = np.unique(cell_of, return_inverse=True)
    weights = _sums(cell_of, len(cells), weights)
    labels, answers = np.divmod(cells, num_classes + 1)

    decided = answers < num_classes
    correct = labels == answers
    hits = _sums(labels[correct], num_classes, weights[correct])
    labelled = _sums(labels[decided], num_classes, weights[decided])
    if measure == "recall":
        above, below = hits, labelled
    else:
        given = _sums(answers[decided], num_classes, weights[decided])
        if measure == "precision":
            above, below = hits, np.where((given == 0) & (labelled > 0), 1, given)
        else:
            above, below = 2 * hits, given + labelled
    ratios = _ratio(above, below, np.nan)
    if num_classes == 2:
        return ratios[1]
    return _ratio(np.nansum(ratios, axis=0), (below > 0).sum(0), np.nan)


def _sums(groups, num_groups, weights):
    """`[num_groups, B]`: the sums of the rows `[M, B]` that fall in each group."""
    ones, rows = np.ones(len(groups)), np.arange(len(groups))
    shape = num_groups, len(groups)
    return sparse.csr_array((ones, (groups, rows)), shape=shape) @ weights


def _bootstrap(counts, measure):
    """`[RESAMPLES]`: the measure of resampled inputs with these counts `[K, K + 1]`.

    To draw inputs anew and to count them by label and answer is one multinomial draw of
    the counts.
    """
    labels, answers = np.nonzero(counts)
    cells = counts[labels, answers]
    # The same numbers at each level: equal counts have equal bands.
    rng = np.random.default_rng(_SEED)
    drawn = rng.multinomial(cells.sum(), cells / cells.sum(), size=RESAMPLES)
    weights = np.ascontiguousarray(drawn.T, np.float64)
    return resampled_values(measure, labels, answers[None], len(counts), weights)[0]


def _merged(counts):
    """Counts of two classes with as many correct, wrong and unknown answers."""
    correct, unknown = np.trace(counts), counts[:, -1].sum()
    return np.array([[correct, counts.sum() - correct - unknown, unknown], [0, 0, 0]])


def _checked_bounds(levels, bounds):
    lower, upper = (levels[0], levels[-1]) if bounds is None else bounds
    if bounds is not None and not -np.inf < lower < upper < np.inf:
        raise ValueError(
            f"bounds must be finite, the lower below the upper; got {bounds}"
        )
    if levels[0] < lower or levels[-1] > upper:
        raise ValueError(
            f"levels must lie in the bounds [{lower:g}, {upper:g}]; got levels from "
            f"{levels[0]:g} to {levels[-1]:g}"
        )
    return lower, upper


def _checked_confusion(confusion, measure):
    if measure not in measures:
        raise ValueError(f"measure must be one of {tuple(measures)}; got {measure!r}")
    confusion = np.asarray(confusion)
    shape = confusion.shape
    if len(shape) != 3 or shape[1] < 2 or shape[2] != shape[1] + 1:
        raise ValueError(
            "confusion must have the shape [L, K, K + 1] with at least 2 classes; got "
            f"{shape}"
        )
    if not np.issubdtype(confusion.dtype, np.integer) or (confusion < 0).any():
        raise ValueError("confusion must hold counts, integers of at least 0")
    if (confusion.sum((-2, -1)) == 0).any():
        raise ValueError("confusion must count at least one input at each level")
    return confusion
