"""Warns of answers that show a mistake in how a classifier is given.

Each check runs once per public call, and only while it costs next to nothing.
"""

import collections
import functools
import math
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy

from jaxrob._arguments.warnings import warn
from jaxrob._classifier import Classifier
from jaxrob._dataset import BatchedDataset, Dataset
from jaxrob._devices.hosts import fetch, put
from jaxrob._devices.mesh import ImageMesh, replicated
from jaxrob._devices.rows import is_on_devices, taken_on_devices
from jaxrob._engine.answers import Answers, HostAnswers
from jaxrob._engine.blocks import PlacedBlock
from jaxrob._engine.scores import Scored
from jaxrob._keys import classifier_keys
from jaxrob._pixels import as_floats
from jaxrob._score import Score

# Images checked in a program of their own.
_NUM_ALONE = 16
# The most images checked in a block.
MAX_CHECKED = 64
# Tolerance, in bfloat16 too, of the sum 1 of a distribution.
_SUM_TOLERANCE = 1e-2
# Larger differences between confidences of one image are not rounding.
_LARGEST_DIFFERENCE = 1e-3
# Between scores of one image, which rounding may change by a pixel or a box.
_LARGEST_SCORE_DIFFERENCE = 0.05
# Two classes that tie have a confidence of at most a half.
_MOST_OF_A_TIE = 0.5 + _LARGEST_DIFFERENCE
# Outputs that differ by less, relative to the largest one, are equal in bfloat16.
_ROUNDING = 1e-2
# On the right scale the accuracy is at least this much higher, at this significance.
_MIN_GAIN = 0.2
_SIGNIFICANCE = 0.01
# Without labels, fewer images show nothing.
_MIN_IMAGES = 4
_LOGITS = "logits"
# A check of at most this share of all answers costs next to nothing.
_LARGEST_SHARE = 0.01


def is_flat(confidence: np.ndarray, num_classes: int) -> bool:
    """Whether the softmax of values in [0, 1] can reach every confidence."""
    largest = math.e / (math.e + num_classes - 1)
    return bool(confidence.max() <= largest * (1 + 1e-5))


def check_logits(
    classifier: Classifier,
    dataset: Dataset | BatchedDataset,
    key: jax.Array,
    mesh: ImageMesh,
    number: int,
) -> None:
    """Warns if "logits" are probabilities, or identical for every image."""
    # Called only if `is_flat`, because it runs the classifier on a few images.
    if not is_worthwhile(_LOGITS, classifier, _NUM_ALONE, number):
        return
    first = dataset if isinstance(dataset, Dataset) else next(dataset.batches())
    images, number = first.images, min(_NUM_ALONE, len(first))
    if is_on_devices(images):
        images = taken_on_devices(images, np.arange(number), number)
    images = np.asarray(images[:number])
    rows = fetch(_raw_outputs(classifier, put(images, replicated(mesh)), key))
    sums = rows.sum(axis=-1)
    of = f"on the first {len(images)} images the classifier"
    are_distributions = (rows >= -1e-6).all() and (
        np.abs(sums - 1) <= _SUM_TOLERANCE
    ).all()
    spread = np.ptp(rows, axis=1).max()
    are_equal = spread <= 1e-6 * np.abs(rows).max() and np.ptp(images, axis=0).max() > 0
    # A binary head's only column stands beside zeros; read as logits, all are class 1.
    one = rows[..., 1:].mean(axis=0)
    is_share = len(one[0]) == 1 and not rows[..., 0].any() and 0 <= one.min()
    is_share = is_share and 0 < one.max() <= 1
    passed = not (are_distributions or are_equal or is_share)
    _passed(_LOGITS, jax.tree.structure(classifier)).append(passed)
    if are_distributions:
        if (rows.max(axis=-1) >= 1 - 1e-6).all():
            warn(
                f'outputs="logits", but {of} returns a 1 for one class and 0 for the '
                "others. Their softmax is no confidence: pass "
                'outputs="scores", of which only the largest counts.'
            )
        else:
            warn(
                f'outputs="logits", but {of} returns distributions, whose values are '
                "at least 0 and add up to 1. A second softmax makes them nearly equal: "
                'pass outputs="probabilities", or return what is before the softmax.'
            )
    elif is_share:
        labels = np.asarray(first.labels).reshape(-1, 1)
        has_labels = first.labels is not None and not first._has_pseudo_labels
        is_1 = labels[:number] == 1
        so, as_such = (f"{((one > at) == is_1).mean():.0%}" for at in (0, 0.5))
        warn(
            f'outputs="logits", but {of} returns one column in [0, 1], as of '
            f'probabilities of class 1: outputs="sigmoid".'
            + f" So {so} are right, and {as_such} as such."
            * has_labels
        )
    elif are_equal:
        warn(
            f"{of} returns the same for every image. It has learnt nothing, or the "
            "images are not scaled as it expects them."
        )


