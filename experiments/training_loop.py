r"""A training loop that assesses the network's robustness after every epoch.

    python experiments/training_loop.py
    python experiments/training_loop.py --dataset=mnist --data_dir=... --epochs=5

A plain loop of Flax and optax. After each epoch it assesses the network's robustness
to three alterations, at 11 levels each, and the mean plr of a few images (RoMA, by the
estimator "count"). New parameters compile nothing: jaxrob's programs are compiled in
the first epoch. Beside each assessment the bare jitted forward passes of as many images
are timed, and the ratio of the assessment's time to theirs is printed. Writes JSON and
a figure of robustness and plr over the epochs into the folder `--output`. It takes a
minute or two on two CPU cores. On several hosts each trains the same network on its
own; they share the assessments.
"""

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from absl import app, flags
from common import classifiers, datasets, define, files, hosts, ranges, startup, timing
from flax import linen
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

import jaxrob
from jaxrob import alterations, data, roma

_DATASET = define.dataset("digits", "mnist")
_DATA_DIR = define.data_dir()
_NETWORK = define.network()
_EPOCHS = define.epochs(10)
_BATCH_SIZE = flags.DEFINE_integer("batch_size", 64, "Images in a training step.", 1)
_NUM_TRAIN = define.num_train(60000)
_NUM_IMAGES = define.num_images(1000)
_LEVELS = define.levels(11)
_NUM_INPUTS = define.num_inputs(50)
_NUM_SAMPLES = define.num_samples(500)
_EPSILON = flags.DEFINE_float("epsilon", 0.2, "Radius of RoMA's ball.", 0)
_THRESHOLD = define.threshold()
_SEED = define.seed()
_OUTPUT = define.output("results/training_loop")

_ALTERATIONS = (
    alterations.gaussian_noise(0.0, 0.2),
    alterations.rotation(-60.0, 60.0, fill="constant"),
    alterations.zoom(1.0, 2.0),
)


def main(argv: Sequence[str]) -> None:
    startup.start(argv)
    train_set = data.load(_DATASET.value, "train", _DATA_DIR.value)[: _NUM_TRAIN.value]
    test_set = data.load(_DATASET.value, "test", _DATA_DIR.value)[: _NUM_IMAGES.value]
    init_key, _, assess_key = jax.random.split(jax.random.key(_SEED.value), 3)
    print(
        f"{_NETWORK.value} on {train_set.name}: {len(train_set)} images to train on, "
        f"{len(test_set)} assessed, on {jax.devices()[0].device_kind}"
    )
    module = classifiers.module(_NETWORK.value, len(datasets.class_names(train_set)))
    variables = module.init(init_key, jnp.zeros((1, *train_set.images.shape[1:])))
    forward, _ = timing.best_forward(
        jaxrob.Classifier.from_linen(module, variables),
        test_set.images,
        passes=len(_ALTERATIONS) * _LEVELS.value,
    )

    rows = []
    costs = ("seconds", "ratio", "compiled")
    print(_line("epoch", *(one.name for one in _ALTERATIONS), "plr", *costs))
    epochs = _epochs(module, variables, train_set)
    for epoch in range(1, _EPOCHS.value + 1):
        with timing.compilations() as compiled:
            classifier = jaxrob.Classifier.from_linen(module, next(epochs))
            row = _assess(classifier, test_set, forward, assess_key)
        row |= {"epoch": epoch, "compilations": len(compiled)}
        rows.append(row)
        cells = [f"{value:.1%}" for value in row["robustness"].values()]
        cells += [f"{row['plr']:.3%}", f"{row['seconds']:.2f}", f"{row['ratio']:.2f}"]
        print(_line(f"{epoch}", *cells, f"{len(compiled)}"))
    if later := rows[1:]:
        print(
            f"after the first epoch {sum(row['compilations'] for row in later)} "
            "programs were compiled, and an assessment took "
            f"{statistics.median(row['ratio'] for row in later):.2f} times what its "
            "forward passes take alone (median)"
        )
    output = files.output_folder(_OUTPUT.value)
    name = f"{_DATASET.value}-{_NETWORK.value}"
    document = {
        "dataset": train_set.name,
        "network": _NETWORK.value,
        "num_images": len(test_set),
        "levels": _LEVELS.value,
        "epochs": rows,
    }
    files.write_json(output / f"{name}.json", document)
    _figure(rows).savefig(output / f"{name}.png", dpi=110)
    print(f"wrote {output / name}.json and .png")


