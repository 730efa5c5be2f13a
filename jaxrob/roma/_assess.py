"""Probabilistic local robustness of every input (Levy and Katz 2022)."""

import functools
import math
import operator
import os
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import jax
import numpy as np
from jax.sharding import Mesh
from tqdm.auto import tqdm

from jaxrob._classifier import Classifier, trace_info
from jaxrob._dataset import Dataset
from jaxrob._engine.evaluate import evaluate
from jaxrob._engine.journal import decoded, opened
from jaxrob._engine.provenance import provenance
from jaxrob._runtime.hosts import is_first
from jaxrob._runtime.keys import checked_key
from jaxrob._runtime.mesh import checked_mesh
from jaxrob.alterations import Alteration
from jaxrob.roma import _rare
from jaxrob.roma._algorithm1 import examine_normality, fit_normal, observe_hic
from jaxrob.roma._ball import ball
from jaxrob.roma._draws import Inputs, Work, summarise_draws
from jaxrob.roma._logit import extrapolate, observe_classes, sum_classes
from jaxrob.roma._perturbation import Perturbation
from jaxrob.roma._result import RomaResult
from jaxrob.roma._samplers import from_alteration, from_sampler

if TYPE_CHECKING:
    from numpyro.distributions import Distribution

#: How the probability may be estimated; see `assess`.
ESTIMATORS = ("roma", "count", "logit", "importance", "splitting", "auto")

# The test of normality wants at least so many.
_FEWEST_SAMPLES = 8
# Inputs whose estimates a journal takes at once.
_JOURNAL_BLOCK = 256