def is_worthwhile(
    what: str,
    classifier: Classifier,
    cost: int,
    number: int,
    score: Score | None = None,
) -> bool:
    """Whether a check that runs a classifier again is worth its time."""
    # It is until a classifier of this structure has passed the check with this score;
    # from then on, only where the check costs next to nothing.
    passed = list(_passed(what, jax.tree.structure(classifier), score))
    return passed != [True] or cost <= _LARGEST_SHARE * number


class Rerun(NamedTuple):
    """Functions that classify other images in a block by the block's own program.

    Attributes:
      answers: returns the answers at the levels of a step; only the first row is valid.
      outputs: returns the raw outputs `[S, B, K]` at the first level. It compiles a
        program, so it is called only for possible ties.
      as_bytes: returns the index of the mildest level, and the answers there on the
        altered images times 255; only the first `MAX_CHECKED` of the first row are
        valid.
    """

    answers: Callable[[jax.Array], Answers | Scored]
    outputs: Callable[[jax.Array], jax.Array]
    as_bytes: Callable[[jax.Array], tuple[int, Answers | Scored]]


def check_batch_invariance(
    classifier: Classifier,
    placed: PlacedBlock,
    answers: Answers | Scored,
    rerun: Rerun,
    stochastic: bool,
    score: Score | None = None,
) -> bool:
    """Warns if a classifier's answer on an image depends on more than the image."""
    # Batch statistics and dropout left on after training make it depend on the rest of
    # the batch: the first images are classified again, among copies of one of them. If
    # the same block is answered differently, the classifier is random or keeps a state.
    images = np.asarray(placed.images)
    number = len(placed.block.labels)
    # At least half of each device's images must be replaced.
    on_each = placed.images.sharding.shard_shape(images.shape)[0]
    kept = min(MAX_CHECKED, number, on_each // 2)
    before = row_of(answers, 0)

    def asked(chosen: np.ndarray) -> tuple[Any, jax.Array]:
        others = jax.device_put(images[chosen], placed.images.sharding)
        return row_of(rerun.answers(others), 0), others

    def differs(found: Any, other: Any, rows: Any) -> np.ndarray:
        """Where the answers on rows of `others` differ from `other`."""
        return _differs(
            found, other, lambda: np.asarray(rerun.outputs(others))[:, rows]
        )

    chosen = np.arange(len(images))
    chosen[kept:] = 0
    what, found = "", np.zeros(1, bool)
    if kept:
        after, others = asked(chosen)
        found = differs(
            _rows(after, slice(kept)), _rows(before, slice(kept)), slice(kept)
        )
        what = f"{found.sum()} of the first {kept} images"
        # Copies of one image have the labels of others, and so other scores.
        is_random = stochastic or classifier.stochastic
        if not (found.any() or is_random or isinstance(answers, Scored)):
            copies = slice(kept, None)
            found = differs(_rows(after, copies), _rows(after, slice(1)), copies)
            what = f"{found.sum()} of {len(found)} copies of one image"
    depends = found.any()
    if depends or not kept:
        # Even a single image may be answered differently each time.
        repeated, others = asked(np.arange(len(images)))
        every = slice(number)
        found = differs(_rows(repeated, every), _rows(before, every), every)
    passed = not (depends or found.any())
    structure = jax.tree.structure(classifier)
    _passed("batch invariance", structure, score).append(passed)
    if found.any():
        warn(
            f"the classifier answers {found.sum()} of {number} images differently when "
            "it is asked the same again. It keeps a state between calls, or draws "
            "random numbers: switch that off (model.eval(), deterministic=True), or "
            f"take them from the keys of stochastic=True.{_or_the_score(score)}"
        )
    elif depends:
        warn(
            f"the classifier answers {what} differently, depending on the images "
            "beside them. It seems to be left in training mode, where batch statistics "
            "or dropout are on. Switch that off: train=False, "
            "use_running_average=True, deterministic=True or model.eval()."
            f"{_or_the_score(score)}"
        )
    return passed


def scale_check(classifier: Classifier, labels: np.ndarray) -> str | None:
    """Names the check of the scale that these images allow."""
    # If labels differ, it compares accuracies, else confidences. Returns None for
    # scores, or too few images, without differing labels.
    if np.ptp(labels[:MAX_CHECKED]) > 0:
        return "accuracy by scale"
    has_enough = len(labels) >= _MIN_IMAGES and classifier.outputs != "scores"
    return "confidence by scale" if has_enough else None


def check_scale(
    classifier: Classifier,
    answers: HostAnswers,
    as_bytes: HostAnswers,
    labels: np.ndarray,
) -> bool:
    """Warns if a classifier takes pixels of 0 to 255 but gets those in [0, 1]."""
    labels = labels[:MAX_CHECKED]
    first = slice(len(labels))
    answers, as_bytes = _rows(answers, first), _rows(as_bytes, first)
    seems = takes_bytes(answers, as_bytes, labels)
    what = scale_check(classifier, labels)
    assert what is not None
    _passed(what, jax.tree.structure(classifier)).append(not seems)
    if not seems:
        return False
    seen = "answers nearly the same for each of them"
    if what == "accuracy by scale":
        right = [np.mean(one.predicted == labels) for one in (answers, as_bytes)]
        seen = f"is right for {right[0]:.0%} of them, and for {right[1]:.0%} times 255"
    warn(
        f"the classifier gets pixels in [0, 1], and seems to take those of 0 to 255: "
        f"of {len(labels)} images it {seen}. Pass preprocessing="
        "jaxrob.Preprocessing(scale=255) to Classifier.from_..., or "
        "multiply by 255 in your function."
    )
    return True


def takes_bytes(
    answers: HostAnswers, as_bytes: HostAnswers, labels: np.ndarray
) -> bool:
    """Whether a classifier takes pixels of 0 to 255, judged by both scales' answers."""
    # To a network that takes bytes, images in [0, 1] are nearly black: its confidences
    # hardly differ; times 255 its accuracy far exceeds that in [0, 1] and the share of
    # the most frequent class. A network that takes [0, 1] is overconfident times 255,
    # even early in training. The limits separated both kinds of networks at each stage
    # of a training on MNIST.
    has_confidence = not np.isnan(answers.confidence).any()  # NaN for scores.
    spread = np.ptp(answers.confidence) if has_confidence else 0.0
    sure = as_bytes.confidence.mean()
    saturated = (as_bytes.confidence > 1 - 1e-6).mean()
    if np.ptp(labels) > 0:
        accuracy = np.mean(as_bytes.predicted == labels)
        too_sure = saturated > 0.5 and sure > accuracy + 0.35
        alike = spread <= 0.1 and _share_of_one(answers) >= 0.4
        return bool(alike and not too_sure and _is_better(answers, as_bytes, labels))
    alike = has_confidence and spread <= 0.03 and answers.confidence.mean() <= 0.95
    differ = _share_of_one(answers) >= 0.9 and _share_of_one(as_bytes) <= 0.7
    return bool(alike and differ and sure >= 0.5 and saturated <= 0.5)


def _is_better(answers: HostAnswers, as_bytes: HostAnswers, labels: np.ndarray) -> bool:
    """Whether the accuracy is far higher, and significantly so, with bytes."""
    right, right_as_bytes = answers.predicted == labels, as_bytes.predicted == labels
    most_frequent = np.bincount(labels).max() / len(labels)
    if right_as_bytes.mean() < max(right.mean(), most_frequent) + _MIN_GAIN:
        return False
    gained, changed = (right_as_bytes & ~right).sum(), (right_as_bytes ^ right).sum()
    return bool(scipy.special.bdtrc(gained - 1, changed, 0.5) <= _SIGNIFICANCE)


def _share_of_one(answers: HostAnswers) -> float:
    """Returns the share of the most frequent answer."""
    return np.unique(answers.predicted, return_counts=True)[1].max() / len(
        answers.predicted
    )


def _passed(
    what: str, structure: Any, score: Score | None = None
) -> collections.deque[bool]:
    """Returns a check's last result for classifiers of this structure, if any."""
    try:
        return _kept(what, structure, score)
    except TypeError:  # A score whose function cannot be hashed.
        return collections.deque(maxlen=1)


@functools.lru_cache(maxsize=512)
def _kept(*of: Hashable) -> collections.deque[bool]:
    del of
    return collections.deque(maxlen=1)


def _or_the_score(score: Score | None) -> str:
    """Says what else the reason may be, because the check sees the scores alone."""
    if score is None:
        return ""
    return (
        f" Or the score {score.name!r} does: each image's score must depend on its own "
        "output and label alone, not on a mean or a maximum over the batch."
    )


def row_of(answers: Any, row: int) -> Any:
    """Returns the answers at one of the levels, on the host."""
    found = answers if isinstance(answers, Scored) else fetch(answers)
    return jax.tree.map(lambda part: np.asarray(part)[row], found)


def _rows(answers: Any, rows: slice) -> Any:
    return jax.tree.map(lambda part: part[rows], answers)


def _differs(one: Any, other: Any, outputs: Callable[[], np.ndarray]) -> np.ndarray:
    """Where answers differ by more than rounding."""
    if isinstance(one, Scored):
        # In float64, because scores may be booleans.
        change = np.subtract(one.score, other.score, dtype=np.float64)
        return np.abs(change) > _LARGEST_SCORE_DIFFERENCE
    with np.errstate(invalid="ignore"):
        change = np.abs(one.confidence - other.confidence)
        differs = change > _LARGEST_DIFFERENCE
        # Two classes cannot both exceed a half.
        is_clear = np.minimum(one.confidence, other.confidence) > _MOST_OF_A_TIE
    classes = one.predicted != other.predicted
    if (classes & ~differs & ~is_clear).any():
        scores = outputs().mean(axis=0)
        pair = np.stack(np.broadcast_arrays(one.predicted, other.predicted), axis=1)
        worse = np.take_along_axis(scores, np.maximum(pair, 0), axis=1).min(axis=1)
        behind = scores.max(axis=1) - worse
        is_clear |= behind > _ROUNDING * np.abs(scores).max(axis=1)
    return differs | (classes & is_clear)


@jax.jit
def _raw_outputs(
    classifier: Classifier, images: jax.Array, key: jax.Array
) -> jax.Array:
    """Returns the raw outputs `[S, B, K]`."""
    keys = None
    if classifier.stochastic:
        keys = classifier_keys(key, jnp.arange(len(images), dtype=np.uint32))
    return classifier.raw_outputs(as_floats(images), keys)
