"""Bootstrap and randomisation test of two classifiers' answers to the same images."""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, cast

import numpy as np
import scipy

from jaxrob.metrics._bands import resample_counts, resampled_values
from jaxrob.metrics._groups import effective_groups
from jaxrob.metrics._measures import MeanScore, Measure
from jaxrob.metrics._robustness import accepted_share

_SEED = 0
# All swaps of at most this many images are listed; swaps of more images are drawn.
_MOST_LISTED = 12
# As extreme swaps that end the drawing (Besag and Clifford 1991), and the most drawn at
# 95 %: the least p-value is a twelfth of what Holm requires of the best of sixteen.
_EXTREME, _MOST_SWAPS = 50, 4000
_FIRST_SWAPS, _SWAPS_AT_A_TIME = 250, 1000


# From which images are swapped, float64 `[D, B]`, to both networks' values, `[L, B]`.
_Swapped = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


class Answers(NamedTuple):
    levels: np.ndarray  # float64 `[L]`, ascending
    # Integers `[L, N]` in 0 ... K, K for "unknown"; float64 scores in [0, 1] if the
    # measure is their mean.
    answers: np.ndarray


class Question(NamedTuple):
    labels: np.ndarray  # integers `[N]` in 0 ... K - 1; 0 with scores
    num_classes: int  # K; 0 with scores
    measure: Measure | MeanScore  # the measure
    threshold: float  # the lowest value accepted
    lower: float  # the lower end of the range
    upper: float  # its upper end
    # Integers `[N]`, equal where images belong together, or None. Groups are drawn and
    # swapped as single images are.
    groups: np.ndarray | None = None
    weights: np.ndarray | None = None  # `[L]`, if only these levels exist


class Differences(NamedTuple):
    """The differences, first less second, B times; NaN where undefined."""

    robustness: np.ndarray  # `[B]`
    mean: np.ndarray  # `[B]`, the difference in the measure's mean over the range
    # `[S, B]`, the difference in the measure at each of the shared levels.
    values: np.ndarray


class Shared(NamedTuple):
    """The levels at which both classifiers have answers."""

    levels: np.ndarray  # float64 `[S]`, ascending
    # Their places among the first's and among the second's, `[S]` each.
    places: tuple[np.ndarray, np.ndarray]


def shared_levels(first: np.ndarray, second: np.ndarray) -> Shared:
    """Returns the levels that two sequences, `[L]` ascending, have in common."""
    # Alterations compute in float32, so levels that are alike there are the same.
    ours, theirs = (np.asarray(one, np.float32) for one in (first, second))
    _, mine, other = np.intersect1d(ours, theirs, return_indices=True)
    return Shared(first[mine], (mine, other))


def resampled(
    question: Question, first: Answers, second: Answers, number: int
) -> Differences:
    """Bootstraps pairs of answers: each replicate draws images for both together."""
    # The bootstrap has no data on what did not happen on few images: two are added, one
    # that each alone gets right at all levels (Agresti and Min 2005), labels drawn.
    more, (ours, theirs) = _with_added_images(question, [first, second])
    found = [
        _differences(more, ours, theirs, weights)
        for weights in _drawn_weights(question, 2, number)
    ]
    return Differences(*(np.concatenate(parts, axis=-1) for parts in zip(*found)))


def resampled_means(
    question: Question, networks: Sequence[Answers], number: int
) -> np.ndarray:
    """Bootstraps the means over the range of several networks together, `[P, B]`."""
    # One image more for each of P networks; means are scaled up, so that a difference
    # spreads as with two. Several alterations' draws, of labels and P, belong together.
    more, added = _with_added_images(question, networks)
    found = [
        _means(more, added, weights)
        for weights in _drawn_weights(question, len(networks), number)
    ]
    num_images, num_added = len(question.labels), len(networks)
    return np.concatenate(found, axis=1) * (num_images + num_added) / (num_images + 2)


def observed_means(question: Question, networks: Sequence[Answers]) -> np.ndarray:
    return _means(question, networks, np.ones((len(question.labels), 1)))[:, 0]


def _means(
    question: Question, networks: Sequence[Answers], weights: np.ndarray
) -> np.ndarray:
    return np.stack(
        [
            _linear_mean(
                question, one.levels, _weighted_values(question, one.answers, weights)
            )
            for one in networks
        ]
    )


def observed(question: Question, first: Answers, second: Answers) -> Differences:
    return _differences(question, first, second, np.ones((len(question.labels), 1)))