def assess(
    classifier: Classifier,
    images: np.ndarray | jax.Array,
    labels: Sequence[int] | np.ndarray | None = None,
    *,
    epsilon: float = 0.04,
    delta: float = 0.6,
    num_samples: int = 1000,
    norm: str = "linf",
    clip: bool = False,
    estimator: str = "roma",
    perturbation: Perturbation | Alteration | Callable | None = None,
    level_distribution: "Distribution | None" = None,
    key: jax.Array,
    mesh: Mesh | None = None,
    journal: str | os.PathLike | None = None,
    progress: bool = False,
) -> RomaResult:
    """The probability that a perturbed input is distinctly misclassified, for each.

    An input is distinctly misclassified when the answer is not the class predicted at
    the unperturbed input and its probability is at least delta (Definition 3). The
    probabilistic local robustness, plr, is one less the probability of that.

    The estimators:

    * "roma", Algorithm 1: fits a normal distribution to the highest incorrect
      confidences, Box-Cox transformed where need be, and refuses where neither is
      normal. It overestimates rare probabilities, often tenfold.
    * "count": the share of plain draws that are distinctly misclassified, with Clopper
      and Pearson's interval; it says little below 10 / num_samples.
    * "logit": extrapolates from each class's logit, made normal by Yeo and Johnson's
      transform. No gradients, no interval; within a factor 3 for most inputs.
    * "importance": draws from a distribution tilted towards each class. Right down to
      1e-30 with a few thousand draws; needs gradients and the L-infinity or L2 ball.
    * "splitting": adaptive multilevel splitting; no gradients, but ten times the
      draws.
    * "auto": counts where that is enough, then "importance", then "splitting" where
      the weights are too uneven: an answer with an interval for every input, from a
      few thousand forward passes each up to 100,000 where splitting has to answer (as
      often with max-pooling in a large ball). Where neither is possible, it counts 16
      times as many draws.

    "importance" and "auto" follow one direction a class, and leave out classes that a
    normal fit to the plain draws puts far behind. A part of the ball that the plain
    draws did not see and that direction does not lead to is missed without notice: half
    of the probability of a score with two opposite modes, for instance. "roma" looks
    at the highest incorrect confidence alone, so that for delta < 0.5 inputs answered
    correctly may count.

    Draws depend on the key and the input's index alone, so answers do not depend on
    blocks or devices (but for rounding).

    Args:
      classifier: the classifier; "logits", "probabilities" or "sigmoid" outputs. With S
        samples its mean probabilities count. "importance" and "splitting" take no
        stochastic one.
      images: `[N, H, W, C]`, uint8 or floating in [0, 1].
      labels: `[N]` classes from 0, which only group the inputs into categories.
      epsilon: the radius of the ball, for pixels in [0, 1].
      delta: the least confidence of a distinct answer, in (0, 1).
      num_samples: plain draws for each input, at least 8.
      norm: "linf", "l2" or "l1": the ball in which perturbed images are uniform.
      clip: whether perturbed images are clipped to [0, 1]; the paper does not.
      estimator: one of `ESTIMATORS`.
      perturbation: instead of a ball, `fn(key, image)` that draws a perturbed image, an
        `Alteration` at a random level, or a `Perturbation`; epsilon and norm say
        nothing then.
      level_distribution: NumPyro's distribution of the alteration's level; uniform by
        default.
      key: a random key.
      mesh: devices over which the inputs are split, along all of its axes; by default
        all devices of this process. For several processes see `jaxrob.evaluate`.
      journal: a file that the estimates of every few hundred inputs are written to, and
        synced, as soon as they are known; a rerun with the same arguments takes from
        there what there is, any other is refused (see `jaxrob.assess`).
      progress: whether a progress bar is shown.

    Returns:
      A `RomaResult`. An input without an answer has a status that says why and NaN.

    Raises:
      TypeError: if an argument has a wrong type.
      ValueError: if epsilon is not positive, delta outside (0, 1), num_samples below 8,
        norm or estimator unknown, images are empty, hold NaN or values outside [0, 1],
        a label is no class, the classifier does not fit the images or has "scores" for
        outputs, the estimator cannot do with this classifier or perturbation, or the
        classifier returns NaN.
    """
    _check_numbers(delta, num_samples, estimator)
    num_samples = operator.index(num_samples)
    if not isinstance(classifier, Classifier):
        raise TypeError(
            f"classifier must be a jaxrob.Classifier; got {type(classifier).__name__}"
        )
    images = np.asarray(images)
    marks = np.zeros(len(images), np.int32) if labels is None else labels
    dataset = Dataset(images, marks)
    if not len(dataset):
        raise ValueError("images must hold at least one image; got none")
    if images.dtype != np.uint8:
        images = images.astype(np.float32)
    num_classes = trace_info(classifier, images.shape[1:]).num_classes
    if classifier.outputs == "scores":
        raise ValueError(
            'the classifier\'s outputs are "scores", which have no confidence; a '
            'distinct misclassification needs "logits", "probabilities" or "sigmoid"'
        )
    if labels is not None and dataset.labels.max() >= num_classes:
        raise ValueError(
            f"labels must be below the classifier's number of classes, {num_classes}; "
            f"got {dataset.labels.max()}"
        )
    drawn = _perturbation(perturbation, norm, epsilon, clip, level_distribution)
    _check_shape(drawn, images.shape[1:])
    key = checked_key(key)
    mesh = checked_mesh(mesh)
    work = Work(classifier, drawn, math.log(delta) - math.log1p(-delta), key, mesh)
    _check_possible(work, estimator, images.shape[1:])

    unperturbed = evaluate(classifier, dataset, _UNPERTURBED, [0], key=key, mesh=mesh)
    excluded = unperturbed.predicted[0].astype(np.int32)
    inputs = Inputs(images, np.arange(len(images), dtype=np.uint32), excluded)
    description = "RoMA" if estimator == "roma" else f"RoMA, {estimator}"
    name = drawn.name if perturbation is None else _described(perturbation)
    settings = {
        "estimator": estimator,
        "perturbation": f"{name}, level {level_distribution!r}",
        "epsilon": float(epsilon),
        "delta": float(delta),
        "num_samples": num_samples,
        "clip": clip,
    }
    source = functools.partial(provenance, classifier, dataset, key, mesh)
    with (
        tqdm(
            desc=description,
            unit="draw",
            unit_scale=True,
            disable=not (progress and is_first()),
            total=num_samples * len(images),
        ) as bar,
        opened(journal, "roma", classifier, source, mesh, settings) as kept,
    ):
        estimate = functools.partial(
            _ESTIMATES[estimator], num_samples=num_samples, delta=delta, bar=bar
        )
        if kept is None:
            fields = estimate(work, inputs)
        else:
            fields = _in_journal(kept, estimate, work, inputs)
    return RomaResult(
        estimator=estimator,
        perturbation=drawn.name,
        epsilon=None if drawn.norm is None else float(drawn.size),
        delta=float(delta),
        num_samples=num_samples,
        excluded=excluded,
        labels=None if labels is None else dataset.labels,
        **fields,
    )


def _in_journal(journal, estimate, work, inputs):
    """The estimates, block by block; those that the journal has are taken from it."""
    known = {record["first"]: record["fields"] for record in journal.records}
    parts = []
    for first in range(0, len(inputs.images), _JOURNAL_BLOCK):
        if first not in known:
            block = Inputs(*(part[first : first + _JOURNAL_BLOCK] for part in inputs))
            found = estimate(work, block)
            journal.append({"first": first, "fields": found})
            parts.append(found)
        else:
            fields = known[first]
            parts.append(
                {
                    name: None if value is None else decoded(value)
                    for name, value in fields.items()
                }
            )
    return {
        name: None
        if parts[0][name] is None
        else np.concatenate([part[name] for part in parts])
        for name in parts[0]
    }


