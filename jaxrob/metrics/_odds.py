"""Are the "unknown" answers the ones that would have been wrong?"""

from typing import NamedTuple

import numpy as np
from scipy import special

from jaxrob.metrics._interval import check_confidence
from jaxrob.uncertainty import unknown_threshold


class OddsRatio(NamedTuple):
    """How "unknown" and "wrong" go together; arrays of one shape.

    Attributes:
      ratio: float64, above 1 where unknown answers would have been wrong more often
        than the decided ones are; NaN where there is nothing to compare.
      low: float64, the lower end of its confidence interval, at least 0.
      high: float64, the upper end, possibly infinite.
    """

    ratio: np.ndarray
    low: np.ndarray
    high: np.ndarray


def unknown_counts(
    predicted: np.ndarray,
    labels: np.ndarray,
    uncertainty: np.ndarray,
    alpha: float,
) -> np.ndarray:
    """Inputs by whether the answer is unknown and whether it would have been wrong.

    Args:
      predicted: integers `[L, N]`, the most probable class, decided or not.
      labels: integers `[N]`, the right classes.
      uncertainty: `[L, N]` in [0, 1], see `jaxrob.uncertainty.aleatoric`.
      alpha: the confidence level in [0, 1]: an answer is unknown where its uncertainty
        exceeds 1 - alpha.

    Returns:
      int64 `[L, 2, 2]`: rows are unknown and decided, columns wrong and right.

    Raises:
      ValueError: if alpha lies outside [0, 1] or is missing, the uncertainty is missing
        or NaN, or the shapes do not fit.
    """
    if alpha is None:
        raise ValueError("alpha must lie in [0, 1]; got None: no answer is unknown")
    threshold = unknown_threshold(alpha)
    if uncertainty is None:
        raise ValueError(
            'uncertainty is missing (None), as from a classifier of outputs="scores"'
        )
    predicted, labels = np.asarray(predicted), np.asarray(labels)
    uncertainty = np.asarray(uncertainty)
    shape = predicted.shape
    if len(shape) != 2 or uncertainty.shape != shape or labels.shape != shape[1:]:
        raise ValueError(
            "predicted and uncertainty must have the shape [L, N], and labels [N]; got "
            f"{shape}, {uncertainty.shape} and {labels.shape}"
        )
    if np.isnan(uncertainty).any():
        raise ValueError("uncertainty must not be NaN")
    unknown, wrong = uncertainty > threshold, predicted != labels
    cells = [
        np.count_nonzero(row & column, axis=1)
        for row in (unknown, ~unknown)
        for column in (wrong, ~wrong)
    ]
    return np.stack(cells, axis=-1).reshape(-1, 2, 2)


def odds_ratio(counts: np.ndarray, confidence: float = 0.95) -> OddsRatio:
    """The odds of being wrong of unknown answers, over those of decided ones.

    The 2024 paper's open question (section 7), whether unknown and incorrect
    predictions go together, as a number. With a half added to each cell (Haldane, 1956;
    Anscombe, 1956) it is finite for every table, and the logarithm's standard error is
    the root of the sum of the cells' reciprocals (Woolf, 1955). Where a cell is 0 the
    interval reaches to 0 or to infinity, as the table cannot exclude those (Agresti,
    1999).

    Args:
      counts: integers `[..., 2, 2]`, see `unknown_counts`.
      confidence: the coverage aimed at, in (0, 1).

    Returns:
      The `OddsRatio`, of the shape `[...]`. Where nothing or all is unknown, or wrong,
      the ratio is NaN and the interval [0, infinity].

    Raises:
      ValueError: if the counts have another shape, are no integers or negative, or the
        confidence lies outside (0, 1).
    """
    check_confidence(confidence)
    counts = np.asarray(counts)
    if counts.shape[-2:] != (2, 2):
        raise ValueError(f"counts must have the shape [..., 2, 2]; got {counts.shape}")
    if not np.issubdtype(counts.dtype, np.integer) or (counts < 0).any():
        raise ValueError("counts must be integers of at least 0")
    comparable = (counts.sum(-1) > 0).all(-1) & (counts.sum(-2) > 0).all(-1)
    halved = counts + 0.5
    log = np.log(halved)
    middle = log[..., 0, 0] + log[..., 1, 1] - log[..., 0, 1] - log[..., 1, 0]
    half = special.ndtri((1 + confidence) / 2) * np.sqrt((1 / halved).sum((-2, -1)))
    concordant = (counts[..., 0, 0] > 0) & (counts[..., 1, 1] > 0)
    discordant = (counts[..., 0, 1] > 0) & (counts[..., 1, 0] > 0)
    return OddsRatio(
        np.where(comparable, np.exp(middle), np.nan),
        np.where(concordant, np.exp(middle - half), 0.0),
        np.where(discordant, np.exp(middle + half), np.inf),
    )