def randomisation_p_values(
    question: Question, first: Answers, second: Answers, confidence_level: float
) -> tuple[float, float]:
    """Returns p-values of the differences in robustness and in the mean measure."""
    # Fisher's randomisation test for pairs: if the classifiers are alike, all swaps of
    # their answers to an image, at levels that both have, are equally probable.
    most = most_swaps(confidence_level)
    levels, places = shared_levels(first.levels, second.levels)
    mine, other = (one.answers[at] for one, at in zip((first, second), places))
    differ = np.flatnonzero((mine != other).any(0))
    values = _swapped(question, mine, other, differ)
    units, unit_of = np.arange(len(differ)), slice(None)
    if question.groups is not None:
        units, unit_of = np.unique(question.groups[differ], return_inverse=True)

    def differences(is_swapped: np.ndarray) -> list[np.ndarray]:
        mine, other = values(is_swapped[unit_of].astype(np.float64))
        return [
            of(question, levels, mine) - of(question, levels, other)
            for of in (linear_robustness, _linear_mean)
        ]

    observed = np.abs(differences(np.zeros((len(units), 1))))
    least = observed * (1 - 1e-9) - 1e-12  # Less a margin for rounding.
    is_extreme = np.zeros((2, 0), bool)
    for is_swapped in _swaps(len(units), most):
        # An undefined difference may be as extreme.
        more = ~(np.abs(differences(is_swapped)) < least)
        is_extreme = np.concatenate([is_extreme, more], axis=1)
        if (is_extreme.sum(axis=1) >= _EXTREME).all():
            break
    found = [_p_value(one, len(units) <= _MOST_LISTED) for one in is_extreme]
    of_robustness, of_mean = np.where(np.isnan(observed[:, 0]), np.nan, found).tolist()
    return of_robustness, of_mean


def freedom(question: Question, networks: Sequence[Answers]) -> float:
    """Returns the degrees of freedom of Student's t of replicates."""
    if question.groups is None:
        # The images, and those added.
        return len(question.labels) + len(networks) - 1
    # Groups without a difference say nothing of how much differences scatter.
    levels = networks[0].levels
    for one in networks:
        levels = shared_levels(levels, one.levels).levels
    shared = [
        one.answers[shared_levels(levels, one.levels).places[1]] for one in networks
    ]
    differ = np.any([(one != shared[0]).any(0) for one in shared], axis=0)
    worth = effective_groups(question.groups, differ.astype(np.float64))
    return float(np.clip(worth - 1, 1, max(question.groups.max(), 1)))


def most_swaps(confidence_level: float) -> int:
    return math.ceil(_MOST_SWAPS * max(1.0, 0.05 / (1 - confidence_level)))


