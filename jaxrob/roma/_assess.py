"""Probabilistic local robustness of every input (Levy and Katz 2022)."""

import functools
import math
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jax.sharding import Mesh

from jaxrob._arguments.checks import (
    check_choice,
    check_type,
    checked_flag,
    checked_integer,
    checked_number,
    checked_path,
)
from jaxrob._arguments.messages import classifier_wanted, named
from jaxrob._arguments.texts import collected, computing, warn
from jaxrob._classifiers.classifier import Classifier
from jaxrob._dataset import Dataset, check_labels_below, given_images, images_and_labels
from jaxrob._devices.blocks import filled, first_of, joined, put_at, taken
from jaxrob._devices.host_function import own_errors
from jaxrob._devices.mesh import put_whole
from jaxrob._engine.evaluate import Arguments, checked, prepare_run, unaltered_answers
from jaxrob._engine.execution import progress_bar
from jaxrob._engine.journal import Journal, array_entry, entry, opened, read_records
from jaxrob._engine.queue import random_order
from jaxrob._engine.step import UNALTERED
from jaxrob._identity.identity import is_identifiable, text
from jaxrob._keys import checked_key
from jaxrob.alterations import Alteration
from jaxrob.alterations._alteration import doubts
from jaxrob.metrics._counts import checked_confidence_level
from jaxrob.roma._categorial import means_by_category, plr_of_all
from jaxrob.roma._draws import Inputs, Settings, Work
from jaxrob.roma._estimate import MOST_MODES, Answers, kind_of
from jaxrob.roma._estimators import estimator_named
from jaxrob.roma._perturbation import (
    LARGEST_EPSILON,
    NORMS,
    Perturbation,
    ball,
    fingerprinted_perturbation,
    from_alteration,
    from_sampler,
)
from jaxrob.roma._result import RomaResult

if TYPE_CHECKING:
    from numpyro.distributions import Distribution

# The test of normality needs at least so many.
_FEWEST_SAMPLES = 8


