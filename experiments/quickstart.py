r"""Trains a small network and assesses its robustness to eight alterations.

    python experiments/quickstart.py
    python experiments/quickstart.py --dataset=mnist --data_dir=... --network=mlp \
        --alterations=asap_2022 --levels=101 --threshold=0.9

It takes 20 seconds on two CPU cores. It prints one table and writes, into the folder
`--output`, a report (`report.html`), a figure with a panel for each alteration and one
JSON file for each assessment. `--require` and `--regressions` make it a gate of a
continuous integration:

    python experiments/quickstart.py --require="robustness.low>=0.2" \
        --regressions=results/last_week
"""

import datetime
import hashlib
import json
import platform
import shlex
import sys
import time
from collections.abc import Sequence

import jax
import numpy as np
from absl import app, flags
from common import (
    classifiers,
    datasets,
    define,
    files,
    gate,
    hosts,
    journals,
    ranges,
    startup,
)

import jaxrob
from jaxrob import alterations, data, reporting

_ALTERATIONS = {
    "digits": lambda: ranges.WIDE,
    "cnn_2020": alterations.presets.cnn_2020,
    "asap_2022": alterations.presets.asap_2022,
    "bnn_2024": alterations.presets.bnn_2024,
}

_DATASET = define.dataset(*data.NAMES)
_DATA_DIR = define.data_dir()
_NETWORK = define.network(classifiers.NAMES, "strided_cnn")
_EPOCHS = define.epochs_or_usual("Training epochs; by default for the network.")
_NUM_IMAGES = define.num_images(1000, "Test images at most, evenly picked.")
_CHOICE = flags.DEFINE_enum(
    "alterations", "digits", tuple(_ALTERATIONS), "Which alterations and ranges."
)
_LEVELS = flags.DEFINE_integer(
    "levels", None, "Even levels of each alteration; ASAP chooses them by default.", 2
)
_THRESHOLD = define.threshold()
_SEED = define.seed()
_OUTPUT = define.output("results/quickstart")
_PROGRESS = define.progress()
_requirements = gate.define_require("robustness", "robustness.low")
_REGRESSIONS = gate.define_regressions()


def main(argv: Sequence[str]) -> None:
    startup.start(argv, keep_programs=True)
    output = files.output_folder(_OUTPUT.value)
    chosen = _ALTERATIONS[_CHOICE.value]()
    earlier = gate.earlier(_REGRESSIONS, chosen)
    train_key, assess_key = jax.random.split(jax.random.key(_SEED.value))
    train_set, test_set = _data_sets()
    run = _run(train_set)
    print(
        f"{_NETWORK.value} on {train_set.name}: {len(train_set)} images to train on, "
        f"{len(test_set)} to test with, on {jax.devices()[0].device_kind}"
    )

    start = time.perf_counter()
    classifier = classifiers.train(
        _NETWORK.value, train_set, train_key, _EPOCHS.value, _PROGRESS.value
    )
    print(f"trained in {time.perf_counter() - start:.1f} s")

    strategy = jaxrob.strategies.ASAP()
    if _LEVELS.value is not None:
        strategy = jaxrob.strategies.Uniform(_LEVELS.value)
    assessments = jaxrob.assess(
        classifier,
        test_set,
        chosen,
        _THRESHOLD.value,
        strategy=strategy,
        key=assess_key,
        journal=journals.path(f"{_DATASET.value}-{_NETWORK.value}"),
        mesh=hosts.mesh(),
        progress=_PROGRESS.value,
    )
    print(reporting.table(assessments))

    regressions = reporting.regressions(assessments, earlier)
    results = reporting.Results(
        f"{_NETWORK.value} trained on {train_set.name}",
        test_set.class_names,
        assessments,
        pictures=tuple(
            reporting.pictures(assessment, alteration, test_set, assess_key)
            for assessment, alteration in zip(assessments, chosen)
        ),
        requirements=tuple(_requirements()),
        regressions=tuple(regressions),
        runs=(run,),
    )
    reporting.write_results(output, results)
    # From the folder alone, as `jaxrob report` does.
    report = reporting.to_html([reporting.read_results(output)])
    (output / "report.html").write_text(report, encoding="utf-8")
    image = np.asarray(test_set.images[min(3, len(test_set) - 1)])
    figure = reporting.figure(assessments, chosen, image, assess_key)
    # The picture carries its numbers.
    found = {one.alteration: one.robustness for one in assessments}
    metadata = {"Description": json.dumps(found)}
    figure.savefig(output / "robustness.png", dpi=110, metadata=metadata)
    print(f"wrote {output / 'report.html'}, robustness.png and what they are made of")
    gate.require_of_assessments(_requirements(), assessments, earlier)


def _data_sets() -> tuple[jaxrob.Dataset, jaxrob.Dataset]:
    """Returns the training set and the test set."""
    test_set = data.load(_DATASET.value, "test", _DATA_DIR.value)
    if _DATASET.value == "idc":
        # The patches have no training set of their own.
        train_set, test_set = test_set[::2], test_set[1::2]
    else:
        train_set = data.load(_DATASET.value, "train", _DATA_DIR.value)
    return train_set, datasets.evenly_picked(test_set, _NUM_IMAGES.value)


def _run(train_set: jaxrob.Dataset) -> reporting.Run:
    """How the report is made again: the command with its seed, and what it trained on.

    The digest is of the pixels, then the labels.
    """
    seed = [f"--seed={_SEED.value}"] * (not _SEED.present)
    digest = hashlib.sha256(np.asarray(train_set.images).tobytes())
    digest.update(np.asarray(train_set.labels).tobytes())
    return reporting.Run(
        shlex.join(["python", *sys.argv, *seed]),
        datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        platform.platform(),
        files=(reporting.File("trained on", train_set.name, digest.hexdigest()),),
    )


if __name__ == "__main__":
    app.run(main)
