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
from jaxrob._arguments.naming import named
from jaxrob._arguments.warnings import collected, warn
from jaxrob._arguments.wrapping import classifier_wanted
from jaxrob._classifier import Classifier
from jaxrob._dataset import (
    Dataset,
    check_labels_below,
    given_images,
    images_and_labels,
)
from jaxrob._devices.host_function import own_errors
from jaxrob._engine.execution import progress_bar
from jaxrob._engine.journal import opened
from jaxrob._engine.parts import random_order
from jaxrob._identity.identity import is_identifiable, text
from jaxrob._keys import checked_key
from jaxrob._run.prepare import (
    UNALTERED,
    Run,
    checked_arguments,
    prepare_run,
    unaltered_answers,
)
from jaxrob.alterations import Alteration
from jaxrob.alterations._said import doubts
from jaxrob.metrics._checks import checked_confidence_level
from jaxrob.roma._algorithm1 import warn_of_contradictions
from jaxrob.roma._ball import LARGEST_EPSILON, ball
from jaxrob.roma._cost import fewest_and_most
from jaxrob.roma._estimate import Answers
from jaxrob.roma._estimators import estimator_named
from jaxrob.roma._few_inputs import answers_of_few
from jaxrob.roma._journal import answers_in
from jaxrob.roma._perturbation import NORMS, Perturbation, fingerprinted_perturbation
from jaxrob.roma._result import RomaResult
from jaxrob.roma._samplers import from_alteration, from_sampler
from jaxrob.roma._work import Inputs, Settings, Work, placed

if TYPE_CHECKING:
    from numpyro.distributions import Distribution

# The test of normality needs at least so many.
_FEWEST_SAMPLES = 8
# Forward passes for each input by default: ten times the paper's.
_BUDGET = 10_000


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
        found = jaxrob.roma.assess(
            classifier, images, epsilon=0.1, key=key
        )
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
      many draws. With its usual budget of 10,000 forward passes each, importance
      sampling answers for most inputs. What the budget cannot decide, such as rare
      probabilities of a network without gradients, is "undecided": an interval by plain
      draws alone. Without a limit it answers every input, after up to 300,000 passes
      where splitting has to (a million in few dimensions).

    An answer of "importance" is believed only if two other views do not contradict it:
    the hits among the plain draws, and a few particles that climb to the boundary
    without gradients, which may have come to a mode that the mixture misses. Then more
    searches start there. In up to 16 dimensions these are as many particles as those of
    "splitting", whose answers are held against each other.

    What may still be missed, without notice: a mode so much steeper than others that it
    is behind them everywhere but in its own small part of the ball, if no gradient from
    24 radii away leads to it; an island that is the greatest class's nowhere else and
    smaller than what 1,000 points find in few dimensions, or 64 particles in many; a
    class that no draw, particle or gradient came near. Such a part can be any share of
    the probability. "roma" looks at the highest incorrect confidence alone, so for
    delta < 0.5 it may count inputs that are answered correctly.

    Draws depend on the key and the input's index alone, so answers do not depend on
    blocks or devices (except for rounding).

    With a half width, inputs are looked at in random order, a few more at a time. Those
    of a category end as soon as the mean plr over all its inputs is known: its
    interval, of all categories together, is at most twice the half width wide. It is by
    betting without replacement (Waudby-Smith and Ramdas 2020), which holds however
    often one looks. Then the mean over all inputs is known as well. What was looked at
    has the answers of a run without a half width; the rest is "unseen". The smaller a
    category, the larger the share of it that has to be looked at.

    Args:
      classifier: the classifier, with "logits", "probabilities" or "sigmoid" outputs.
        With S samples its mean probabilities count. A stochastic one's answer is drawn
        together with the perturbation.
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
        limit. Other estimators take what they take.
      perturbation: instead of a ball, `fn(key, image)` that draws a perturbed image, an
        `Alteration` at a random level, or a `Perturbation`. Then epsilon and norm are
        not used.
      level_distribution: NumPyro's distribution of the alteration's level; uniform by
        default.
      half_width: half of the widest interval of a category's mean that is good enough,
        in (0, 0.5); None looks at all inputs.
      confidence_level: the coverage of the intervals, in (0, 1).
      key: a random key.
      mesh: devices over which the inputs are split, along all of its axes; by default
        all devices of this process. For sharded variables and several processes see
        `jaxrob.evaluate`.
      journal: a file to which the answers of every few hundred inputs are written, and
        synced, as soon as they are known. A rerun with the same arguments takes from
        there what there is; any other is refused (see `jaxrob.assess`).
      progress: whether a progress bar is shown, and a line on standard error says how
        long the run takes, if that is over ten seconds.

    Returns:
      A `RomaResult`. An input without an answer has a status that says why and NaN.

    Raises:
      TypeError: if an argument has a wrong type, or there are labels beside a data set.
      ValueError: if epsilon is not positive, delta outside (0, 1), num_samples below 8,
        norm or estimator unknown, a budget below num_samples or beside another
        estimator than "auto", half_width not in (0, 0.5), the
        confidence level not in (0, 1), images are empty, hold NaN or values outside
        [0, 1], a label is no class, the classifier does not fit the images or has
        "scores" for outputs, the estimator cannot work with this classifier or
        perturbation, the journal is of something else, or the classifier returns NaN.
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
    _, labels = images_and_labels(images, labels)
    check_confidences(classifier)
    asked = checked_arguments(classifier, dataset, [UNALTERED], key, mesh)
    with own_errors(), prepare_run(asked) as run:
        image_shape, over = run.image.shape, run.execution.mesh
        if labels is not None:
            check_labels_below(dataset.labels, run.execution.info.num_classes, "labels")
        _warn_of_range(perturbation, image_shape)
        drawn = _fingerprinted(drawn, image_shape, is_kept=journal is not None)
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
        inputs = _inputs(run)
        name = "RoMA" if estimator == "roma" else f"RoMA, {estimator}"
        _, most = fewest_and_most(
            estimator, len(dataset), num_samples, budget, half_width is None
        )
        about = run.classifier, run.source, over
        with (
            progress_bar(name, progress, "draw", most) as bar,
            opened(journal, "roma", *about, arguments) as kept,
        ):
            settings = Settings(delta, num_samples, bar, budget, confidence_level)
            estimate = functools.partial(chosen.estimate, placed(work))
            answer = functools.partial(answers_in, kept, estimate)
            categories = inputs.excluded if labels is None else dataset.labels
            few = categories, key, half_width
            answers, place = _answers(answer, inputs, settings, *few)
        if estimator == "roma":
            log_p, hits = answers.log_adversarial_probability, answers.hits
            warn_of_contradictions(log_p, hits, num_samples)
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
        **answers._asdict(),
    )


