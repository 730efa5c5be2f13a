"""`assess` on all images and on few, and comparisons of two networks."""

import dataclasses
from typing import Any

import jax
import numpy as np
from numpyro import distributions

import jaxrob
from jaxrob import alterations, strategies
from jaxrob.strategies import ASAP, FewImages, Random, Uniform
from pinned import world
from pinned.world import assessed, few, searched

_THREE = (world.BLUR, world.NOISE, world.FADING)


def _asap() -> Any:
    """The published concavity and the automatic one, by both rules."""
    some = {
        "published": ASAP(64, concavity=128.0),
        "gentle": ASAP(128, concavity=2.0),
        "automatic": ASAP(64),
        "to the end": ASAP(64, statistical_stopping=False),
        "narrowest": ASAP(64, narrowest=0.1),
    }
    return {
        f"{name} {rule}": assessed(strategy=one, rule=rule)
        for name, one in some.items()
        for rule in ("right", "linear")
    }


@dataclasses.dataclass(frozen=True)
class _Halving:
    """A user's own strategy, which halves the one interval with a crossing."""

    rounds: int = 6
    rule = "linear"
    rules = ("linear", "right")

    def init(self, task: Any) -> strategies.History:
        return strategies.History()

    def ask(self, task: Any, state: Any, history: Any) -> Any:
        return strategies.all_images(self._levels(task, history)), history

    def _levels(self, task: Any, history: Any) -> Any:
        if not len(history.levels):
            return [task.lower, task.upper]
        at = self._crossing(task, history)[:1]
        if history.rounds > self.rounds:
            return []
        return history.levels[at] / 2 + history.levels[at + 1] / 2

    def result(self, task: Any, state: Any) -> strategies.Found:
        at = self._crossing(task, state)
        return strategies.Found(float(np.diff(state.levels)[at].sum() / task.width))

    def _crossing(self, task: Any, history: Any) -> np.ndarray:
        above = history.values >= task.threshold
        return np.flatnonzero(above[:-1] & ~above[1:])


def _sampled_functions() -> Any:
    """Strategies on functions, without a network."""
    task = strategies.Task(0.0, 2.0, 0.7, 0.0)
    functions = {
        "falling": lambda levels: 1 - levels / 2,
        "bump": lambda levels: 0.6 + 0.3 * np.exp(-((levels - 1) ** 2) / 0.1),
        "on the threshold": lambda levels: np.where(levels < 1, 1.0, 0.7),
        "nowhere": lambda levels: 0 * levels,
    }
    some = ASAP(256, concavity=4.0), ASAP(256), Uniform(7), Random(7, seed=1)
    found = {}
    for name, function in functions.items():
        for one in (*some, _Halving()):
            seen, concluded = strategies.sample(one, task, function, num_inputs=100)
            bound = concluded.error_bound
            found[f"{name} {one!r}"] = {"samples": seen, "bound": bound}
    return found


def _measures() -> Any:
    found = {}
    for measure in ("accuracy", "precision", "recall", "f1"):
        found[measure] = assessed(measure=measure, threshold=0.6)
    for measure in ("accuracy", "effectiveness", "decided_ratio", "recall"):
        found[f"{measure} of decided"] = assessed(
            measure=measure, threshold=0.6, alpha=0.6, confidence_level=0.8
        )
    return found


def _thresholds() -> Any:
    found = {at: assessed(threshold=at) for at in (0.0, 0.5, 51 / 60, 1.0)}
    return found | {"undecided": assessed(alpha=1.0, threshold=0.3)}


def _squared(value: float, threshold: float) -> float:
    return float(value >= threshold) * (value - threshold) ** 2


def _tolerance() -> Any:
    """Rewards, penalties and distributions of the levels."""
    some = {
        "linear": ("linear",),
        "step": ("step", "step"),
        "penalized": ("linear", "linear"),
        "own": (_squared,),
        "distribution": (None, None, distributions.HalfNormal(1.0)),
        "all": ("linear", "linear", distributions.Uniform(0.0, 3.0)),
    }
    more = {"measure": "effectiveness", "alpha": 0.6, "confidence_level": 0.9}
    return {
        name: assessed(
            threshold=0.6,
            tolerance=jaxrob.Tolerance(*one),
            **(more if name == "all" else {}),
        )
        for name, one in some.items()
    }


