r"""How few images suffice for the robustness, and how often the intervals cover it.

    python experiments/fewest_images.py --dataset=mnist --network=mlp
    python experiments/fewest_images.py --dataset=cifar10 --network=strided_cnn
    python experiments/fewest_images.py --what=coverage

"table": a trained network's answers on the test set are recorded at evenly spaced
levels of eight alterations, kept in the folder `--output`. On these answers, `assess`
with a half width, in many random orders of the images, is compared with ASAP on all
images and with all levels. Prints evaluations as shares of ASAP's on all images, over
all curves and over those that cross the threshold; errors; and how often the interval
covers the result of all images. The thresholds are shares of the clean accuracy.

"coverage": the same on test sets drawn from 16 curves given as formulas: how often the
data set's interval covers the result of all images, and the population's interval the
formula's robustness; and which cells are significantly below 95 %.

Writes JSON into the folder `--output`.
"""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from absl import app, flags
from common import (
    classifiers,
    datasets,
    define,
    files,
    intervals,
    known_curves,
    ranges,
    startup,
)

import jaxrob
from jaxrob import data, metrics, strategies, training

_WHAT = flags.DEFINE_enum("what", "table", ("table", "coverage"), "What is measured.")
_DATASET = define.dataset("mnist", "cifar10", "digits")
_DATA_DIR = define.data_dir()
_NETWORK = define.network(default="mlp")
_EPOCHS = define.epochs(3)
_NUM_TRAIN = define.num_train(60_000)
_NUM_IMAGES = define.num_images(10_000)
_LEVELS = flags.DEFINE_integer(
    "levels", 512, "Parts of the range, a power of 2: recorded levels less 1.", 8
)
_THRESHOLDS = flags.DEFINE_list(
    "thresholds", ["0.9", "0.7"], "As shares of the unaltered accuracy."
)
_HALF_WIDTHS = flags.DEFINE_list(
    "half_widths", ["0.05", "0.02", "0.01", "0.005", "0.002", "0"], "Half widths."
)
_ORDERS = flags.DEFINE_integer("orders", 20, "Random orders, or test sets.", 1)
_SEED = define.seed()
_OUTPUT = define.output("results/fewest_images")


class Recorded(NamedTuple):
    """Arguments of `jaxrob.assess`, valid at the recorded levels alone."""

    classifier: jaxrob.Classifier  # looks answers up
    dataset: jaxrob.Dataset  # N images
    alteration: jaxrob.Alteration  # its range is [0, 1]


def main(argv: Sequence[str]) -> None:
    startup.start(argv)
    if _WHAT.value == "coverage":
        return _coverage()
    names, right = _records()
    shares = map(float, _THRESHOLDS.value)
    rows = [row for share in shares for row in _at_threshold(names, right, share)]
    files.save(_OUTPUT.value, f"{_title()}.json", rows)


def _at_threshold(
    names: Sequence[str], right: Sequence[np.ndarray], share: float
) -> list[dict[str, Any]]:
    parts = [(one.identity - one.lower, one.upper - one.lower) for one in ranges.WIDE]
    identities = [round(at / width * _LEVELS.value) for at, width in parts]
    found = [
        recorded(name, some, step / _LEVELS.value)
        for name, some, step in zip(names, right, identities)
    ]
    threshold = share * float(right[0][identities[0]].mean())
    whole = strategies.ASAP(n=_LEVELS.value)
    finest = strategies.ASAP(n=_LEVELS.value, statistical_stopping=False)
    every = strategies.Uniform(_LEVELS.value + 1)

    def assess(seed: int = 0, **settings: Any) -> list[jaxrob.Assessment]:
        settings = {"strategy": whole, "key": jax.random.key(seed)} | settings
        return [jaxrob.assess(*one, threshold, **settings) for one in found]

    on_all, truth = assess(), assess(strategy=every, rule="right")
    linear = [
        metrics.heaviside_robustness(one.levels, one.values, threshold, "linear")
        for one in truth
    ]
    crosses = [0 < one.robustness < 1 for one in truth]
    rows = []
    print(f"threshold {threshold:.4f}, {sum(crosses)} of {len(names)} curves cross")
    for half_width in map(float, _HALF_WIDTHS.value):
        strategy = whole if half_width > 0 else finest
        results = [
            assess(_SEED.value + i, strategy=strategies.FewImages(strategy, half_width))
            for i in range(_ORDERS.value)
        ]
        for k, name in enumerate(names):
            each = [one[k] for one in results]
            target = linear[k] if half_width > 0 else truth[k].robustness
            rows.append(
                {
                    "curve": name,
                    "threshold": share,
                    "half_width": half_width,
                    "crosses": crosses[k],
                    "asap": on_all[k].evaluations,
                    "levels": len(truth[k].levels) * len(right[0][0]),
                    "robustness": target,
                    "evaluations": float(np.mean([one.evaluations for one in each])),
                    "error": max(abs(one.robustness - target) for one in each),
                    "misses": sum(not _holds(one, target) for one in each),
                    "reached": max(map(_half, each)),
                    "rounds": float(np.mean([one.diagnostics.rounds for one in each])),
                }
            )
        _print_total(rows[-len(names) :], half_width)
    return rows