def checked_budget(budget: Any, estimator: str, num_samples: int) -> float:
    """The forward passes for each input; infinite for no limit."""
    if budget is None:
        return max(_BUDGET, num_samples) if estimator == "auto" else math.inf
    if isinstance(budget, float) and math.isinf(budget) and budget > 0:
        return math.inf
    budget = checked_integer("budget", budget, at_least=num_samples)
    if estimator != "auto":
        raise ValueError(
            'budget goes with estimator="auto", others take what they take; got '
            f'budget={budget} beside estimator="{estimator}"'
        )
    return budget


def _finite_or_none(budget: float) -> int | None:
    return None if math.isinf(budget) else int(budget)


def check_confidences(classifier: Classifier) -> None:
    """Refuses a classifier without confidences."""
    if classifier.outputs == "scores":
        raise ValueError(
            'the classifier\'s outputs are "scores", which have no confidence; a '
            'distinct misclassification needs "logits", "probabilities" or "sigmoid"'
        )


def _perturbation(
    perturbation: Perturbation | Alteration | Callable[..., jax.Array] | None,
    norm: str,
    epsilon: float,
    clip: bool,
    level_distribution: "Distribution | None",
) -> Perturbation:
    """The distribution of perturbed images that the arguments of `assess` describe."""
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


def _warn_of_range(perturbation: Any, image_shape: tuple[int, ...]) -> None:
    if isinstance(perturbation, Alteration):
        for doubt in doubts(perturbation, image_shape):
            warn(doubt)


def _fingerprinted(
    perturbation: Perturbation, image_shape: tuple[int, ...], is_kept: bool
) -> Perturbation:
    """A perturbation as it is now; refused if it changes the shape of an image."""
    perturbation = fingerprinted_perturbation(perturbation, image_shape)
    image = jax.ShapeDtypeStruct(image_shape, np.float32)

    def one(key: jax.Array, image: jax.Array) -> jax.Array:
        return perturbation.perturbed(image, perturbation.draw(key, image))

    found = jax.eval_shape(one, jax.random.key(0), image)
    if getattr(found, "shape", None) != image_shape:
        raise ValueError(
            f"{perturbation.name} must return an image of the shape {image_shape}; got "
            f"{found}"
        )
    if is_kept and not is_identifiable(perturbation):
        raise ValueError(
            "journal must tell perturbations from others, and a function on the host "
            f"cannot be looked into; {perturbation.name} calls one"
        )
    return perturbation


def _answers(
    answer: Callable[[Inputs, Settings], Answers],
    inputs: Inputs,
    settings: Settings,
    categories: np.ndarray,
    key: jax.Array,
    half_width: float | None,
) -> tuple[Answers, np.ndarray | None]:
    """The answers for all inputs, or for as few as a half width takes."""
    if half_width is None:
        return answer(inputs, settings), None
    return answers_of_few(
        answer,
        inputs,
        settings,
        categories=categories,
        order=random_order(key, len(categories)),
        half_width=half_width,
    )


def _inputs(run: Run) -> Inputs:
    """The images with their indices and the classes predicted at them."""
    assert isinstance(run.dataset, Dataset)
    images = run.dataset.images
    return Inputs(
        images if images.dtype == np.uint8 else images.astype(np.float32),
        np.arange(len(images), dtype=np.uint32),
        unaltered_answers(run.execution, run.dataset),
    )