def _of_pictures() -> Any:
    """Bytes in colour: JPEG, zoom rescaled, composed, a common corruption."""
    zoom = alterations.zoom()
    some = (
        alterations.jpeg_compression(),
        alterations.rescale(zoom, 0.0, 1.0),
        alterations.compose([zoom, alterations.rotation(0.0, 20.0)]),
        alterations.followed_by(zoom, world.to_bytes),
        alterations.corruptions.contrast(32),
    )
    return assessed(some, classifier=world.small_cnn(), dataset=world.pictures())


def doubtful_ranges() -> Any:
    """Ranges, levels and thresholds that draw a warning."""
    noise = alterations.gaussian_noise(0.0, 50.0)
    blur = alterations.gaussian_blur(0.0, 40.0)
    some = (
        noise,
        blur,
        alterations.brightness(-0.5, 30.0),
        alterations.horizontal_translation(-8.0, 8.0),
        alterations.rotation(-0.001, 0.001),
        alterations.zoom(1.0, 30.0),
        alterations.rescale(noise, 0.0, 1.0),
        alterations.compose([blur, world.FADING]),
        jaxrob.Alteration("nothing", lambda image, level: image + 0 * level, 0.0, 1.0),
        jaxrob.Alteration("out", lambda image, level: image + 300 * level, 0.0, 1.0),
    )
    return assessed(some, strategy=Uniform(3))


def _read_again() -> Any:
    """The result of reading an assessment's text, with and without answers."""
    found = assessed(strategy=ASAP(32))
    read = jaxrob.Assessment.from_json
    return {
        "whole": read(found.to_json()),
        "counts": read(found.to_json(answers=False)),
        "same": read(found.to_json()).to_json() == found.to_json(),
    }


def _of_each_image() -> Any:
    found = assessed(strategy=Uniform(7), alpha=0.4)
    return {"failing": found.first_failing_level, "unknown": found.first_unknown_level}


def _of_batches_by_few() -> Any:
    class Batches:
        def __iter__(self) -> Any:
            for start in range(0, world.NUM_LIMITED, 250):
                part = world.limited()[start : start + 250]
                yield part.images, part.labels

    data = jaxrob.Dataset.from_batches(Batches(), channels_first=False)
    return searched(dataset=data, strategy=few(half_width=0.05))


def _compared_by_few(share: float, threshold: float, *more: Any, **given: Any) -> Any:
    return jaxrob.compare_sequentially(
        world.right_below(), world.right_below(share), world.limited(), world.DIM,
        threshold, *more, key=world.KEY, **given,
    )  # fmt: skip


def _pairs() -> Any:
    """Another network, the same one, and a nearly equal one, at two levels."""
    first = assessed()
    near = world.variables()
    near["weights"] = near["weights"] + np.float32(0.2) * world.variables(5)["weights"]
    others = {
        "other": _of_another(),
        "same": first,
        "near": assessed(classifier=jaxrob.Classifier(world.linear, near)),
    }
    return {
        f"{name} {level}": jaxrob.compare(first, second, level)
        for name, second in others.items()
        for level in (0.8, 0.95)
    }


def _other_levels() -> Any:
    first = assessed(strategy=ASAP(32))
    second = _of_another(strategy=Uniform(9))
    return [jaxrob.compare(first, second), jaxrob.compare(second, first)]


def _refused() -> Any:
    """Pairs that cannot be compared, with their errors."""
    first = assessed()
    others = {
        "threshold": _of_another(threshold=0.5),
        "alteration": _of_another(alteration=world.FADING),
        "counts": _of_another(reduced=True),
        "scores": _of_another(tolerance=jaxrob.Tolerance("linear")),
        "few": _of_another(strategy=FewImages(Uniform(5), 0.2)),
        "labels": _of_another(dataset=jaxrob.Dataset(world.GREY)),
    }
    found = {}
    for name, second in others.items():
        try:
            found[name] = jaxrob.compare(first, second)
        except (TypeError, ValueError) as error:
            found[name] = f"{type(error).__name__}: {error}"
    return found


