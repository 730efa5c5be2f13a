r"""What long runs say of their cost, beside what they then take.

    python experiments/cost.py
    python experiments/cost.py --seconds=30

Networks on the host that sleep for some time each image, or each call, and networks in
JAX. For each run: the seconds and passes that its line says, when it says so, and the
seconds and passes that the run took. Seconds
of compilation are left out of these. Nothing is trained, the pictures are random.
`--seconds` is about how long each run of a sleeping network takes.
"""

import contextlib
import io
import re
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from absl import app, flags
from common import startup, timing

import jaxrob
from jaxrob import alterations, networks, roma

_SECONDS = flags.DEFINE_float("seconds", 20.0, "Of a run, about.", 0.1)

_SHAPE = (16, 16, 3)
_KEY = jax.random.key(0)


class _Run(NamedTuple):
    """A run: its name, its passes, and the call, which returns the passes it took."""

    name: str
    passes: int
    call: Callable[[jaxrob.Classifier], int]


def main(argv: Sequence[str]) -> None:
    startup.start(argv)
    print(f"{'network':<16}{'run':<34}{'said':>22}{'after':>8}{'took':>8}{'passes':>9}")
    for run in _runs():
        each = _SECONDS.value / run.passes
        _print_row("sleeps an image", run, _sleeping(each, 0.0))
    service, all_levels = _sleeping(0.0, _SECONDS.value / 21), _evaluation(21)
    _print_row("sleeps a call", all_levels, service)
    module = networks.ResNet(num_classes=10)
    variables = module.init(_KEY, np.zeros((1, *_SHAPE), np.float32))
    for run in (_evaluation(41, 1000), _assessment(1000), _estimate("count", 20)):
        _print_row(
            "residual, JAX", run, jaxrob.Classifier.from_linen(module, variables)
        )


def _runs() -> list[_Run]:
    return [
        _evaluation(21),
        _assessment(200),
        _estimate("count", 4),
        _estimate("roma", 9),
        _estimate("auto", 4),
    ]


def _data(number: int) -> jaxrob.Dataset:
    random = np.random.default_rng(0)
    return jaxrob.Dataset(random.integers(0, 256, (number, *_SHAPE), dtype=np.uint8))


def _evaluation(levels: int, number: int = 200) -> _Run:
    def call(classifier: jaxrob.Classifier) -> int:
        at = np.linspace(0, 2, levels)
        blur = alterations.gaussian_blur(0.0, 2.0)
        curve = jaxrob.evaluate(classifier, _data(number), blur, at, progress=True)
        return curve.levels.size * number

    return _Run(f"evaluate, {number} images", levels * number, call)


def _assessment(number: int) -> _Run:
    def call(classifier: jaxrob.Classifier) -> int:
        several = [alterations.zoom(1.0, 2.0), alterations.brightness(-0.5, 0.5)]
        found = jaxrob.assess(classifier, _data(number), several, progress=True)
        return sum(one.evaluations for one in found)

    return _Run(f"assess, {number} images", 2 * 16 * number, call)


def _estimate(estimator: str, number: int) -> _Run:
    def call(classifier: jaxrob.Classifier) -> int:
        found = roma.assess(
            classifier,
            _data(number).images,
            estimator=estimator,
            key=_KEY,
            progress=True,
        )
        return int(found.evaluations.sum())

    passes = 1000 * number * (6 if estimator == "auto" else 1)
    return _Run(f"roma.assess, {estimator}, {number} images", passes, call)


def _sleeping(an_image: float, a_call: float) -> jaxrob.Classifier:
    weights = np.random.default_rng(1).normal(size=(np.prod(_SHAPE), 10))

    def network(images: np.ndarray) -> np.ndarray:
        time.sleep(a_call + an_image * len(images))
        return (images - 0.5).reshape(len(images), -1) @ weights

    return jaxrob.Classifier.from_host(network, 10)


def _print_row(network: str, run: _Run, classifier: jaxrob.Classifier) -> None:
    start = time.perf_counter()
    with _listened() as said, timing.compilations() as compiled:
        passes = run.call(classifier)
    took = time.perf_counter() - start - sum(compiled)
    words, after = "nothing", ""
    if said.line:
        words = re.sub(r":.*", "", said.line.split("takes ")[1])
        after = f"{said.at - start:.1f} s"
    print(f"{network:<16}{run.name:<34}{words:>22}{after:>8}{took:>6.1f} s{passes:>9,}")


class _Listener(io.StringIO):
    """Standard error, of which the line on the cost is kept with its time."""

    line, at = "", 0.0

    def write(self, text: str) -> int:
        if "this takes" in text:
            self.line, self.at = text, time.perf_counter()
        return len(text)


@contextlib.contextmanager
def _listened() -> Iterator[Any]:
    listener = _Listener()
    with contextlib.redirect_stderr(listener):
        yield listener


if __name__ == "__main__":
    app.run(main)
