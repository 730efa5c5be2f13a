"""Curves: answers, counts by class, or scores at every level of an alteration."""

import dataclasses
import functools
from typing import Annotated, Any, NamedTuple, TypeVar

import numpy as np

from jaxrob import metrics
from jaxrob._arguments.checks import checked_array, checked_integer, checked_number
from jaxrob._arguments.messages import named
from jaxrob._classifiers.network import SCORE_NAME, check_score_name
from jaxrob._codec import (
    WRITTEN,
    Array,
    As,
    Document,
    Integer,
    Layout,
    Number,
    Text,
    document,
)
from jaxrob._devices.blocks import joined, taken
from jaxrob._metadata import ImageTable
from jaxrob.metrics._counts import (
    MOST_CONFUSED,
    MOST_RANKS,
    Counts,
    Groups,
    ImageScores,
    Worth,
    checked_counts,
    count,
    count_pairs,
    counts_of,
)
from jaxrob.metrics._groups import worth_of
from jaxrob.metrics._measures import MeanScore, any_measure, mean_named, top_k
from jaxrob.uncertainty import unknown_threshold

# The parts of a curve's document; single answers are in an object of their own.
_Levels = Annotated[np.ndarray, Array("L, ...")]
# Larger sums would not be exact in float64.
_MOST = 2**53
_Tally = Annotated[np.ndarray, Array("L, K", "int64", at_least=0, at_most=_MOST)]


class _Tallies(NamedTuple):
    """`Counts` in a document, above 64 classes."""

    correct: _Tally
    decided: _Tally
    given: _Tally
    unknown: _Tally


class _Counted(NamedTuple):
    """`Counts` in a document: the confusion up to 64 classes, above that tallies."""

    confusion: Annotated[
        np.ndarray | None,
        Array("L, K, K + 1", "int64", at_least=0, at_most=_MOST),
        Layout(may_lack=True, lengths=lambda counts: {"N": int(counts[0].sum())}),
    ]
    counts: Annotated[
        _Tallies | None,
        Layout(
            may_lack=True,
            lengths=lambda one: {"N": int(one.decided[0].sum() + one.unknown[0].sum())},
        ),
    ]
    ranks: Annotated[
        np.ndarray | None,
        Array("L, K, R", "int64", at_least=0, at_most=_MOST),
        Layout(may_lack=True),
    ]
    worth: Annotated[Worth | None, Layout(may_lack=True)]


def _written(counts: Counts) -> _Counted:
    worth = counts.groups if isinstance(counts.groups, Worth) else None
    if counts.confusion is not None:
        return _Counted(counts.confusion, None, counts.ranks, worth)
    return _Counted(None, _Tallies(*counts[:4]), counts.ranks, worth)


def _read(counted: _Counted, place: str) -> Counts:
    if counted.confusion is not None:
        counts = counts_of(counted.confusion)
    elif counted.counts is not None:
        counts = Counts(*counted.counts)
    else:
        raise ValueError(f"{place or 'the text'} lacks 'confusion', or 'counts'")
    return counts._replace(ranks=counted.ranks, groups=counted.worth)


_Counts = Annotated[Counts, As(_Counted, _written, _read), Layout(is_flat=True)]
_Classes = Annotated[
    np.ndarray,
    Array("L, N", ("int16", "int32"), is_packed=True),
    Layout(under="answers"),
]
_Labels = Annotated[
    np.ndarray, Array("N", "int32", is_packed=True), Layout(under="answers")
]
_Shares = Annotated[
    np.ndarray | None,
    # Rounding may put a probability above 1.
    Array("L, N", "float32", at_least=0, at_most=1 + 1e-5, is_packed=True),
    Layout(under="answers", may_lack=True),
]
_Ranks = Annotated[
    np.ndarray | None,
    Array("L, N", ("int16", "int32"), is_packed=True),
    Layout(under="answers", may_lack=True),
]
_Table = Annotated[ImageTable | None, Layout(under="answers", may_lack=True)]
_Alpha = Annotated[float | None, Number(at_least=0, at_most=1)]


