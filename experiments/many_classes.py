"""Size and time of what follows from the answers, for a thousand classes.

    python experiments/many_classes.py
    python experiments/many_classes.py --num_classes=64 --num_images=5000

A linear network is assessed on `--num_images` images of 4 x 4 pixels under noise, at
`--num_levels` levels. Prints the bytes of the answers, of the counts by class and of
the confusion that they replace, the length of the JSON, and the seconds of each step:
the counts, the JSON, and by measure the robustness and its interval. Then the seconds
and the length of a report, and the seconds of a comparison with a second network. With
the defaults it takes four minutes on two CPU cores and 1 GB.
"""

import functools
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from absl import app, flags
from common import define, startup

import jaxrob
from jaxrob import alterations, reporting, strategies

_SHAPE = (4, 4, 1)
# The standard deviation of a class's pixels around its prototype, and the network's
# slope. Three quarters of a thousand classes' images are then right.
_SPREAD, _SLOPE = 0.2, 20.0

_NUM_CLASSES = flags.DEFINE_integer("num_classes", 1000, "Classes.", 2)
_NUM_IMAGES = define.num_images(50_000, "Images.")
_NUM_LEVELS = define.num_levels(41)
_SEED = define.seed()

T = TypeVar("T")


def main(argv: Sequence[str]) -> None:
    startup.start(argv)
    rng = np.random.default_rng(_SEED.value)
    prototypes = rng.random((_NUM_CLASSES.value, *_SHAPE), np.float32)
    labels = np.arange(_NUM_IMAGES.value) % len(prototypes)
    noise = _SPREAD * rng.standard_normal((len(labels), *_SHAPE), np.float32)
    images = np.clip(prototypes[labels] + noise, 0, 1)
    data = jaxrob.Dataset(images, labels, name="clusters")
    first = _network(prototypes)
    one = _timed("assess, reduced", lambda: _assess(first, data, reduced=True))
    _time_sizes(one)
    one = _timed("assess", lambda: _assess(first, data))
    _time_sizes(one)
    _time_measures(one)
    results = reporting.Results("linear", None, (one,))
    page = _timed("report as HTML", lambda: reporting.to_html([results]))
    print(f"its length: {len(page) / 1e6:.2f} MB")
    moved = prototypes + 0.05 * rng.standard_normal(prototypes.shape, np.float32)
    other = _assess(_network(moved), data)
    found = _timed("compare", lambda: jaxrob.compare(one, other))
    print(f"its mean difference: {found.mean_difference:.4f}")


def _network(prototypes: np.ndarray) -> jaxrob.Classifier:
    """Returns a classifier by the nearest prototype, which is linear."""
    flat = jnp.asarray(prototypes.reshape(len(prototypes), -1))
    variables = {"kernel": 2 * flat.T, "bias": -jnp.square(flat).sum(1)}

    def logits(variables: Any, images: jax.Array) -> jax.Array:
        pixels = images.reshape(len(images), -1)
        return _SLOPE * (pixels @ variables["kernel"] + variables["bias"])

    return jaxrob.Classifier(logits, variables, name="linear")


def _assess(
    network: jaxrob.Classifier, data: jaxrob.Dataset, **settings: Any
) -> jaxrob.Assessment:
    return jaxrob.assess(
        network,
        data,
        alterations.gaussian_noise(0.0, 0.1),
        threshold=0.5,
        strategy=strategies.Uniform(_NUM_LEVELS.value),
        key=jax.random.key(_SEED.value),
        **settings,
    )


def _time_sizes(one: jaxrob.Assessment) -> None:
    """Prints the sizes of a curve and its JSON, and the seconds of both."""
    curve = one.curve
    if isinstance(curve, jaxrob.Curve):
        answers = (curve.predicted, curve.confidence, curve.uncertainty)
        print(f"answers: {sum(part.nbytes for part in answers if part is not None):,}")
        again = jaxrob.Curve(
            *(curve.levels, *answers, curve.labels, curve.num_classes), curve.alpha
        )
        counts = _timed("counts", lambda: again.counts)
    else:
        counts = curve.counts
    size = sum(part.nbytes for part in counts[:4])
    table = 8 * len(curve.levels) * curve.num_classes * (curve.num_classes + 1)
    print(f"counts: {size / 1e6:.2f} MB; a confusion: {table / 1e6:.0f} MB")
    text = _timed("JSON without answers", lambda: one.to_json(answers=False))
    print(f"its length: {len(text) / 1e6:.2f} MB")
    _timed("the same read", lambda: jaxrob.Assessment.from_json(text))
    if isinstance(curve, jaxrob.Curve):
        text = _timed("JSON with answers", one.to_json)
        print(f"its length: {len(text) / 1e6:.2f} MB")


def _time_measures(one: jaxrob.Assessment) -> None:
    """Prints the seconds that robustness and interval take, by measure."""
    for measure in jaxrob.metrics.measures:
        again = _of_measure(one, measure)
        for name in ("robustness", "robustness_per_class", "confidence_interval"):
            call = functools.partial(getattr, again, name)
            _timed(f"{name} of {measure}", call)
        low, high = again.confidence_interval
        print(f"{again.robustness:.4f} in [{low:.4f}, {high:.4f}]")


def _of_measure(one: jaxrob.Assessment, measure: str) -> jaxrob.Assessment:
    """Returns the assessment by another measure, from the same answers."""
    fields = {name: getattr(one, name) for name in one.__dataclass_fields__}
    return jaxrob.Assessment(**(fields | {"measure": measure}))


def _timed(what: str, call: Callable[[], T]) -> T:
    start = time.perf_counter()
    result = call()
    print(f"{what}: {time.perf_counter() - start:.3f} s", flush=True)
    return result


if __name__ == "__main__":
    app.run(main)