def _described(perturbation):
    return re.sub(r" at 0x[0-9a-f]+", "", repr(perturbation))


def _as_it_is(image, level):
    del level
    return image


_UNPERTURBED = Alteration("unperturbed", _as_it_is, 0.0, 1.0)


def _roma(work, inputs, num_samples, delta, bar):
    found = summarise_draws(
        work, inputs, num_samples, observe_hic, examine_normality, bar
    )
    hits = found.pop("hits")
    fit = fit_normal(found, delta)
    none = np.full(len(hits), np.nan)
    return {
        "status": fit.status,
        "log_adversarial_probability": fit.log_probability,
        "log_low": none,
        "log_high": none,
        "hits": hits,
        "evaluations": np.full(len(hits), num_samples, np.int64),
        "statistic": fit.statistic,
        "boxcox_lambda": fit.boxcox_lambda,
        "mean": fit.mean,
        "std": fit.std,
    }


def _logit(work, inputs, num_samples, delta, bar):
    del delta
    found = summarise_draws(
        work, inputs, num_samples, observe_classes, extrapolate, bar
    )
    number = len(inputs.images)
    none = np.full(number, np.nan)
    return {
        "status": np.full(number, "extrapolated"),
        "log_adversarial_probability": sum_classes(found),
        "log_low": none,
        "log_high": none,
        "hits": found["hits"],
        "evaluations": np.full(number, num_samples, np.int64),
    }


def _by_rare(estimate):
    def fields(work, inputs, num_samples, delta, bar):
        del delta
        found = estimate(work, inputs, num_samples, bar)
        return {
            "status": found.status,
            "log_adversarial_probability": found.log_probability,
            "log_low": found.log_low,
            "log_high": found.log_high,
            "hits": found.hits,
            "evaluations": found.evaluations,
        }

    return fields


_ESTIMATES = {
    "roma": _roma,
    "count": _by_rare(_rare.count),
    "logit": _logit,
    "importance": _by_rare(_rare.importance),
    "splitting": _by_rare(_rare.splitting),
    "auto": _by_rare(_rare.auto),
}


def _perturbation(perturbation, norm, epsilon, clip, level_distribution):
    if level_distribution is not None and not isinstance(perturbation, Alteration):
        raise ValueError(
            "level_distribution needs an Alteration as the perturbation; got "
            f"{type(perturbation).__name__}"
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
        f"Perturbation; got {type(perturbation).__name__}"
    )


def _check_numbers(delta, num_samples, estimator):
    if not 0 < delta < 1:
        raise ValueError(f"delta must lie in (0, 1); got {delta}")
    if operator.index(num_samples) < _FEWEST_SAMPLES:
        raise ValueError(
            f"num_samples must be at least {_FEWEST_SAMPLES}; got {num_samples}"
        )
    if estimator not in ESTIMATORS:
        raise ValueError(f"estimator must be one of {ESTIMATORS}; got {estimator!r}")


def _check_shape(perturbation, image_shape):
    image = jax.ShapeDtypeStruct(image_shape, np.float32)

    def one(key, image):
        return perturbation.perturbed(image, perturbation.draw(key, image))

    found = jax.eval_shape(one, jax.random.key(0), image)
    if getattr(found, "shape", None) != image_shape:
        raise ValueError(
            f"{perturbation.name} must return an image of the shape {image_shape}; got "
            f"{found}"
        )


def _check_possible(work, estimator, image_shape):
    if estimator not in ("importance", "splitting"):
        return
    if work.classifier.stochastic:
        raise ValueError(
            f'estimator="{estimator}" takes no stochastic classifier, whose answer at '
            'a point is random; use "count", "logit", "roma" or "auto"'
        )
    if estimator == "importance" and not _rare.can_tilt(work, image_shape):
        raise ValueError(
            'estimator="importance" needs a classifier that JAX can differentiate (no '
            'host function) and norm="linf" or "l2"; got the perturbation '
            f'{work.perturbation.name!r}; use "auto" or "splitting"'
        )
    if estimator == "splitting" and work.perturbation.move is None:
        raise ValueError(
            'estimator="splitting" needs a perturbation with a move, which keeps its '
            f"distribution; {work.perturbation.name!r} has none: give a "
            'jaxrob.roma.Perturbation with one, or use "count" or "auto"'
        )