@own_errors()
def assess(
    classifier: Classifier,
    images: np.ndarray | jax.Array | Dataset,
    labels: Sequence[int] | np.ndarray | None = None,
    *,
    epsilon: float = 0.04,
    delta: float = 0.6,
    num_samples: int = 1000,
    norm: str = "linf",
    clip: bool = False,
    estimator: str = "auto",
    budget: float | None = None,
    perturbation: Perturbation | Alteration | Callable | None = None,
    level_distribution: "Distribution | None" = None,
    half_width: float | None = None,
    confidence_level: float = 0.95,
    key: jax.Array,
    mesh: Mesh | None = None,
    journal: str | os.PathLike | None = None,
    progress: bool = False,
) -> RomaResult:
    """How probable it is that a random perturbation gets an input misclassified.

    An input is distinctly misclassified when the answer is not the class predicted at
    the unperturbed input and its probability is at least delta (Definition 3). The
    probabilistic local robustness of an input, plr, is one less the probability that a
    random image near it is distinctly misclassified.

    Example::

        key = jax.random.key(0)
        found = jaxrob.roma.assess(classifier, images, epsilon=0.1, key=key)
        print(found.plr)  # one for each image
        print(found.confidence_interval)  # 95 % each
        print(found.status)  # how each was estimated, or why it was not

    The estimators:

    * "roma", Algorithm 1, which reproduces the paper: fits a normal distribution to the
      highest incorrect confidences, after Box and Cox's transform if it needs it, and
      refuses where neither is normal. It assumes that the fit holds beyond all draws:
      it overestimates rare probabilities, often tenfold and up to 20,000-fold, and has
      no interval. Where the draws themselves contradict a fit, there is a warning.
    * "count": the share of plain draws that are distinctly misclassified, with Clopper
      and Pearson's interval. It says little below 10 / num_samples.
    * "importance": looks for the parts of the ball where the input is distinctly
      misclassified (its modes), by gradients from many starts, and draws from a mixture
      of distributions tilted towards them. It is right down to 1e-30 with a few
      thousand draws. It needs gradients and a ball.
    * "splitting": adaptive multilevel splitting. It needs no gradients, but ten times
      the draws, and a ball, an alteration or a perturbation with a move.
    * "auto": counts where that is enough, then "importance", then "splitting" where
      the weights are too uneven. Where neither is possible, it counts up to 16 times as
      many draws. What the budget cannot decide, such as rare probabilities of a network
      without gradients, is "undecided"; without a limit that takes up to 300,000
      passes (a million in few dimensions).

    An answer of "importance" is believed only if neither the plain draws' hits
    contradict it, nor a few particles that climb to the boundary without gradients.
    What may still be missed without notice, any share of the probability, says
    `RomaResult.caveats`, and more of it the page of the estimators. "roma" looks at the
    highest incorrect confidence alone, so for delta < 0.5 it may count inputs that are
    answered correctly.

    With a half width, inputs are looked at in random order. Those of a category end as
    soon as the interval of the mean plr over all its inputs, of all categories
    together, is at most twice as wide; the rest is "unseen". It is by betting without
    replacement (Waudby-Smith and Ramdas 2020), which holds however often one looks.

    Args:
      classifier: not of "scores". With S samples its mean probabilities count. A
        stochastic one's answer is drawn together with the perturbation.
      images: `[N, H, W, C]`, uint8 or floating in [0, 1]; or a `jaxrob.Dataset`, whose
        labels are taken if it has any.
      labels: `[N]` classes from 0, which only group the inputs into categories (see
        `RomaResult.categorial`). Not beside a data set.
      epsilon: the radius of the ball, for pixels in [0, 1].
      delta: the least confidence of a distinct answer, in (0, 1).
      num_samples: plain draws for each input, at least 8.
      norm: "linf", "l2" or "l1": the ball in which perturbed images are uniform.
      clip: whether perturbed images are clipped to [0, 1]; the paper does not.
      estimator: one of `ESTIMATORS`.
      budget: forward passes for each input that "auto" spends at most, the plain draws
        included and a gradient counted as three; by default 10,000, `math.inf` for no
        limit.
      perturbation: instead of a ball, `fn(key, image)` that draws a perturbed image, an
        `Alteration` at a random level, or a `Perturbation`. Then epsilon and norm are
        not used.
      level_distribution: NumPyro's distribution of the alteration's level; uniform by
        default.
      half_width: half of the widest interval of a category's mean that is good enough,
        in (0, 0.5); None looks at all inputs.
      confidence_level: the coverage of the intervals, in (0, 1).
      key: a random key. An input's draws depend on it and the input's index alone.
      mesh: devices over which the inputs are split, see `jaxrob.evaluate`.
      journal: a file to which answers are written as soon as they are known. A rerun
        with the same arguments goes on from there (see `jaxrob.assess`).
      progress: whether a progress bar is shown.

    Returns:
      A `RomaResult`. An input without an answer has a status that says why and NaN.

    Raises:
      TypeError: if an argument has a wrong type, or there are labels beside a data set.
      ValueError: if an argument is out of its range, a budget goes beside another
        estimator than "auto", a label is no class, the classifier does not fit the
        images or returns NaN, the estimator cannot work with it or the perturbation, or
        the journal is of something else.
      OSError: if the journal cannot be read or written.
    """
    check_type("classifier", classifier, Classifier, classifier_wanted(classifier))
    epsilon = checked_number("epsilon", epsilon, above=0, at_most=LARGEST_EPSILON)
    delta = checked_number("delta", delta, above=0, below=1)
    num_samples = checked_integer("num_samples", num_samples, at_least=_FEWEST_SAMPLES)
    check_choice("norm", norm, NORMS)
    clip, progress = checked_flag("clip", clip), checked_flag("progress", progress)
    chosen = estimator_named(estimator)
    budget = checked_budget(budget, estimator, num_samples)
    if half_width is not None:
        half_width = checked_number("half_width", half_width, above=0, below=0.5)
    confidence_level = checked_confidence_level(confidence_level)
    journal = None if journal is None else checked_path("journal", journal)
    key = checked_key(key)
    with collected() as warned:
        drawn = _perturbation(perturbation, norm, epsilon, clip, level_distribution)
    dataset = given_images(images, labels, may_lack_labels=True)
    table = images._table if isinstance(images, Dataset) else None
    _, labels = images_and_labels(images, labels)
    if classifier.outputs == "scores":
        raise ValueError(
            'the classifier\'s outputs are "scores", which have no confidence; a '
            'distinct misclassification needs "logits", "probabilities" or "sigmoid"'
        )
    asked = checked(Arguments(classifier, dataset, [UNALTERED], key, mesh))
    with prepare_run(asked) as run:
        image_shape, over = run.image.shape, run.execution.mesh
        if labels is not None:
            check_labels_below(dataset.labels, run.execution.info.num_classes, "labels")
        if isinstance(perturbation, Alteration):
            for doubt in doubts(perturbation, image_shape):
                warn(doubt)
        drawn = fingerprinted_perturbation(drawn, image_shape)
        if journal is not None and not is_identifiable(drawn):
            raise ValueError(
                "journal must tell perturbations from others, and a function on the "
                f"host cannot be looked into; {drawn.name} calls one"
            )
        arguments = {
            "estimator": estimator,
            "budget": _finite_or_none(budget),
            "perturbation": drawn.name if perturbation is None else text(drawn),
            "epsilon": epsilon,
            "delta": delta,
            "num_samples": num_samples,
            "clip": clip,
            "half_width": half_width,
            "confidence_level": confidence_level,
        }
        # Put there, not computed there: that would compile one more program.
        logit_delta = jax.device_put(np.float32(math.log(delta) - math.log1p(-delta)))
        work = Work(run.classifier, drawn, logit_delta, key, over)
        if (obstacle := chosen.obstacle(work, image_shape)) is not None:
            raise ValueError(f'estimator="{estimator}" {obstacle}')
        assert isinstance(run.dataset, Dataset)
        pixels = run.dataset.images
        inputs = Inputs(
            pixels if pixels.dtype == np.uint8 else pixels.astype(np.float32),
            np.arange(len(pixels), dtype=np.uint32),
            unaltered_answers(run.execution, run.dataset),
        )
        _, most = fewest_and_most(
            estimator, len(dataset), num_samples, budget, half_width is None
        )
        with (
            progress_bar(f"RoMA, {estimator}", progress, "draw", most) as bar,
            opened(
                journal, "roma", run.classifier, run.source, over, arguments
            ) as kept,
        ):
            settings = Settings(delta, num_samples, bar, budget, confidence_level)
            estimate = functools.partial(chosen.estimate, put_whole(work, over))
            answer = functools.partial(answers_in, kept, estimate)
            categories = inputs.excluded if labels is None else dataset.labels
            if half_width is None:
                answers, place = answer(inputs, settings), None
            else:
                order = random_order(key, len(categories))
                answers, place = answers_of_few(
                    answer,
                    inputs,
                    settings,
                    categories=categories,
                    order=order,
                    half_width=half_width,
                )
        chosen.doubt(answers.log_adversarial_probability, answers.hits, num_samples)
    return RomaResult(
        estimator=estimator,
        perturbation=drawn.name,
        epsilon=None if drawn.norm is None else float(drawn.size),
        delta=delta,
        num_samples=num_samples,
        excluded=inputs.excluded,
        labels=None if labels is None else dataset.labels,
        warnings=(*warned, *run.warned_of_each[0], *run.warned),
        budget=_finite_or_none(budget),
        half_width=half_width,
        place=place,
        confidence_level=confidence_level,
        groups=table and table.groups,
        **answers._asdict(),
    )


