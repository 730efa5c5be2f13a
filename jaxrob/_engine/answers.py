"""Answers on blocks of altered images, classes or scores, and curves of them."""

from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxrob import uncertainty
from jaxrob._classifiers.classifier import Classifier
from jaxrob._classifiers.network import Score
from jaxrob._curve import AnyCurve, Curve, ReducedCurve, ScoreCurve
from jaxrob._domain import AnyAlteration, level_text
from jaxrob._engine.blocks import Block
from jaxrob._engine.journal import array_entry
from jaxrob._engine.scores import Scored, ScoreRule
from jaxrob._numbers import first_largest, largest, log_normalised, mean_over_samples
from jaxrob.metrics._counts import Counts, count

# The predicted class where the classifier returned no distribution.
INVALID = -1

Array = TypeVar("Array", jax.Array, np.ndarray)


class Answers(NamedTuple, Generic[Array]):
    """One answer for each image; arrays of one shape, on the devices or on the host."""

    predicted: Array  # int32, the most probable class, or `INVALID`
    confidence: Array  # float32, its probability; NaN for "scores"
    uncertainty: Array  # float32 in [0, 1], `uncertainty.aleatoric`; NaN for "scores"
    # Int32, how many classes come before the right one, the first of equal ones first.
    # `INVALID` for "scores", whose order beyond the largest means nothing.
    rank: Array


HostAnswers = Answers[np.ndarray]


def answer(
    classifier: Classifier,
    images: jax.Array,
    labels: jax.Array,
    keys: jax.Array | None = None,
) -> Answers[jax.Array]:
    """Computes the classifier's answers from its samples' mean probabilities."""
    # With classes first, reductions over them vectorise over the images. On a CPU this
    # saves a tenth of a perceptron's assessment.
    outputs = jnp.moveaxis(classifier.raw_outputs(images, keys), -1, 0)
    if classifier.outputs == "scores":
        none = jnp.full(len(images), jnp.nan, jnp.float32)
        first = _largest(outputs.mean(axis=1))
        return Answers(first, none, none, jnp.full_like(first, INVALID))
    log_probabilities = log_normalised(outputs, classifier.outputs, axis=0)
    mean = mean_over_samples(log_probabilities, axis=1)
    # A single sample's outputs rank classes as its probabilities do, even where
    # rounding makes the probabilities equal.
    ranked = outputs[:, 0] if outputs.shape[1] == 1 else mean
    valid = ~jnp.isnan(mean).any(axis=0)
    predicted = jnp.where(valid, _largest(ranked), INVALID)
    return Answers(
        predicted,
        jnp.exp(largest(mean, axis=0)),
        uncertainty.aleatoric(jnp.moveaxis(log_probabilities, 0, -1)),
        _rank(ranked, labels, predicted),
    )


def no_answers(shape: tuple[int, ...]) -> Answers[jax.Array]:
    """Returns room for answers of a shape, of the types that `answer` returns."""
    types = Answers(jnp.int32, jnp.float32, jnp.float32, jnp.int32)
    return Answers(*(jnp.zeros(shape, one) for one in types))


def _largest(scores: jax.Array) -> jax.Array:
    """Returns the first class `[B]` of the largest score, from `[K, B]`."""
    valid = ~jnp.isnan(scores).any(axis=0)
    return jnp.where(valid, first_largest(scores, axis=0), INVALID).astype(jnp.int32)


def _rank(scores: jax.Array, labels: jax.Array, predicted: jax.Array) -> jax.Array:
    """Returns how many classes come before the label `[B]`, from `[K, B]`."""
    classes = jnp.arange(len(scores), dtype=labels.dtype)[:, None]
    # A masked maximum would cost a CPU twice as much: 13 ns an image of 10 classes.
    (own,) = jnp.take_along_axis(scores, labels[None], axis=0)
    # XLA may compute the scores twice, and round them differently. So the class never
    # counts as before itself, and the prediction decides which class is the first.
    is_before = (classes < labels) & (scores >= own)
    is_before |= (classes > labels) & (scores > own)
    rank = is_before.sum(axis=0, dtype=jnp.int32)
    return jnp.where(predicted == labels, 0, jnp.maximum(rank, 1))


# Scores outside [0, 1] by no more than this are rounding.
_ROUNDING_OF_SCORES = 1e-6
# Larger differences between confidences of one image are not rounding.
_LARGEST_DIFFERENCE = 1e-3
# Between scores of one image, which rounding may change by a pixel or a box.
_LARGEST_SCORE_DIFFERENCE = 0.05
# Two classes that tie have a confidence of at most a half.
_MOST_OF_A_TIE = 0.5 + _LARGEST_DIFFERENCE
# Outputs that differ by less, relative to the largest one, are equal in bfloat16.
_ROUNDING = 1e-2