@document("jaxrob curve 1")
@dataclasses.dataclass(frozen=True, eq=False)
class Curve(Document):
    """A classifier's answers on N images at L levels of an alteration.

    `jaxrob.evaluate` returns a curve, and `Assessment.curve` is one.

    Example::

        curve = jaxrob.evaluate(classifier, dataset, alteration, [0.0, 0.5, 1.0])
        print(curve.accuracy)  # one for each level
        careful = curve.with_unknown(alpha=0.8)
        print(careful.indecision, careful.effectiveness)

    Attributes:
      levels: float64 `[L]`, of a `jaxrob.Domain` `[L, d]`, in the order asked for.
      predicted: int16 (int32 above 32,767 classes) `[L, N]`, the most probable class.
      confidence: float32 `[L, N]`, its probability, or None from a classifier that
        gives only scores.
      uncertainty: float32 `[L, N]` in [0, 1], see `jaxrob.uncertainty.aleatoric`; None
        from a classifier that gives only scores.
      labels: int32 `[N]`, the right classes.
      num_classes: K.
      alpha: the confidence level of `with_unknown`; None if all answers are decided.
      rank: as `predicted`, how many classes come before the right one: 0 exactly where
        it is predicted, because of equally probable classes the first comes first. None
        from a classifier that gives only scores.
      table: the images' metadata and groups, see `jaxrob.Dataset`, or None.
    """

    levels: _Levels
    predicted: _Classes = dataclasses.field(repr=False)
    confidence: _Shares = dataclasses.field(repr=False)
    uncertainty: _Shares = dataclasses.field(repr=False)
    labels: _Labels = dataclasses.field(repr=False)
    num_classes: Annotated[int, Layout(make=lambda axes: axes["K"])]
    alpha: _Alpha = None
    rank: _Ranks = dataclasses.field(default=None, repr=False)
    table: _Table = dataclasses.field(default=None, repr=False)

    def __post_init__(self) -> None:
        classes = checked_integer("num_classes", self.num_classes, at_least=2)
        axes: dict[str, int] = {}
        checked_array("levels", self.levels, "L, ...", axes=axes)
        shapes = {"predicted": "L, N", "labels": "N"}
        if self.rank is not None:
            shapes["rank"] = "L, N"
        for name, shape in shapes.items():
            value, most = getattr(self, name), classes - 1
            checked_array(
                name, value, shape, "integers", at_least=0, at_most=most, axes=axes
            )
        if self.rank is not None and ((self.rank == 0) != self._is_right).any():
            raise ValueError("rank must be 0 where predicted is the label, only there")
        # The values are not checked: curves are made often, and are large.
        shape = axes["L"], axes["N"]
        for name in ("confidence", "uncertainty"):
            value = getattr(self, name)
            if value is not None and getattr(value, "shape", None) != shape:
                raise ValueError(f"{name} must be {shape}; got {named(value)}")
        if self.alpha is not None:
            unknown_threshold(self.alpha)

    def with_unknown(self, alpha: float | None) -> "Curve":
        """The curve with answers that are too uncertain as "unknown".

        Args:
          alpha: the confidence level in [0, 1]: an answer is unknown if its uncertainty
            exceeds 1 - alpha (2024 paper, section 3). None makes all answers decided.

        Raises:
          ValueError: if alpha lies outside [0, 1], or the classifier gave only scores.
        """
        if alpha is not None:
            unknown_threshold(alpha)
            if self.uncertainty is None:
                raise ValueError("alpha needs uncertainties; the curve has none")
        return dataclasses.replace(self, alpha=alpha)

    @functools.cached_property
    def unknown(self) -> np.ndarray:
        """Whether each answer is "unknown": bool `[L, N]`."""
        if self.alpha is None:
            return np.zeros(self.predicted.shape, bool)
        assert self.uncertainty is not None  # `with_unknown` has checked it.
        return self.uncertainty > unknown_threshold(self.alpha)

    @functools.cached_property
    def counts(self) -> Counts:
        """The `jaxrob.metrics.Counts` by class, `[L, K]`, that measures take."""
        return self._counted(MOST_RANKS)

    @property
    def _stated_counts(self) -> Annotated[_Counts, WRITTEN]:
        return self.counts._replace(ranks=None, groups=None)

    def counts_for(self, measure: str) -> Counts:
        """The counts that a measure, by name, needs: of top-k accuracy with k ranks."""
        k = top_k(measure) or 0
        return self.counts if k <= MOST_RANKS else self._counted(k)

    def _counted(self, num_ranks: int) -> Counts:
        answers, labels, classes = self._answers, self.labels, self.num_classes
        counts = count(answers, labels, classes, self.rank, num_ranks)
        if self.table is None or self.table.groups is None:
            return counts
        groups = Groups(self.table.groups, labels, answers, self.rank)
        return counts._replace(groups=groups)

    @functools.cached_property
    def confusion(self) -> np.ndarray:
        """int64 `[L, K, K + 1]`: counts by label and answer; the last is "unknown".

        At 41 levels of 1,000 classes it takes 330 MB, `counts` 1.3.
        """
        if self.counts.confusion is not None:
            return self.counts.confusion
        return count_pairs(self._answers, self.labels, self.num_classes)

    @property
    def _is_right(self) -> np.ndarray:
        return self.predicted == self.labels

    @property
    def _answers(self) -> np.ndarray:
        """The answers, K for "unknown": integers `[L, N]`."""
        if self.alpha is None:
            return self.predicted
        return np.where(self.unknown, self.num_classes, self.predicted)

    @property
    def accuracy(self) -> np.ndarray:
        """float64 `[L]`, see `jaxrob.metrics.accuracy`."""
        return metrics.accuracy(self.counts)

    @property
    def indecision(self) -> np.ndarray:
        """float64 `[L]`, see `jaxrob.metrics.indecision`."""
        return metrics.indecision(self.counts)

    @property
    def effectiveness(self) -> np.ndarray:
        """float64 `[L]`, see `jaxrob.metrics.effectiveness`."""
        return metrics.effectiveness(self.counts)

    def first_failing_level(self, identity: float) -> np.ndarray:
        """The smallest alteration of each image that makes the classifier fail.

        Args:
          identity: the level at which nothing is altered.

        Returns:
          float64 `[N]`: the level nearest to the identity, the lower of two, at which
          the image is misclassified ("unknown" is no failure); NaN if there is none.
        """
        wrong = ~self._is_right & ~self.unknown
        return _first_level(self.levels, wrong, identity)

    def first_unknown_level(self, identity: float) -> np.ndarray:
        """As `first_failing_level`, of the answer "unknown"."""
        return _first_level(self.levels, self.unknown, identity)

    def reduced(self, measure: str = "accuracy") -> "ReducedCurve":
        """The counts by class, without the single answers.

        Of images in groups, intervals of this measure alone can be told from them.
        """
        counts = self.counts_for(measure)
        if counts.groups is not None:
            counts = counts._replace(groups=worth_of(counts, any_measure(measure)))
        return ReducedCurve(self.levels, counts, self.alpha)

    def of_images(self, which: np.ndarray) -> "Curve":
        """The answers on some images: bool `[N]`, or their indices."""
        fields = ("predicted", "confidence", "uncertainty", "rank")
        parts = {name: getattr(self, name) for name in fields}
        some = {n: None if one is None else one[:, which] for n, one in parts.items()}
        labels, table = self.labels[which], self.table and self.table.of_images(which)
        return dataclasses.replace(self, labels=labels, table=table, **some)