def checked_budget(budget: Any, estimator: str, num_samples: int) -> float:
    usual = estimator_named(estimator).budget
    if budget is None:
        return math.inf if usual is None else max(usual, num_samples)
    if isinstance(budget, float) and math.isinf(budget) and budget > 0:
        return math.inf
    budget = checked_integer("budget", budget, at_least=num_samples)
    if usual is None:
        raise ValueError(
            'budget goes with estimator="auto", others take what they take; got '
            f'budget={budget} beside estimator="{estimator}"'
        )
    return budget


def _finite_or_none(budget: float) -> int | None:
    return None if math.isinf(budget) else int(budget)


def _perturbation(
    perturbation: Perturbation | Alteration | Callable[..., jax.Array] | None,
    norm: str,
    epsilon: float,
    clip: bool,
    level_distribution: "Distribution | None",
) -> Perturbation:
    if level_distribution is not None and not isinstance(perturbation, Alteration):
        raise ValueError(
            "level_distribution needs an Alteration as the perturbation; got "
            f"{named(level_distribution)} beside perturbation={named(perturbation)}"
        )
    if perturbation is None:
        return ball(norm, epsilon, clip)
    if isinstance(perturbation, Perturbation):
        if clip:
            raise ValueError(
                "clip belongs to the Perturbation: pass one made with clip=True; got "
                "clip=True beside a Perturbation"
            )
        return perturbation
    if isinstance(perturbation, Alteration):
        return from_alteration(perturbation, level_distribution, clip)
    if callable(perturbation):
        return from_sampler(perturbation, clip)
    raise TypeError(
        "perturbation must be a function of a key and an image, an Alteration or a "
        f"Perturbation; got {named(perturbation)}"
    )