# The indices of a block's images in the data, on the devices, and where answers start.
Place = tuple[jax.Array, int]


class OfClasses(NamedTuple):
    """Answers of a classifier; labels are classes."""

    classifier: Classifier
    num_classes: int
    score: None = None

    def empty(self, shape: tuple[int, ...]) -> HostAnswers:
        is_small = self.num_classes <= np.iinfo(np.int16).max
        classes = np.int16 if is_small else np.int32
        return Answers(
            np.empty(shape, classes),
            np.empty(shape, np.float32),
            np.empty(shape, np.float32),
            np.empty(shape, classes),
        )

    def checked(
        self,
        answers: HostAnswers,
        place: Place,
        levels: np.ndarray,
        alteration: AnyAlteration,
    ) -> HostAnswers:
        del place
        invalid = answers.predicted == INVALID
        if not invalid.any():
            return answers
        level = levels[invalid.any(axis=1)][0]
        what = {
            "probabilities": "NaN, or rows that are no probabilities with a sum of 1,",
            "sigmoid": "NaN, or activations outside [0, 1],",
            "logits": "NaN, or infinite logits,",
        }.get(self.classifier.outputs, "NaN")
        by_it = " (which may have made them NaN)" * bool(
            np.any(level != alteration.identity)
        )
        hint = ""
        if self.classifier.outputs in ("probabilities", "sigmoid"):
            hint = '. Divide percent by 100; of logits, say outputs="logits"'
        raise ValueError(
            f"the classifier returned {what} for {invalid.any(axis=0).sum()} of "
            f"{invalid.shape[1]} images in a block, first at level "
            f"{level_text(level)} of {alteration.name}{by_it}{hint}"
        )

    def differs(
        self, one: HostAnswers, other: HostAnswers, outputs: Callable[[], np.ndarray]
    ) -> np.ndarray:
        with np.errstate(invalid="ignore"):
            differs = np.abs(one.confidence - other.confidence) > _LARGEST_DIFFERENCE
            # Two classes cannot both exceed a half.
            is_clear = np.minimum(one.confidence, other.confidence) > _MOST_OF_A_TIE
        classes = one.predicted != other.predicted
        if (classes & ~differs & ~is_clear).any():
            scores = outputs().mean(axis=0)
            both = np.broadcast_arrays(one.predicted, other.predicted)
            pair = np.maximum(np.stack(both, axis=1), 0)
            worse = np.take_along_axis(scores, pair, axis=1).min(axis=1)
            behind = scores.max(axis=1) - worse
            is_clear |= behind > _ROUNDING * np.abs(scores).max(axis=1)
        return differs | (classes & is_clear)

    def curve(
        self, levels: np.ndarray, answers: HostAnswers, labels: np.ndarray
    ) -> Curve:
        has_probabilities = self.classifier.outputs != "scores"
        return Curve(
            levels=levels,
            predicted=answers.predicted,
            confidence=answers.confidence if has_probabilities else None,
            uncertainty=answers.uncertainty if has_probabilities else None,
            rank=answers.rank if has_probabilities else None,
            labels=labels,
            num_classes=self.num_classes,
        )

    def read(self, record: dict[str, Any], num_levels: int) -> HostAnswers:
        has_probabilities = self.classifier.outputs != "scores"
        predicted = array_entry(record, "predicted", "i", (num_levels, None))
        last = self.num_classes - 1
        if not predicted.size or predicted.min() < 0 or predicted.max() > last:
            raise ValueError(f"'predicted' must hold classes, from 0 to {last}")
        shares = []
        for field in ("confidence", "uncertainty"):
            found = array_entry(record, field, "f", predicted.shape)
            # Rounding may carry a probability beyond 1. NaN fails both comparisons.
            fits = (found >= 0) & (found <= 1 + 1e-5)
            if not (fits if has_probabilities else np.isnan(found)).all():
                wanted = "in [0, 1]" if has_probabilities else "NaN, of scores"
                raise ValueError(f"{field!r} must be {wanted}")
            shares.append(found)
        rank = array_entry(record, "rank", "i", predicted.shape)
        low, high = (0, last) if has_probabilities else (INVALID, INVALID)
        if rank.min() < low or rank.max() > high:
            raise ValueError(f"'rank' must lie in [{low}, {high}]")
        return Answers(predicted, shares[0], shares[1], rank)