def _print_total(rows: Sequence[dict[str, Any]], half_width: float) -> None:
    shares, crossing = {}, [row for row in rows if row["crosses"]]
    for title, some in (("all", rows), ("that cross", crossing)):
        spent = sum(row["evaluations"] for row in some)
        shares[title] = spent / max(sum(row["asap"] for row in some), 1)
    missed = sum(row["misses"] for row in rows)
    worst = max(row["error"] for row in rows)
    print(
        f"  half width {half_width:<6g}"
        + "".join(f"  {title} {share:6.1%}" for title, share in shares.items())
        + f"  largest error {worst:.4f}  missed {missed} of "
        f"{len(rows) * _ORDERS.value}",
        flush=True,
    )
    for row in rows:
        print(
            f"    {row['curve']:24}{row['evaluations'] / row['asap']:7.1%} of ASAP's"
            f"  robustness {row['robustness']:.4f}  largest error {row['error']:.4f}"
            f"  missed {row['misses']}"
        )


def _coverage() -> None:
    held: dict[tuple[str, float], list[tuple[bool, bool, float, float]]] = {}
    names, shapes = zip(*known_curves.SHAPES.items())
    steps = np.linspace(0, 1, _LEVELS.value + 1)
    for draw in range(_ORDERS.value):
        rng = np.random.default_rng([_SEED.value, draw])
        right = [
            known_curves.right_answers(shape, steps, _NUM_IMAGES.value, rng)
            for shape in shapes
        ]
        for half_width in map(float, _HALF_WIDTHS.value):
            levels = strategies.ASAP(n=_LEVELS.value)
            results = [
                jaxrob.assess(
                    *recorded(name, some),
                    known_curves.THRESHOLD,
                    strategy=strategies.FewImages(levels, half_width),
                    key=jax.random.key(draw),
                )
                for name, some in zip(names, right)
            ]
            for name, shape, some, one in zip(names, shapes, right, results):
                number, threshold = some.shape[1], known_curves.THRESHOLD
                values = some.sum(axis=1) / number
                own = metrics.heaviside_robustness(steps, values, threshold, "linear")
                low, high = one.confidence_interval
                holds = low <= known_curves.robustness(shape) <= high
                row = _holds(one, own), holds, _half(one), one.evaluations / number
                held.setdefault((name, half_width), []).append(row)
    rows = []
    for (name, half_width), some in held.items():
        own, population, half, spent = np.array(some, float).T
        row = {"curve": name, "half_width": half_width, "held": int(own.sum())}
        row |= {"population_held": int(population.sum()), "reached": half.mean()}
        rows.append(row | {"evaluations": spent.mean()})
        print(
            f"{name:22} half width {half_width:<6g} data set {own.mean():6.1%}  "
            f"population {population.mean():6.1%}  half width {half.mean():.4f}  "
            f"evaluations {spent.mean():5.2f} N"
        )
    for what in ("held", "population_held"):
        bad = intervals.named(rows, what, _ORDERS.value, "{curve}, {half_width:g}")
        print(f"{what}: significantly below 95 %: {bad}")
    files.save(_OUTPUT.value, "coverage.json", rows)


