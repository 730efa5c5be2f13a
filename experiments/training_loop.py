r"""A training loop that knows, after every epoch, how robust the network is.

    python experiments/training_loop.py
    python experiments/training_loop.py --dataset=mnist --data_dir=... --epochs=5

A plain loop of Flax and optax. After each epoch it assesses the network's robustness
to three alterations, at 11 levels each, and the mean plr of a few images (RoMA, by the
estimator "logit"). New parameters compile nothing: what jaxrob needs is compiled in the
first epoch. Beside each assessment the bare jitted forward passes of as many images are
timed: the assessment's time divided by theirs is printed. Writes JSON and a figure of
robustness and plr over the epochs into the folder `--output`. On several hosts each
trains the same network on its own; they share the assessments.
"""

import json
import statistics
import time

import hosts
import jax
import jax.numpy as jnp
import numpy as np
import optax
import startup
import timing
from absl import app, flags
from matplotlib import pyplot as plt

import jaxrob
from jaxrob import alterations, data, networks, roma

_NETWORKS = {"mnist_cnn": networks.MnistCNN, "mlp": networks.MLP}

_DATASET = flags.DEFINE_enum("dataset", "digits", ("digits", "mnist"), "Data set.")
_DATA_DIR = flags.DEFINE_string(
    "data_dir", None, "Folder of data sets; by default $JAXROB_DATA_DIR."
)
_NETWORK = flags.DEFINE_enum("network", "mnist_cnn", tuple(_NETWORKS), "Network.")
_EPOCHS = flags.DEFINE_integer("epochs", 10, "Training epochs.", 1)
_BATCH_SIZE = flags.DEFINE_integer("batch_size", 64, "Images in a training step.", 1)
_LEARNING_RATE = flags.DEFINE_float("learning_rate", 1e-3, "Of Adam.", 0)
_NUM_TRAIN = flags.DEFINE_integer("num_train", 60000, "Training images at most.", 1)
_NUM_IMAGES = flags.DEFINE_integer("num_images", 1000, "Images assessed at most.", 1)
_LEVELS = flags.DEFINE_integer("levels", 11, "Levels of each alteration.", 2)
_NUM_INPUTS = flags.DEFINE_integer("num_inputs", 50, "Images of RoMA at most.", 1)
_NUM_SAMPLES = flags.DEFINE_integer("num_samples", 500, "RoMA's draws an image.", 8)
_EPSILON = flags.DEFINE_float("epsilon", 0.2, "Radius of RoMA's ball.", 0)
_THRESHOLD = flags.DEFINE_float("threshold", 0.8, "Lowest accepted accuracy.", 0, 1)
_SEED = flags.DEFINE_integer("seed", 0, "Random seed.", 0)
_OUTPUT = flags.DEFINE_string("output", "results/training_loop", "Folder written to.")

_ALTERATIONS = (
    alterations.gaussian_noise(0.0, 0.2),
    alterations.rotation(-60.0, 60.0, fill="constant"),
    alterations.zoom(1.0, 2.0),
)