class OfScores(NamedTuple):
    """Scores in [0, 1] of a network's outputs."""

    rule: ScoreRule
    num_classes: None = None

    @property
    def score(self) -> Score:
        return self.rule.score

    def empty(self, shape: tuple[int, ...]) -> Scored[np.ndarray]:
        return Scored(np.empty(shape))

    def checked(
        self,
        answers: Scored,
        place: Place,
        levels: np.ndarray,
        alteration: AnyAlteration,
    ) -> Scored[np.ndarray]:
        found = np.asarray(answers.score, np.float64)
        # Of single precision the decimal that is meant, or 0.7 would fail 0.7.
        found = np.where(np.float32(found) == found, np.round(found, 7), found)
        fits = (found >= -_ROUNDING_OF_SCORES) & (found <= 1 + _ROUNDING_OF_SCORES)
        if not fits.all():
            row, column = np.argwhere(~fits)[0]
            indices, start = place
            index = np.asarray(indices)[start + column]
            raise ValueError(
                f"score {self.score.name!r} must lie in [0, 1]; got "
                f"{found[row, column]:g} for image {index} at level "
                f"{level_text(levels[row])} of {alteration.name}, and "
                f"{(~fits).sum()} such of {fits.size}"
            )
        return Scored(np.clip(found, 0, 1))

    def differs(
        self, one: Scored, other: Scored, outputs: Callable[[], np.ndarray]
    ) -> np.ndarray:
        del outputs
        # In float64, because scores may be booleans.
        change = np.subtract(one.score, other.score, dtype=np.float64)
        return np.abs(change) > _LARGEST_SCORE_DIFFERENCE

    def curve(
        self, levels: np.ndarray, answers: Scored, labels: np.ndarray
    ) -> ScoreCurve:
        del labels
        return ScoreCurve(levels, answers.score, self.score.name)

    def read(self, record: dict[str, Any], num_levels: int) -> Scored[np.ndarray]:
        score = array_entry(record, "score", "f", (num_levels, None))
        # NaN fails both comparisons.
        if not (score.size and ((score >= 0) & (score <= 1)).all()):
            raise ValueError("'score' must lie in [0, 1], at least one")
        return Scored(score)


Kind = OfClasses | OfScores


class AnswerCollector:
    """Keeps every answer, in a `Curve`, or every score, in a `ScoreCurve`."""

    def __init__(self, levels: np.ndarray, length: int | None, kind: Kind) -> None:
        self._levels = levels
        self._kind = kind
        # Allocated at full size if the number of images is known.
        self._whole: Any = None
        if length is not None:
            self._whole = kind.empty((len(levels), length))
        # Each block's labels and its answers at all levels, by its first image.
        self._labels: dict[int, np.ndarray] = {}
        self._blocks: dict[int, Any] = {}

    def add(self, block: Block, rows: list[int], answers: Any) -> None:
        if block.start not in self._blocks:
            self._labels[block.start] = block.labels
            self._blocks[block.start] = self._room_for(block)
        for whole, part in zip(self._blocks[block.start], answers):
            for row, values in zip(rows, part):
                whole[row] = values

    def curve(self) -> AnyCurve:
        starts, whole = sorted(self._blocks), self._whole
        if whole is None:
            blocks = [self._blocks[start] for start in starts]
            whole = jax.tree.map(lambda *some: np.concatenate(some, axis=1), *blocks)
        labels = np.concatenate([self._labels[start] for start in starts])
        return self._kind.curve(self._levels, whole, labels)

    def _room_for(self, block: Block) -> Any:
        if self._whole is None:
            return self._kind.empty((len(self._levels), len(block.labels)))
        return jax.tree.map(lambda part: part[:, block.start : block.stop], self._whole)


class CountCollector:
    """Keeps only counts by class, in a `ReducedCurve`."""

    def __init__(
        self, levels: np.ndarray, num_classes: int, has_probabilities: bool
    ) -> None:
        self._levels = levels
        self._num_classes = num_classes
        self._has_ranks = has_probabilities
        self._sums: Counts | None = None

    def add(self, block: Block, rows: list[int], answers: HostAnswers) -> None:
        rank = answers.rank if self._has_ranks else None
        counted = count(answers.predicted, block.labels, self._num_classes, rank)
        if self._sums is None:
            number = len(self._levels)
            self._sums = jax.tree.map(
                lambda part: np.zeros((number, *part.shape[1:]), np.int64), counted
            )
        for whole, part in zip(*map(jax.tree.leaves, (self._sums, counted))):
            whole[rows] += part

    def curve(self) -> ReducedCurve:
        assert self._sums is not None
        return ReducedCurve(self._levels, self._sums)