def recorded(name: str, right: np.ndarray, identity: float = 0.0) -> Recorded:
    num_images = right.shape[1]
    images = np.zeros((num_images, 1, 1, 2), np.float32)
    images[:, 0, 0, 0] = np.arange(num_images) / num_images
    images[:, 0, 0, 1] = identity
    dataset = jaxrob.Dataset(images, np.arange(num_images) % 2, name="recorded answers")
    classifier = jaxrob.Classifier(
        functools.partial(_answers, num_images=num_images),
        jnp.asarray(np.packbits(right, axis=1)),
    )
    alteration = jaxrob.Alteration(name, _with_level, 0.0, 1.0, identity)
    return Recorded(classifier, dataset, alteration)


def _with_level(image: jax.Array, level: jax.Array) -> jax.Array:
    return image.at[0, 0, 1].set(level)


def _answers(table: jax.Array, images: jax.Array, *, num_images: int) -> jax.Array:
    index = jnp.round(images[:, 0, 0, 0] * num_images).astype(int)
    step = jnp.round(images[:, 0, 0, 1] * (len(table) - 1)).astype(int)
    right = (table[step, index // 8] >> (7 - index % 8).astype(jnp.uint8)) & 1
    label = index % 2
    answer = jnp.where(right == 1, label, 1 - label)
    return 8 * jax.nn.one_hot(answer, 2)


def _records() -> tuple[list[str], list[np.ndarray]]:
    """Returns the alterations' names, and which answers are right at each level."""
    path = files.output_folder(_OUTPUT.value) / f"{_title()}.npz"
    names = [one.name for one in ranges.WIDE]
    if path.exists():
        with np.load(path) as kept:
            how = {"axis": 1, "count": int(kept["num_images"])}
            return names, [np.unpackbits(kept[n], **how).view(bool) for n in names]
    classifier, test_set = _trained()
    right = []
    for alteration in ranges.WIDE:
        levels = ranges.evenly_spaced_levels(alteration, _LEVELS.value + 1)
        levels = alteration.canonical(alteration.snap(levels))
        distinct, rows = np.unique(levels, return_inverse=True)
        curve = jaxrob.evaluate(
            classifier, test_set, alteration, distinct, key=jax.random.key(_SEED.value)
        )
        right.append((curve.predicted == curve.labels)[rows])
    packed = {name: np.packbits(one, axis=1) for name, one in zip(names, right)}
    np.savez(path, num_images=len(test_set), **packed)
    return names, right


def _trained() -> tuple[jaxrob.Classifier, jaxrob.Dataset]:
    train_set = data.load(_DATASET.value, "train", _DATA_DIR.value)
    test_set = data.load(_DATASET.value, "test", _DATA_DIR.value)
    train_set = datasets.evenly_picked(train_set, _NUM_TRAIN.value)
    module = classifiers.module(_NETWORK.value, len(datasets.class_names(train_set)))
    settings: dict[str, Any] = {"epochs": _EPOCHS.value}
    if _DATASET.value == "cifar10":
        settings = classifiers.for_photographs(
            _NETWORK.value, len(train_set), _EPOCHS.value
        )
    key = jax.random.key(_SEED.value)
    classifier = training.fit(module, train_set, key=key, **settings)
    return classifier, test_set[: _NUM_IMAGES.value]


def _holds(one: jaxrob.Assessment, truth: float) -> bool:
    """Whether the interval covers it, up to one step of the recorded levels."""
    low, high = one.dataset_interval
    slack = 0.5 / _LEVELS.value
    return low - slack <= truth <= high + slack


def _half(one: jaxrob.Assessment) -> float:
    low, high = one.dataset_interval
    return (high - low) / 2


def _title() -> str:
    size = f"{_NUM_IMAGES.value}x{_LEVELS.value}"
    return f"{_DATASET.value}-{_NETWORK.value}-{_EPOCHS.value}-{_SEED.value}-{size}"


if __name__ == "__main__":
    app.run(main)