def _of_another(**given: Any) -> Any:
    return assessed(classifier=world.classifier(9), **given)


CASES = {
    "assessing.asap": _asap,
    "assessing.other_strategies": lambda: {
        "uniform": assessed(strategy=Uniform(9)),
        "random": assessed(strategy=Random(9, seed=3)),
        "including": assessed(strategy=strategies.Including(Uniform(5), (0.7, 1.1))),
    },
    "assessing.own_strategy": lambda: assessed(strategy=_Halving()),
    "assessing.sampled_functions": _sampled_functions,
    "assessing.measures": _measures,
    "assessing.thresholds": _thresholds,
    "assessing.tolerance": _tolerance,
    "assessing.several_alterations": lambda: {
        "answers": assessed(_THREE, strategy=ASAP(64)),
        "counts": assessed(_THREE, strategy=ASAP(64), reduced=True),
        "one": assessed((world.FADING,)),
    },
    "assessing.of_batches": lambda: assessed(
        dataset=world.in_batches(), strategy=ASAP(32)
    ),
    "assessing.stability": lambda: assessed(
        dataset=jaxrob.Dataset(world.GREY, name="no labels")
    ),
    "assessing.of_random_networks": lambda: assessed(
        classifier=world.STOCHASTIC, alpha=0.5, threshold=0.5
    ),
    "assessing.of_pictures": _of_pictures,
    "assessing.doubtful_ranges": doubtful_ranges,
    "assessing.read_again": _read_again,
    "assessing.of_each_image": _of_each_image,
    "few_images.half_width": lambda: {
        at: searched(strategy=few(half_width=at)) for at in (0.1, 0.03, 0)
    },
    "few_images.budget": lambda: {
        most: searched(strategy=few(budget=most)) for most in (1200, 3000)
    },
    "few_images.both": lambda: searched(strategy=few(half_width=0.02, budget=2500)),
    "few_images.curtail": lambda: {
        "alone": searched(strategy=few(curtail=True)),
        "with half width": searched(strategy=few(curtail=True, half_width=0.05)),
    },
    "few_images.required": lambda: {
        at: searched(strategy=few(required=at, half_width=0.02), confidence_level=0.99)
        for at in (0.2, 0.39, 0.8)
    },
    "few_images.uniform": lambda: searched(strategy=FewImages(Uniform(17), 0.08)),
    "few_images.measures": lambda: {
        measure: searched(measure=measure, alpha=0.3, strategy=few(half_width=0.1))
        for measure in ("accuracy", "recall", "effectiveness", "decided_ratio")
    },
    # Several alterations share the looks, and the budget.
    "few_images.several": lambda: {
        name: searched((world.DIM, world.LIFT), strategy=few(**asked))
        for name, asked in (
            ("half_width", {"half_width": 0.05}),
            ("budget", {"budget": 4000}),
            ("required", {"half_width": 0.03, "required": 0.5, "curtail": True}),
        )
    },
    "few_images.of_batches": _of_batches_by_few,
    "few_images.random_noise": lambda: assessed(
        world.NOISE, strategy=FewImages(half_width=0.1), batch_size=16
    ),
    "few_images.other_orders": lambda: {
        seed: searched(
            key=jax.random.key(seed), strategy=few(half_width=0.05), batch_size=64
        )
        for seed in (1, 2)
    },
    "few_images.two_networks": lambda: {
        share: _compared_by_few(share, 0.7, strategy=FewImages(half_width=0.04))
        for share in (0.6, 0.97, 1.0)
    },
    "few_images.two_networks_uniform": lambda: _compared_by_few(
        0.9, 0.6, "effectiveness", strategy=FewImages(Uniform(9), half_width=0.1),
        alpha=0.4,
    ),
    "comparing.pairs": _pairs,
    "comparing.other_levels": _other_levels,
    "comparing.measures": lambda: {
        measure: jaxrob.compare(
            assessed(measure=measure, alpha=alpha),
            _of_another(measure=measure, alpha=alpha),
        )
        for measure, alpha in (("f1", None), ("recall", None), ("effectiveness", 0.5))
    },
    "comparing.refused": _refused,
}  # fmt: skip
