"""`assess` on all images."""

import dataclasses
from typing import Any

import numpy as np
from numpyro import distributions

import jaxrob
from jaxrob import alterations, strategies
from pinned import world


def asap() -> Any:
    """The published concavity and the automatic one, by both rules."""
    some = {
        "published": strategies.ASAP(64, concavity=128.0),
        "gentle": strategies.ASAP(128, concavity=2.0),
        "automatic": strategies.ASAP(64),
        "to the end": strategies.ASAP(64, statistical_stopping=False),
        "narrowest": strategies.ASAP(64, narrowest=0.1),
    }
    return {
        f"{name} {rule}": _assessed(strategy=one, rule=rule)
        for name, one in some.items()
        for rule in ("right", "linear")
    }


def other_strategies() -> Any:
    some = {
        "uniform": strategies.Uniform(9),
        "random": strategies.Random(9, seed=3),
        "including": strategies.Including(strategies.Uniform(5), (0.7, 1.1)),
    }
    return {name: _assessed(strategy=one) for name, one in some.items()}


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


def own_strategy() -> Any:
    return _assessed(strategy=_Halving())


def sampled_functions() -> Any:
    """Strategies on functions, without a network."""
    task = strategies.Task(0.0, 2.0, 0.7, 0.0)
    functions = {
        "falling": lambda levels: 1 - levels / 2,
        "bump": lambda levels: 0.6 + 0.3 * np.exp(-((levels - 1) ** 2) / 0.1),
        "on the threshold": lambda levels: np.where(levels < 1, 1.0, 0.7),
        "nowhere": lambda levels: 0 * levels,
    }
    some = (
        strategies.ASAP(256, concavity=4.0),
        strategies.ASAP(256),
        strategies.Uniform(7),
        strategies.Random(7, seed=1),
        _Halving(),
    )
    found = {}
    for name, function in functions.items():
        for one in some:
            seen, concluded = strategies.sample(one, task, function, num_inputs=100)
            bound = concluded.error_bound
            found[f"{name} {one!r}"] = {"samples": seen, "bound": bound}
    return found


def measures() -> Any:
    """Every measure at two confidence levels, with and without "unknown"."""
    found = {}
    for measure in ("accuracy", "precision", "recall", "f1"):
        found[measure] = _assessed(measure=measure, threshold=0.6)
    for measure in ("accuracy", "effectiveness", "decided_ratio", "recall"):
        found[f"{measure} of decided"] = _assessed(
            measure=measure, threshold=0.6, alpha=0.6, confidence_level=0.8
        )
    return found


def thresholds() -> Any:
    """Thresholds met exactly, never and always, and met where nothing is decided."""
    found = {at: _assessed(threshold=at) for at in (0.0, 0.5, 51 / 60, 1.0)}
    return found | {"undecided": _assessed(alpha=1.0, threshold=0.3)}


def tolerance() -> Any:
    """Rewards, penalties and distributions of the levels."""
    some: dict[str, dict[str, Any]] = {
        "linear": {"tolerance": jaxrob.Tolerance("linear")},
        "step": {"tolerance": jaxrob.Tolerance("step", "step")},
        "penalized": {"tolerance": jaxrob.Tolerance("linear", "linear")},
        "own": {"tolerance": jaxrob.Tolerance(_squared)},
        "distribution": {
            "tolerance": jaxrob.Tolerance(None, None, distributions.HalfNormal(1.0))
        },
        "all": {
            "tolerance": jaxrob.Tolerance(
                "linear", "linear", distributions.Uniform(0.0, 3.0)
            ),
            "measure": "effectiveness",
            "alpha": 0.6,
            "confidence_level": 0.9,
        },
    }
    return {name: _assessed(threshold=0.6, **one) for name, one in some.items()}


def _squared(value: float, threshold: float) -> float:
    return float(value >= threshold) * (value - threshold) ** 2


def several_alterations() -> Any:
    """Several alterations in one queue, with and without counts alone."""
    alterations = (world.blur(), world.noise(), world.fading())
    return {
        "answers": _assessed(alterations, strategy=strategies.ASAP(64)),
        "counts": _assessed(alterations, strategy=strategies.ASAP(64), reduced=True),
        "one": _assessed((world.fading(),)),
    }


def of_batches() -> Any:
    return _assessed(data=world.batches(), strategy=strategies.ASAP(32))


def stability() -> Any:
    return _assessed(data=jaxrob.Dataset(world.grey(), name="no labels"))


def of_random_networks() -> Any:
    return _assessed(classifier=world.stochastic(), alpha=0.5, threshold=0.5)


def of_pictures() -> Any:
    """Bytes in colour: JPEG, zoom rescaled, composed, a common corruption."""
    zoom = alterations.zoom()
    some = (
        alterations.jpeg_compression(),
        alterations.rescale(zoom, 0.0, 1.0),
        alterations.compose([zoom, alterations.rotation(0.0, 20.0)]),
        alterations.followed_by(zoom, world.to_bytes),
        alterations.corruptions.contrast(32),
    )
    return _assessed(some, world.small_cnn(), world.pictures())


def doubtful_ranges() -> Any:
    """Ranges, levels and thresholds that draw a warning."""
    some = (
        alterations.gaussian_noise(0.0, 50.0),
        alterations.gaussian_blur(0.0, 40.0),
        alterations.brightness(-0.5, 30.0),
        alterations.horizontal_translation(-8.0, 8.0),
        alterations.rotation(-0.001, 0.001),
        alterations.zoom(1.0, 30.0),
        alterations.rescale(alterations.gaussian_noise(0.0, 50.0), 0.0, 1.0),
        alterations.compose([alterations.gaussian_blur(0.0, 40.0), world.fading()]),
        jaxrob.Alteration("nothing", lambda image, level: image + 0 * level, 0.0, 1.0),
        jaxrob.Alteration("out", lambda image, level: image + 300 * level, 0.0, 1.0),
    )
    return _assessed(some, strategy=strategies.Uniform(3))


def read_again() -> Any:
    """The result of reading an assessment's text, with and without answers."""
    found = _assessed(strategy=strategies.ASAP(32))
    return {
        "whole": jaxrob.Assessment.from_json(found.to_json()),
        "counts": jaxrob.Assessment.from_json(found.to_json(answers=False)),
        "same": jaxrob.Assessment.from_json(found.to_json()).to_json()
        == found.to_json(),
    }


def of_each_image() -> Any:
    found = _assessed(strategy=strategies.Uniform(7), alpha=0.4)
    return {"failing": found.first_failing_level, "unknown": found.first_unknown_level}


def _assessed(
    alteration: Any = None,
    classifier: jaxrob.Classifier | None = None,
    data: Any = None,
    **settings: Any,
) -> Any:
    settings = {"threshold": 0.7, "strategy": strategies.Uniform(5)} | settings
    return jaxrob.assess(
        classifier or world.classifier(), data or world.dataset(),
        alteration or world.blur(), key=world.KEY, **settings,
    )  # fmt: skip