@document("jaxrob reduced curve 1")
@dataclasses.dataclass(frozen=True, eq=False)
class ReducedCurve(Document):
    """The counts by class of a `Curve`, for data sets too large for single answers.

    Attributes:
      levels: float64 `[L]`.
      counts: the `jaxrob.metrics.Counts` by class, `[L, K]`, with the ranks of the
        right class up to the tenth, or a confusion `[L, K, K + 1]`, kept up to K = 64.
      alpha: the confidence level that decided which answers are "unknown", or None.
    """

    levels: _Levels
    counts: _Counts = dataclasses.field(repr=False)
    alpha: _Alpha = None

    def __post_init__(self) -> None:
        levels = checked_array("levels", self.levels, "L, ...")
        counts = checked_counts(self.counts)
        if len(counts.correct) != len(levels):
            raise ValueError(
                f"counts must have {len(levels)} levels; got {len(counts.correct)}"
            )
        if counts.num_classes > MOST_CONFUSED:
            counts = counts._replace(confusion=None)
        object.__setattr__(self, "counts", counts)
        if self.alpha is not None:
            unknown_threshold(self.alpha)

    @property
    def num_classes(self) -> int:
        """K."""
        return self.counts.num_classes

    @property
    def confusion(self) -> np.ndarray:
        """int64 `[L, K, K + 1]`: counts by label and answer; the last is "unknown".

        Raises:
          ValueError: if there are more than 64 classes, where it is not kept.
        """
        if self.counts.confusion is None:
            raise ValueError(
                f"confusion is not kept above {MOST_CONFUSED} classes, here "
                f"{self.num_classes:,}. Take counts, or evaluate with reduced=False"
            )
        return self.counts.confusion

    accuracy = Curve.accuracy
    indecision = Curve.indecision
    effectiveness = Curve.effectiveness

    def counts_for(self, measure: str) -> Counts:
        """As `Curve.counts_for`, but with no more ranks, which a measure may reject."""
        del measure
        return self.counts