def main(argv):
    startup.start(argv)
    train_set = data.load(_DATASET.value, "train", _DATA_DIR.value)[: _NUM_TRAIN.value]
    test_set = data.load(_DATASET.value, "test", _DATA_DIR.value)[: _NUM_IMAGES.value]
    init_key, train_key, assess_key = jax.random.split(jax.random.key(_SEED.value), 3)
    print(
        f"{_NETWORK.value} on {train_set.name}: {len(train_set)} images to train on, "
        f"{len(test_set)} assessed, on {jax.devices()[0].device_kind}"
    )
    images, labels = _on_device(train_set)
    module = _NETWORKS[_NETWORK.value](num_classes=len(train_set.class_names))
    variables = module.init(init_key, images[:1])
    optimizer = optax.adam(_LEARNING_RATE.value)
    state = optimizer.init(variables)
    batch_size = min(_BATCH_SIZE.value, len(images))

    @jax.jit
    def step(variables, state, batch):
        def loss(variables):
            logits = module.apply(variables, images[batch], train=True)
            return optax.softmax_cross_entropy_with_integer_labels(
                logits, labels[batch]
            ).mean()

        updates, state = optimizer.update(jax.grad(loss)(variables), state)
        return optax.apply_updates(variables, updates), state

    passes = len(_ALTERATIONS) * _LEVELS.value
    classifier = jaxrob.Classifier.from_linen(module, variables)
    forward, _ = timing.best_forward(classifier, _on_device(test_set)[0], passes=passes)

    rows = []
    print(_line("epoch", *(one.name for one in _ALTERATIONS), "plr", *_COSTS))
    random = np.random.default_rng(_SEED.value)
    for epoch in range(1, _EPOCHS.value + 1):
        with timing.compilations() as compiled:
            order = random.permutation(len(images))
            for first in range(0, len(images) - batch_size + 1, batch_size):
                batch = order[first : first + batch_size]
                variables, state = step(variables, state, batch)
            jax.block_until_ready(variables)
            classifier = jaxrob.Classifier.from_linen(module, variables)
            row = _assess(classifier, test_set, forward, assess_key)
        row |= {"epoch": epoch, "compilations": len(compiled)}
        rows.append(row)
        print(
            _line(
                f"{epoch}",
                *(f"{value:.1%}" for value in row["robustness"].values()),
                f"{row['plr']:.3%}",
                f"{row['seconds']:.2f}",
                f"{row['ratio']:.2f}",
                f"{row['compilations']}",
            )
        )
    later = rows[1:]
    if later:
        print(
            f"after the first epoch {sum(row['compilations'] for row in later)} "
            "programs were compiled, and an assessment took "
            f"{statistics.median(row['ratio'] for row in later):.2f} times what its "
            "forward passes take alone (median)"
        )
    output = hosts.output(_OUTPUT.value)
    name = f"{_DATASET.value}-{_NETWORK.value}"
    document = {
        "dataset": train_set.name,
        "network": _NETWORK.value,
        "num_images": len(test_set),
        "levels": _LEVELS.value,
        "epochs": rows,
    }
    (output / f"{name}.json").write_text(json.dumps(document, indent=1))
    _figure(rows).savefig(output / f"{name}.png", dpi=110)
    print(f"wrote {output / name}.json and .png")


def _assess(classifier, test_set, forward, key):
    """Robustness and plr, and how long the robustness and its forward passes take."""
    forward_seconds = timing.seconds(forward)
    start = time.perf_counter()
    assessments = jaxrob.assess(
        classifier,
        test_set,
        _ALTERATIONS,
        _THRESHOLD.value,
        strategy=jaxrob.strategies.Uniform(_LEVELS.value),
        key=key,
        mesh=hosts.mesh(),
    )
    robustness = {one.alteration: one.robustness for one in assessments}
    seconds = time.perf_counter() - start
    found = roma.assess(
        classifier,
        test_set.images[: _NUM_INPUTS.value],
        epsilon=_EPSILON.value,
        num_samples=_NUM_SAMPLES.value,
        estimator="logit",
        key=key,
        mesh=hosts.mesh(),
    )
    return {
        "robustness": robustness,
        "plr": float(found.plr.mean()),
        "seconds": seconds,
        "forward_seconds": forward_seconds,
        "ratio": seconds / forward_seconds,
    }


def _on_device(dataset):
    """Images as float32 in [0, 1], and labels."""
    return jnp.asarray(dataset.images, jnp.float32) / 255, jnp.asarray(dataset.labels)


def _figure(rows):
    figure, left = plt.subplots(figsize=(6, 3.8), layout="constrained")
    epochs = [row["epoch"] for row in rows]
    for name in rows[0]["robustness"]:
        values = [100 * row["robustness"][name] for row in rows]
        left.plot(epochs, values, "o-", markersize=3, label=name)
    left.set(xlabel="epoch", ylabel="robustness [%]", ylim=(0, 102))
    left.xaxis.get_major_locator().set_params(integer=True)
    right = left.twinx()
    plr = [100 * row["plr"] for row in rows]
    right.plot(epochs, plr, "k:", label=f"plr, ε = {_EPSILON.value:g}")
    right.set_ylabel("mean plr [%]")
    figure.legend(loc="outside upper center", ncols=4, fontsize=8)
    return figure


_COSTS = ("seconds", "ratio", "compiled")


def _line(epoch, *cells):
    return f"{epoch:>5}" + "".join(f"{cell:>16}" for cell in cells)


if __name__ == "__main__":
    app.run(main)
