r"""Tables 2 and 3 of the 2024 paper: a plain network and a Bayesian one, undecided.

    python experiments/bnn_tables.py
    python experiments/bnn_tables.py --dataset=mnist --data_dir=... --seeds=5

Trains, for each seed, a perceptron with 79,510 parameters and a Bayesian one with
161,040 (on images of 28 by 28), assesses both at 21 levels of seven alterations, and
prints the robustness without and with unknown answers beside the paper's, the answers
to the paper's questions with 95 % intervals over the seeds, and how often unknown
answers are the wrong ones. A second table explains the differences from the paper, by
readings of its alterations and by networks trained as its authors trained theirs; a
third one, on request, shows the effect of the prior. Writes, into the folder
`--output`, the numbers as JSON, and two figures of the first seed: the measures over
the level, and the most uncertain images. With 5 seeds and 2,000 images of MNIST it
takes 10 minutes on two CPU cores.
"""

import time
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from absl import app, flags
from bnn_2024 import authors, measuring, tables
from bnn_2024.measuring import COLUMNS, ROWS, Measured
from bnn_2024.tables import TRAINED_AS_THEIRS, Explained
from common import datasets, define, files, gate, hosts, startup

import jaxrob
from jaxrob import data, networks, training

_DATASET = define.dataset("digits", "mnist")
_DATA_DIR = define.data_dir()
_SEEDS = define.seeds(2)
_NUM_IMAGES = define.num_images(10000)
_EPOCHS = define.epochs(20, "Training epochs of the plain network.")
_BNN_EPOCHS = flags.DEFINE_integer("bnn_epochs", 20, "Of the Bayesian one.", 1)
_PRIOR_SCALE = flags.DEFINE_float("prior_scale", 1.0, "Of the weights.")
_PRIOR_SCALES = flags.DEFINE_multi_float(
    "prior_scales", [], "Further prior scales to be tried, on the first seed."
)
_SAMPLES = define.samples()
_LEVELS = define.levels(21)
_ALPHA = define.alpha()
_OUTPUT = define.output("results/bnn")
_PROGRESS = define.progress()
_requirements = gate.define_require(*ROWS.values())


def main(argv: Sequence[str]) -> None:
    startup.start(argv)
    output = files.output_folder(_OUTPUT.value)
    train_set = data.load(_DATASET.value, "train", _DATA_DIR.value)
    test_set = data.load(_DATASET.value, "test", _DATA_DIR.value)[: _NUM_IMAGES.value]
    seeds = [_one_seed(seed, train_set, test_set) for seed in range(_SEEDS.value)]
    rows = [found["robustness"] for found in seeds]
    explained = [found["explained"] for found in seeds]
    means = {name: np.mean([row[name] for row in rows], axis=0) for name in rows[0]}
    tables.print_means(means, len(seeds))
    tables.print_explained(explained)
    priors = _priors(train_set, test_set)
    curves = seeds[0]["bnn"]
    answers = tables.answers(rows) + [tables.their_answer(explained)]
    answers += tables.odds(curves, _ALPHA.value)
    print("\n" + "\n".join(answers))
    document = {
        "dataset": _DATASET.value,
        "num_images": len(test_set),
        "accuracy": seeds[0]["accuracy"],
        "their_accuracy": [found["their_accuracy"] for found in seeds],
        "robustness": rows,
        "explained": explained,
        "priors": priors,
        "answers": answers,
    }
    files.write_json(output / "tables.json", document)
    tables.measures(curves).savefig(output / "measures.png", dpi=110)
    tables.most_uncertain(curves, test_set).savefig(
        output / "uncertain.png", dpi=110, bbox_inches="tight"
    )
    print(f"wrote {output / 'tables.json'}, measures.png and uncertain.png")
    found = {
        column: {short: means[name][i] for name, short in ROWS.items()}
        for i, column in enumerate(COLUMNS)
    }
    gate.require(_requirements(), found)


