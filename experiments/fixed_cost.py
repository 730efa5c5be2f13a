"""The cost of a call beside its forward passes: a residual network of 50 layers.

    python experiments/fixed_cost.py
    python experiments/fixed_cost.py --layers=101 --repeats=7

Each network answers 4 images at 2 levels: as a Flax Linen module, as a Flax NNX module,
as a function of its variables, and as a function that captures them; then a linear
classifier. Printed are milliseconds of process time (not wall time, so that other
processes matter less), medians after a first call: the same function jitted, on the
images once for each level; a bare trace of it (`jax.make_jaxpr`); and `evaluate` and
`assess` less the forward passes. Weights and images are random: they do not matter. It
takes a minute on two CPU cores.

Then 4 images at 16 levels and the linear classifier, which costs next to nothing: the
wall time of a call of a jitted function with the same arguments and answers, and of
`evaluate` and `assess` beyond it.
"""

import functools
import statistics
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from absl import app, flags
from common import define, hosts, startup, timing
from flax import linen, nnx

import jaxrob

_LAYERS = flags.DEFINE_integer("layers", 50, "Layers of the networks.", 2)
_REPEATS = define.repeats()
_SEED = define.seed()

_CHANNELS = 8
_LEVELS = [0.0, 0.25]
_MANY = 16
_BRIGHTNESS = jaxrob.alterations.brightness(-0.5, 0.5)


def main(argv: Sequence[str]) -> None:
    hosts.refuse_several()
    startup.start(argv)
    # One network captures its weights on purpose.
    warnings.simplefilter("ignore", jaxrob.RobustnessWarning)
    images = np.random.default_rng(_SEED.value).random((4, 16, 16, 3), np.float32)
    print(f"{'':>9}  forward    trace  evaluate  assess")
    classifiers = dict(_classifiers(images))
    for name, classifier in classifiers.items():
        costs = _costs(classifier, images)
        print(f"{name:>9} " + " ".join(f"{cost:8.2f}" for cost in costs))
    classifier, data = classifiers["linear"], jaxrob.Dataset(images, np.arange(4))
    jitted, evaluated, assessed = _beyond_dispatch(classifier, data)
    print(f"\n4 images x {_MANY} levels, wall time: jitted {jitted:.2f} ms; beyond it")
    print(f"evaluate {evaluated:.2f} ms, assess {assessed:.2f} ms")


class _Linen(linen.Module):
    blocks: int

    @linen.compact
    def __call__(self, images: jax.Array) -> jax.Array:
        def layer(x: jax.Array) -> jax.Array:
            x = linen.Conv(_CHANNELS, (3, 3))(x)
            return linen.BatchNorm(use_running_average=True)(x)

        x = linen.relu(layer(images))
        for _ in range(self.blocks):
            x = linen.relu(x + layer(linen.relu(layer(x))))
        return linen.Dense(4)(x.mean((1, 2)))


class _Nnx(nnx.Module):
    def __init__(self, blocks: int, rngs: nnx.Rngs) -> None:
        def layer(channels: int) -> nnx.Sequential:
            return nnx.Sequential(
                nnx.Conv(channels, _CHANNELS, (3, 3), rngs=rngs),
                nnx.BatchNorm(_CHANNELS, rngs=rngs),
            )

        self.first = layer(3)
        self.blocks = nnx.List(
            [nnx.List([layer(_CHANNELS), layer(_CHANNELS)]) for _ in range(blocks)]
        )
        self.last = nnx.Linear(_CHANNELS, 4, rngs=rngs)

    def __call__(self, images: jax.Array) -> jax.Array:
        x = nnx.relu(self.first(images))
        for first, second in self.blocks:
            x = nnx.relu(x + second(nnx.relu(first(x))))
        return self.last(x.mean((1, 2)))


def _classifiers(images: np.ndarray) -> Iterator[tuple[str, jaxrob.Classifier]]:
    blocks, key = (_LAYERS.value - 2) // 2, jax.random.key(_SEED.value)
    module = _Linen(blocks)
    variables = jax.jit(module.init)(key, images)
    yield "linen", jaxrob.Classifier.from_linen(module, variables)
    yield "nnx", jaxrob.Classifier.from_nnx(_Nnx(blocks, nnx.Rngs(_SEED.value)))
    yield "function", jaxrob.Classifier(module.apply, variables)
    captures = functools.partial(_captures, module, variables)
    yield "captures", jaxrob.Classifier(captures)
    weights = jax.random.normal(key, (images[0].size, 4))
    yield "linear", jaxrob.Classifier(_linear, weights)


def _captures(module: Any, held: Any, variables: Any, images: jax.Array) -> jax.Array:
    del variables
    return module.apply(held, images)


def _linear(weights: jax.Array, images: jax.Array) -> jax.Array:
    return images.reshape(len(images), -1) @ weights


def _costs(classifier: jaxrob.Classifier, images: np.ndarray) -> list[float]:
    data = jaxrob.Dataset(images, np.arange(4))
    forward = jax.jit(classifier.apply_fn)
    given = classifier.variables, jnp.asarray(images)
    strategy = jaxrob.strategies.Uniform(len(_LEVELS))
    runs = [
        lambda: [forward(*given) for _ in _LEVELS],
        # A new function each time, because JAX caches the traces of others.
        lambda: jax.make_jaxpr(lambda *args: classifier.apply_fn(*args))(*given),
        lambda: jaxrob.evaluate(classifier, data, _BRIGHTNESS, _LEVELS),
        lambda: jaxrob.assess(classifier, data, _BRIGHTNESS, strategy=strategy),
    ]
    # Alternating, so that other load on the machine affects all alike.
    rounds = [[_milliseconds(run) for run in runs] for _ in range(1 + _REPEATS.value)]
    passes, trace, *calls = map(statistics.median, zip(*rounds[1:]))
    return [passes, trace, *(call - passes for call in calls)]


def _beyond_dispatch(
    classifier: jaxrob.Classifier, data: jaxrob.Dataset
) -> list[float]:
    """Milliseconds of a jitted function's call, and of two public ones beyond it."""
    levels = np.linspace(-0.5, 0.5, _MANY)

    @jax.jit
    def answers(variables: Any, images: jax.Array, levels: jax.Array) -> Any:
        def at(level: jax.Array) -> tuple[jax.Array, jax.Array]:
            altered = jnp.clip(images * (1 + level), 0, 1)
            scores = jax.nn.softmax(classifier.apply_fn(variables, altered))
            return scores.argmax(-1), scores.max(-1)

        return jax.lax.map(at, levels)

    strategy = jaxrob.strategies.Uniform(_MANY)
    given = classifier.variables, data.images, np.float32(levels)
    runs = [
        lambda: jax.device_get(answers(*given)),
        lambda: jaxrob.evaluate(classifier, data, _BRIGHTNESS, levels),
        lambda: jaxrob.assess(classifier, data, _BRIGHTNESS, strategy=strategy),
    ]
    rounds = [[timing.seconds(run) for run in runs] for _ in range(10 * _REPEATS.value)]
    jitted, *calls = (1e3 * statistics.median(times) for times in zip(*rounds[3:]))
    return [jitted, *(call - jitted for call in calls)]


def _milliseconds(run: Callable[[], Any]) -> float:
    start = time.process_time()
    jax.block_until_ready(run())
    return 1e3 * (time.process_time() - start)


if __name__ == "__main__":
    app.run(main)