# Inputs at once, few at first; two sizes, so two programs. A device takes 64 anyway.
_FEW, _MANY = 64, 256
# The larger size is taken once this many were looked at.
_MANY_FROM = 512
# Between two looks at the means, the number of inputs seen grows by 1 / _GROWTH.
_GROWTH = 4


def answers_of_few(
    answer: Callable[[Inputs, Settings], Answers],
    inputs: Inputs,
    settings: Settings,
    *,
    categories: np.ndarray,
    order: np.ndarray,
    half_width: float,
) -> tuple[Answers, np.ndarray]:
    # No further input of a category is looked at as soon as its mean plr is known.
    place = np.full(len(order), -1, np.int32)
    seen, left, error = 0, order, 1 - settings.confidence_level
    answers: Answers | None = None
    while answers is None or len(left):
        size = _FEW if seen < _MANY_FROM else _MANY
        more = left[: max(size, seen // _GROWTH // size * size)]
        parts = []
        for first in range(0, len(more), size):
            chosen = more[first : first + size]
            # In one size, so that one program answers them.
            some = taken(inputs, filled(chosen, min(size, len(inputs.images))))
            parts.append(first_of(answer(some, settings), len(chosen)))
        found = joined(parts)
        before = _unseen(found, len(order)) if answers is None else answers
        answers = put_at(before, more, found)
        place[more] = seen + np.arange(len(more))
        seen += len(more)
        plr = -np.expm1(answers.log_adversarial_probability)
        plr = plr_of_all(plr, answers.hits, settings.num_samples)
        _, low, high = np.array(means_by_category(plr, place, categories, error)).T
        known = np.unique(categories)[high - low <= 2 * half_width]
        left = left[(place[left] < 0) & ~np.isin(categories[left], known)]
    return answers, place


def _unseen(like: Answers, number: int) -> Answers:
    fields: dict[str, Any] = {}
    for name, array in like._asdict().items():
        if array is not None:
            kind, unseen = kind_of(name)
            kind = "U16" if kind == "U" else array.dtype
            fields[name] = np.full((number, *array.shape[1:]), unseen, kind)
    return Answers(**fields)


_INPUTS = 256


@computing()
def answers_in(
    journal: Journal | None,
    estimate: Callable[[Inputs, Settings], Answers],
    inputs: Inputs,
    settings: Settings,
) -> Answers:
    if journal is None:
        return estimate(inputs, settings)
    records = read_records(journal.path, journal.records, _read)
    known = dict(record for _, record in records)
    parts = []
    for first in range(0, len(inputs.images), _INPUTS):
        some = taken(inputs, slice(first, first + _INPUTS))
        if (indices := tuple(some.indices.tolist())) in known:
            parts.append(known[indices])
            settings.bar.skip(int(known[indices].evaluations.sum()))
            continue
        answers = estimate(some, settings)
        fields = {k: v for k, v in answers._asdict().items() if v is not None}
        journal.append({"indices": some.indices, "fields": fields})
        parts.append(answers)
    if len({tuple(field is None for field in answers) for answers in parts}) > 1:
        raise ValueError(
            f"{journal.path}: some records have other fields than the answers of this "
            "estimator; move it away to start anew"
        )
    return joined(parts)


def _read(record: dict[str, Any]) -> tuple[tuple[int, ...], Answers]:
    indices = array_entry(record, "indices", "u", (None,))
    fields, length = entry(record, "fields", dict), len(indices)
    if not 0 < length <= _INPUTS:
        raise ValueError(f"'indices' are {length}, not 1 to {_INPUTS}")
    if unknown := sorted(fields.keys() - set(Answers._fields)):
        raise ValueError(f"unknown fields {unknown}")
    arrays = {}
    for name in Answers._fields:
        if name in fields or name not in Answers._field_defaults:
            kinds, _ = kind_of(name)
            shape = (length, MOST_MODES) if name == "modes" else (length,)
            arrays[name] = array = array_entry(fields, name, kinds, shape)
            if kinds == "i" and array.min() < 0:
                raise ValueError(f"{name!r} must hold numbers from 0")
            if kinds == "f" and np.isposinf(array).any():
                raise ValueError(f"{name!r} must not be infinite")
            if kinds == "U" and "" in array.tolist():
                raise ValueError(f"{name!r} must not be empty")
    return tuple(indices.tolist()), Answers(**arrays)


def fewest_and_most(
    estimator: str, number: int, num_samples: int, budget: float, all_inputs: bool
) -> tuple[int, int]:
    """Of `number` inputs; `budget` is infinite for no limit."""
    most = int(min(budget, num_samples + estimator_named(estimator).most))
    return num_samples * number if all_inputs else 0, most * number