def _one_seed(
    seed: int, train_set: jaxrob.Dataset, test_set: jaxrob.Dataset
) -> dict[str, Any]:
    key, mlp_key, bnn_key = _keys(seed)
    start = time.perf_counter()
    module = networks.MLP(num_classes=len(datasets.class_names(train_set)))
    how = {"mesh": hosts.mesh(), "progress": _PROGRESS.value}
    mlp = training.fit(module, train_set, key=mlp_key, epochs=_EPOCHS.value, **how)
    middle = time.perf_counter()
    bnn = _bayesian(train_set, bnn_key, _PRIOR_SCALE.value)
    end = time.perf_counter()

    def assess(
        networks: tuple[jaxrob.Classifier, ...], some: Sequence[Any], name: str = ""
    ) -> Measured:
        plain, bayesian = (
            _curves(network, some, test_set, key, f"seed{seed}{name}-{kind}")
            for network, kind in zip(networks, ("mlp", "bnn"))
        )
        return measuring.both(plain, bayesian, some, _ALPHA.value)

    ours = assess((mlp, bnn), measuring.in_order())
    accuracy = ours.nominal
    print(
        f"seed {seed}: MLP {accuracy['MLP']:.2%} in {middle - start:.0f} s, BNN "
        f"{_decided(accuracy)} in {end - middle:.0f} s"
    )
    read = assess((mlp, bnn), [reading for _, reading in authors.READINGS])
    theirs = (
        authors.fit_mlp(train_set, mlp_key, _PROGRESS.value),
        authors.fit_bnn(train_set, bnn_key, _SAMPLES.value),
    )
    # Each column by the last of its readings.
    closest = dict(zip(COLUMNS, measuring.in_order())) | dict(authors.READINGS)
    trained = assess(theirs, list(closest.values()), "-theirs")
    their_accuracy = trained.nominal
    print(
        f"        {TRAINED_AS_THEIRS}: MLP {their_accuracy['MLP']:.2%}, BNN "
        f"{_decided(their_accuracy)}"
    )
    gains = {
        f"gain over {over}": ours.rows["BNN, unknown"] - ours.rows[over]
        for over in ("MLP", "BNN")
    }
    return {
        "accuracy": accuracy,
        "robustness": ours.rows | gains,
        "explained": _explained(ours, read, trained),
        "their_accuracy": their_accuracy,
        "bnn": ours.unknown,
    }


def _keys(seed: int) -> jax.Array:
    """Returns the keys of the assessment, the plain network and the Bayesian one."""
    return jax.random.split(jax.random.key(seed), 3)


def _bayesian(
    train_set: jaxrob.Dataset, key: jax.Array, prior_scale: float
) -> jaxrob.Classifier:
    how = _SAMPLES.value, _BNN_EPOCHS.value, _PROGRESS.value, prior_scale
    return measuring.fit(train_set, key, *how)


def _curves(
    classifier: jaxrob.Classifier,
    some: Sequence[jaxrob.Alteration],
    test_set: jaxrob.Dataset,
    key: jax.Array,
    name: str,
) -> list[jaxrob.Curve]:
    how = _LEVELS.value, key, f"{_DATASET.value}-{name}", _PROGRESS.value
    return measuring.evaluate(classifier, test_set, some, *how)


def _explained(ours: Measured, read: Measured, trained: Measured) -> list[Explained]:
    def values(measured: Measured, i: int) -> dict[str, float]:
        return {name: float(measured.rows[name][i]) for name in ROWS}

    found = []
    for i, column in enumerate(COLUMNS):
        found.append(Explained(column, "as in the table above", values(ours, i)))
        readings = [
            Explained(column, reading.name, values(read, j))
            for j, (of, reading) in enumerate(authors.READINGS)
            if of == column
        ]
        found += readings
        what = f"that, {TRAINED_AS_THEIRS}" if readings else TRAINED_AS_THEIRS
        found.append(Explained(column, what, values(trained, i)))
    return found


def _priors(
    train_set: jaxrob.Dataset, test_set: jaxrob.Dataset
) -> dict[float, dict[str, Any]]:
    found = {}
    key, _, bnn_key = _keys(0)
    some = measuring.in_order()
    for scale in _PRIOR_SCALES.value:
        bnn = _bayesian(train_set, bnn_key, scale)
        curves = _curves(bnn, some, test_set, key, f"prior{scale:g}")
        measured = measuring.of_bayesian(curves, some, _ALPHA.value)
        print(f"\nprior scale {scale:g}: {_decided(measured.nominal)}")
        for name, values in measured.rows.items():
            print(tables.line(name, 100 * values))
        found[scale] = measured.nominal | measured.rows
    return found


def _decided(nominal: dict[str, float]) -> str:
    return (
        f"{nominal['BNN']:.2%} right ({nominal['unknown']:.2%} of the "
        f"{nominal['decided']:.1%} decided)"
    )


if __name__ == "__main__":
    app.run(main)