@document("jaxrob score curve 1")
@dataclasses.dataclass(frozen=True, eq=False)
class ScoreCurve(Document):
    """A score of N images at L levels of an alteration, see `jaxrob.Score`.

    Attributes:
      levels: float64 `[L]`, in the order asked for.
      scores: float64 `[L, N]` in [0, 1], 1 is best; NaN for an image that was not
        looked at.
      score: the score's name.
      table: the images' metadata and groups, see `jaxrob.Dataset`, or None.
    """

    levels: _Levels
    scores: Annotated[
        np.ndarray,
        Array("L, N", at_least=0, at_most=1, may_be_nan=True, is_packed=True),
        Layout(under="scored"),
    ] = dataclasses.field(repr=False)
    score: Annotated[str, Text("the name of a score", SCORE_NAME)]
    table: Annotated[ImageTable | None, Layout(under="scored", may_lack=True)] = (
        dataclasses.field(default=None, repr=False)
    )

    def __post_init__(self) -> None:
        check_score_name("score", self.score)
        axes: dict[str, int] = {}
        checked_array("levels", self.levels, "L, ...", axes=axes)
        scores = checked_array(
            "scores",
            self.scores,
            "L, N",
            at_least=0,
            at_most=1,
            may_be_nan=True,
            axes=axes,
        )
        if np.isnan(scores).all(axis=1).any():
            raise ValueError("scores must hold at least one image at each level")
        if scores.dtype.itemsize < 8:  # As those of a score function.
            scores = np.round(scores.astype(np.float64), 7)
        object.__setattr__(self, "scores", scores.astype(np.float64, copy=False))

    @property
    def num_images(
        self,
    ) -> Annotated[
        int, Integer(1), Layout(lengths=lambda number: {"N": number}), WRITTEN
    ]:
        """N."""
        return self.scores.shape[1]

    @property
    def num_classes(self) -> int:
        """0: there are no classes."""
        return 0

    @property
    def labels(self) -> np.ndarray:
        """Zeros `[N]`: there are no classes."""
        return np.zeros(self.num_images, int)

    @property
    def alpha(self) -> None:
        """None: no answer is "unknown"."""
        return None

    @property
    def _answers(self) -> np.ndarray:
        return self.scores

    @property
    def measure(self) -> str:
        """The name of the measure, "mean IoU" for instance."""
        return mean_named(self.score)

    @property
    def values(self) -> np.ndarray:
        """float64 `[L]`, the mean score at each level."""
        return MeanScore(self.measure)(self.counts)

    @property
    def counts(self) -> ImageScores:
        """The scores as the measure takes them."""
        return ImageScores(self.scores, self.table and self.table.groups)

    def of_images(self, which: np.ndarray) -> "ScoreCurve":
        """The scores of some images: bool `[N]`, or their indices."""
        table = self.table and self.table.of_images(which)
        return dataclasses.replace(self, scores=self.scores[:, which], table=table)

    def counts_for(self, measure: str) -> ImageScores:
        """The same as `counts`."""
        del measure
        return self.counts

    def first_level_below(self, score: float, identity: float) -> np.ndarray:
        """As `Curve.first_failing_level`, of scores below a number."""
        below = self.scores < checked_number("score", score)
        return _first_level(self.levels, below, identity)

    def lowest(self, identity: float) -> tuple[np.ndarray, np.ndarray]:
        """The images' lowest scores and their levels, `[N]`; NaN if not looked at."""
        order = _nearest_first(self.levels, identity)
        scores = self.scores[order]
        first = np.where(np.isnan(scores), np.inf, scores).argmin(axis=0)
        least = scores[first, np.arange(self.num_images)]
        levels = np.where(np.isnan(least), np.nan, self.levels[order][first])
        return least, levels


C = TypeVar("C", bound="Curve | ReducedCurve | ScoreCurve")


#: The curves that an evaluation may give.
AnyCurve = Curve | ReducedCurve | ScoreCurve


def join(first: C, second: C) -> C:
    return dataclasses.replace(first, **joined([_by_level(first), _by_level(second)]))


def select(curve: C, rows: np.ndarray, levels: np.ndarray) -> C:
    """Returns these rows of a curve as the answers at new levels."""
    parts = {
        name: one.at(rows) if isinstance(one, Counts) else taken(one, rows)
        for name, one in _by_level(curve).items()
    }
    return dataclasses.replace(curve, **(parts | {"levels": levels}))


def _by_level(curve: AnyCurve) -> dict[str, Any]:
    names = [field.name for field in dataclasses.fields(curve)]
    return {name: getattr(curve, name) for name in names if name in _OF_LEVELS}


_OF_LEVELS = "levels predicted confidence uncertainty rank counts scores".split()


def _first_level(levels: np.ndarray, which: np.ndarray, identity: float) -> np.ndarray:
    """Returns each image's level nearest to the identity where `which` holds."""
    order = _nearest_first(levels, identity)
    first = which[order].argmax(axis=0)
    return np.where(which.any(axis=0), levels[order][first], np.nan)


def _nearest_first(levels: np.ndarray, identity: float) -> np.ndarray:
    identity = checked_number("identity", identity)
    levels = checked_array("levels", levels, "L")  # Those of a domain have no order.
    return np.lexsort((levels, np.abs(levels - identity)))