def _swapped(
    question: Question, mine: np.ndarray, other: np.ndarray, differ: np.ndarray
) -> _Swapped:
    if isinstance(question.measure, MeanScore):
        moves, number = (other - mine)[:, differ], len(question.labels)
        sums = [one.sum(1, keepdims=True) for one in (mine, other)]

        def means(is_swapped: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            moved = moves @ is_swapped
            return (sums[0] + moved) / number, (sums[1] - moved) / number

        return means
    if not question.measure.of_classes:
        # All that counts is whether an answer is right (0), wrong (1) or unknown (2).
        labels, number = question.labels, question.num_classes
        mine, other = (
            np.where(one == labels, 0, np.where(one < number, 1, 2))
            for one in (mine, other)
        )
        question = question._replace(labels=0 * labels, num_classes=2)
    levels = [
        _swaps_at(question, first, second, differ) for first, second in zip(mine, other)
    ]

    def values(is_swapped: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        found = [_values_swapped(question, one, is_swapped) for one in levels]
        first, second = (np.stack(some) for some in zip(*found))
        return first, second

    return values


class _Swaps(NamedTuple):
    """The effect of swaps at a level, in counts of C pairs of a label and an answer."""

    labels: np.ndarray  # `[C]`
    answers: np.ndarray  # `[C]`
    mine: np.ndarray  # `[C, 1]`, the first's counts without swaps
    other: np.ndarray  # `[C, 1]`, the second's counts without swaps
    # Sparse `[C, D]`, what swapping each of D images adds to the first's counts, and
    # takes from the second's.
    moves: "scipy.sparse.csr_array"  # slow to import


def _swaps_at(
    question: Question, mine: np.ndarray, other: np.ndarray, differ: np.ndarray
) -> _Swaps:
    base = question.num_classes + 1
    pairs = np.concatenate([question.labels, question.labels]).astype(np.int64) * base
    pairs, cells = np.unique(pairs + np.concatenate([mine, other]), return_inverse=True)
    cells = cells.reshape(2, -1)
    counts = [np.bincount(one, minlength=len(pairs))[:, None] for one in cells]
    # If both give the same answer, a swap changes nothing.
    moved = np.flatnonzero(mine[differ] != other[differ])
    from_, to = cells[:, differ[moved]]
    ones = np.ones(len(moved))
    moves = scipy.sparse.csr_array(
        (
            np.concatenate([ones, -ones]),
            (np.concatenate([to, from_]), [*moved, *moved]),
        ),
        shape=(len(pairs), len(differ)),
    )
    labels, answers = np.divmod(pairs, base)
    return _Swaps(labels, answers, counts[0], counts[1], moves)


def _values_swapped(
    question: Question, swaps: _Swaps, is_swapped: np.ndarray
) -> list[np.ndarray]:
    """Returns both measures `[B]` at a level, where images are swapped `[D, B]`."""
    moved, number = swaps.moves @ is_swapped, question.num_classes
    measure, answers = cast(Measure, question.measure), swaps.answers[None]
    return [
        resampled_values(measure, swaps.labels, answers, number, counts)[0]
        for counts in (swaps.mine + moved, swaps.other - moved)
    ]


def _p_value(is_extreme: np.ndarray, is_listed: bool) -> float:
    """Returns the share of extreme swaps; of drawn ones, up to the last that counts."""
    if is_listed:
        return float(is_extreme.mean())
    enough = np.flatnonzero(is_extreme)[_EXTREME - 1 :]
    if len(enough):
        return float(_EXTREME / (enough[0] + 1))
    # The observed difference is one of the swaps.
    return float((is_extreme.sum() + 1) / (len(is_extreme) + 1))


def _swaps(number: int, most: int) -> Iterator[np.ndarray]:
    """Yields which images are swapped, bool `[number, B]`, `most` times in all."""
    if number <= _MOST_LISTED:
        yield (np.arange(2**number) >> np.arange(number)[:, None]) & 1 == 1
        return
    rng = np.random.default_rng(_SEED)
    # A small first batch suffices for large p-values.
    for start in (0, *range(_FIRST_SWAPS, most, _SWAPS_AT_A_TIME)):
        size = min(_SWAPS_AT_A_TIME, most - start) if start else _FIRST_SWAPS
        yield rng.integers(2, size=(number, size), dtype=np.int8) == 1


def _differences(
    question: Question, first: Answers, second: Answers, weights: np.ndarray
) -> Differences:
    levels, places = shared_levels(first.levels, second.levels)
    pairs = []
    for one, at in zip((first, second), places):
        values = _weighted_values(question, one.answers, weights)
        robustness = linear_robustness(question, one.levels, values)
        values = values[at]
        pairs.append((robustness, _linear_mean(question, levels, values), values))
    return Differences(*(mine - other for mine, other in zip(*pairs)))


def _weighted_values(
    question: Question, answers: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """Returns the measure at each level, `[L, B]`, with images' weights `[N, B]`."""
    if isinstance(question.measure, MeanScore):
        return answers @ weights / weights.sum(0)
    labels, number = question.labels, question.num_classes
    return resampled_values(question.measure, labels, answers, number, weights)


def linear_robustness(
    question: Question, levels: np.ndarray, values: np.ndarray
) -> np.ndarray:
    """Computes `heaviside_robustness` by the rule "linear", of many curves at once."""
    if question.weights is not None:
        robustness = question.weights @ (values >= question.threshold)
        return np.where(np.isnan(values).any(0), np.nan, robustness)
    levels, values = _with_ends(question, levels, values)
    share = accepted_share(values[:-1], values[1:], question.threshold)
    robustness = np.diff(levels) @ share / (question.upper - question.lower)
    robustness = np.clip(robustness, 0, 1)  # rounding may leave the range
    return np.where(np.isnan(values).any(0), np.nan, robustness)


def _linear_mean(
    question: Question, levels: np.ndarray, values: np.ndarray
) -> np.ndarray:
    """Returns the mean over the range, `[B]`, with values joined by straight lines."""
    if question.weights is not None:
        return question.weights @ values
    levels, values = _with_ends(question, levels, values)
    middles = (values[:-1] + values[1:]) / 2
    return np.diff(levels) @ middles / (question.upper - question.lower)


def _with_ends(
    question: Question, levels: np.ndarray, values: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    levels = np.concatenate([[question.lower], levels, [question.upper]])
    return levels, np.concatenate([values[:1], values, values[-1:]])


def _labels_and_shares(question: Question) -> tuple[np.ndarray, np.ndarray]:
    labels, times = np.unique(question.labels, return_counts=True)
    return labels, times / times.sum()


def _drawn_weights(
    question: Question, num_added: int, number: int
) -> Iterator[np.ndarray]:
    """Yields the weights of the images and the added ones, in blocks of replicates."""
    labels, shares = _labels_and_shares(question)
    rng, num_images = np.random.default_rng(_SEED), len(question.labels)
    groups = question.groups
    units = num_images if groups is None else int(groups.max()) + 1
    for counts in resample_counts(rng, units + num_added, number, num_images):
        added = [rng.multinomial(one.astype(int), shares).T for one in counts[units:]]
        own = counts[:units] if groups is None else counts[groups]
        yield np.concatenate([own, *added])


def _with_added_images(
    question: Question, networks: Sequence[Answers]
) -> tuple[Question, list[Answers]]:
    """Adds an image for each network that it alone gets right, once for each label."""
    labels, _ = _labels_and_shares(question)
    if isinstance(question.measure, MeanScore):
        best, worst = np.ones(len(labels)), np.zeros(len(labels))
    else:
        best, worst = labels, (labels + 1) % question.num_classes
        one = question.measure.of_one_input
        if one is not None and one.numerator[0] == one.numerator[1]:
            # Any answer is right.
            worst = np.full_like(labels, question.num_classes)
    found = []
    for right, one in enumerate(networks):
        parts = [best if at == right else worst for at in range(len(networks))]
        shape = len(one.levels), len(networks) * len(labels)
        added = np.broadcast_to(np.concatenate(parts), shape)
        found.append(Answers(one.levels, np.hstack([one.answers, added])))
    every = np.concatenate([question.labels, *[labels] * len(networks)])
    return question._replace(labels=every), found
