r"""Trains a small network and assesses its robustness to eight alterations.

    python experiments/quickstart.py
    python experiments/quickstart.py --dataset=mnist --data_dir=... --model=mlp \
        --alterations=asap_2022 --levels=101 --threshold=0.9

Prints one table and writes, into the folder `--output`, a figure with a panel for each
alteration and one JSON file for each assessment. `--require` and `--no_worse_than`
make it a gate of a continuous integration:

    python experiments/quickstart.py --require="robustness.low>=0.2" \
        --no_worse_than=results/last_week
"""

import time

import assessment_files
import gate
import hosts
import jax
import journals
import models
import numpy as np
import startup
from absl import app, flags
from wide_ranges import WIDE

import jaxrob
from jaxrob import alterations, data, reporting

_ALTERATIONS = {
    "digits": lambda: WIDE,
    "cnn_2020": alterations.presets.cnn_2020,
    "asap_2022": alterations.presets.asap_2022,
    "bnn_2024": alterations.presets.bnn_2024,
}

_DATASET = flags.DEFINE_enum("dataset", "digits", data.NAMES, "Data set.")
_DATA_DIR = flags.DEFINE_string(
    "data_dir", None, "Folder of data sets; by default $JAXROB_DATA_DIR."
)
_MODEL = flags.DEFINE_enum("model", "mnist_cnn", models.NAMES, "Network.")
_EPOCHS = flags.DEFINE_integer(
    "epochs", None, "Training epochs; by default a number for the network.", 1
)
_NUM_IMAGES = flags.DEFINE_integer(
    "num_images", 1000, "Test images at most, evenly picked.", 1
)
_CHOICE = flags.DEFINE_enum(
    "alterations", "digits", tuple(_ALTERATIONS), "Which alterations and ranges."
)
_LEVELS = flags.DEFINE_integer("levels", 41, "Levels of each alteration.", 2)
_THRESHOLD = flags.DEFINE_float("threshold", 0.8, "Lowest accepted accuracy.", 0, 1)
_SEED = flags.DEFINE_integer("seed", 0, "Random seed.", 0)
_OUTPUT = flags.DEFINE_string("output", "results/quickstart", "Folder written to.")
_PROGRESS = flags.DEFINE_bool("progress", True, "Whether progress bars are shown.")
_requirements = gate.define_require("robustness", "robustness.low")
_NO_WORSE_THAN = gate.define_no_worse_than()


def main(argv):
    startup.start(argv)
    output = hosts.output(_OUTPUT.value)
    chosen = _ALTERATIONS[_CHOICE.value]()
    earlier = gate.earlier(_NO_WORSE_THAN, chosen)
    train_key, assess_key = jax.random.split(jax.random.key(_SEED.value))

    test_set = data.load(_DATASET.value, "test", _DATA_DIR.value)
    if _DATASET.value == "idc":
        # The patches have no training set of their own.
        train_set, test_set = test_set[::2], test_set[1::2]
    else:
        train_set = data.load(_DATASET.value, "train", _DATA_DIR.value)
    stride = -(-len(test_set) // _NUM_IMAGES.value)
    test_set = test_set[::stride]
    print(
        f"{_MODEL.value} on {train_set.name}: {len(train_set)} images to train on, "
        f"{len(test_set)} to test with, on {jax.devices()[0].device_kind}"
    )

    start = time.perf_counter()
    classifier = models.train(
        _MODEL.value, train_set, train_key, _EPOCHS.value, _PROGRESS.value
    )
    print(f"trained in {time.perf_counter() - start:.1f} s")

    assessments = jaxrob.assess(
        classifier,
        test_set,
        chosen,
        _THRESHOLD.value,
        strategy=jaxrob.strategies.Uniform(_LEVELS.value),
        key=assess_key,
        journal=journals.path(f"{_DATASET.value}-{_MODEL.value}"),
        mesh=hosts.mesh(),
        progress=_PROGRESS.value,
    )
    print(reporting.table(assessments))

    assessment_files.write(output, assessments)
    figure = reporting.figure(
        assessments,
        chosen,
        np.asarray(test_set.images[min(3, len(test_set) - 1)]),
        assess_key,
    )
    figure.savefig(output / "robustness.png", dpi=110)
    print(f"wrote {output / 'robustness.png'} and {len(assessments)} JSON files")
    gate.require_of_assessments(_requirements(), assessments, earlier)


if __name__ == "__main__":
    app.run(main)