def _epochs(
    module: linen.Module, variables: Any, train_set: jaxrob.Dataset
) -> Iterator[Any]:
    """Trains as long as the caller iterates; yields the variables after each epoch."""
    images = jnp.asarray(train_set.images, jnp.float32) / 255
    labels = jnp.asarray(train_set.labels)
    optimizer = optax.adam(1e-3)
    batch_size = min(_BATCH_SIZE.value, len(images))

    @jax.jit
    def step(variables: Any, state: Any, batch: jax.Array) -> tuple[Any, Any]:
        def loss(variables: Any) -> jax.Array:
            logits: Any = module.apply(variables, images[batch], train=True)
            cross_entropy = optax.softmax_cross_entropy_with_integer_labels
            return cross_entropy(logits, labels[batch]).mean()

        updates, state = optimizer.update(jax.grad(loss)(variables), state)
        return optax.apply_updates(variables, updates), state

    def epochs(variables: Any, state: Any) -> Iterator[Any]:
        random = np.random.default_rng(_SEED.value)
        while True:
            order = random.permutation(len(images))
            for first in range(0, len(images) - batch_size + 1, batch_size):
                batch = order[first : first + batch_size]
                variables, state = step(variables, state, batch)
            yield jax.block_until_ready(variables)

    return epochs(variables, optimizer.init(variables))


def _assess(
    classifier: jaxrob.Classifier,
    test_set: jaxrob.Dataset,
    forward: Callable[[], None],
    key: jax.Array,
) -> dict[str, Any]:
    forward_seconds = timing.seconds(forward)
    start = time.perf_counter()
    given = classifier, test_set, _ALTERATIONS, _THRESHOLD.value, _LEVELS.value
    assessments = ranges.assessed(*given, key)
    robustness = {one.alteration: one.robustness for one in assessments}
    seconds = time.perf_counter() - start
    found = roma.assess(
        classifier, test_set.images[: _NUM_INPUTS.value], epsilon=_EPSILON.value,
        num_samples=_NUM_SAMPLES.value, estimator="count", key=key, mesh=hosts.mesh(),
    )  # fmt: skip
    return {
        "robustness": robustness,
        "plr": float(found.plr.mean()),
        "seconds": seconds,
        "forward_seconds": forward_seconds,
        "ratio": seconds / forward_seconds,
    }


def _line(epoch: str, *cells: str) -> str:
    return f"{epoch:>5}" + "".join(f"{cell:>16}" for cell in cells)


def _figure(rows: Sequence[dict[str, Any]]) -> Figure:
    figure, left = plt.subplots(figsize=(6, 3.8), layout="constrained")
    epochs = [row["epoch"] for row in rows]
    for name in rows[0]["robustness"]:
        values = [100 * row["robustness"][name] for row in rows]
        left.plot(epochs, values, "o-", markersize=3, label=name)
    left.set(xlabel="epoch", ylabel="robustness [%]", ylim=(0, 102))
    left.locator_params(axis="x", integer=True)
    right = left.twinx()
    plr = [100 * row["plr"] for row in rows]
    right.plot(epochs, plr, "k:", label=f"plr, ε = {_EPSILON.value:g}")
    right.set_ylabel("mean plr [%]")
    figure.legend(loc="outside upper center", ncols=4, fontsize=8)
    return figure


if __name__ == "__main__":
    app.run(main)
