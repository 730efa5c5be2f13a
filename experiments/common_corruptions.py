r"""The common corruptions of CIFAR-10-C: a network's errors, and where it fails.

    python experiments/common_corruptions.py
    python experiments/common_corruptions.py --dataset=cifar10 --data_dir=... \
        --network=resnet --num_images=10000 --frost=FOLDER
    python experiments/common_corruptions.py --replay=unaggregated_results.csv

Trains a network, and prints its error at the benchmark's 15 corruptions x 5 severities
(Hendrycks and Dietterich, 2019), their mean, and the severity at which its accuracy
falls below `--threshold`, with the 95 % interval that the finite test set leaves.
A figure shows the curves, each with a strip of pictures at severities 0 to 5.

`--retrain=da,lda,worst_level` trains, for each seed, a network and retrains it against
the corruptions `--trained_on`, each on equally many images without other augmentation;
and prints errors and robustness before and after, on the corruptions of the training
and on the others. LDA leaves out the corruptions to which the original is robust, as
measured on a tenth of the training set on which no network is trained.

`--replay=FILE` needs no network and no images: it reads a table as RobustBench
publishes them (model_info/*/corruptions/unaggregated_results.csv) and prints each
model's robustness with the bound that its six points leave. It assumes that accuracy is
monotone between one severity and the next.

With the defaults it takes a minute or two on two CPU cores: digits in colour, with a
border that makes them 32 px. Without frost's pictures frost is left out. JSON, figures
and networks go into the folder `--output`; another run does not train again.
"""

import pathlib
import time
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from absl import app, flags
from common import classifiers, datasets, define, files, gate, journals, ranges, startup
from corruptions_2019 import cells, replay, retrained

import jaxrob
from jaxrob import data, reporting

_EPOCHS_USUAL = {"digits": 10, "cifar10": 24}
_THRESHOLDS = {"digits": 0.7, "cifar10": 0.7}
_THRESHOLD_OF_REPLAY = 0.5
# At most this many images on which LDA measures the original's weaknesses.
_VALIDATION = 5000

_DATASET = define.dataset(*_EPOCHS_USUAL)
_DATA_DIR = define.data_dir()
_NETWORK = define.network(default="strided_cnn")
_EPOCHS = define.epochs_or_usual()
_NUM_TRAIN = define.num_train(60000)
_NUM_IMAGES = define.num_images(500, "Test images at most, evenly picked.")
_CORRUPTIONS = define.choices(
    "corruptions", list(cells.CORRUPTIONS), cells.CORRUPTIONS, "Which"
)
_FROST = flags.DEFINE_string(
    "frost", None, "Folder of the pictures of frost; by default an installed package's."
)
_LEVELS = flags.DEFINE_integer(
    "levels", 16, "Evenly spaced levels of each corruption: 6, 11, 16, ...", 6
)
flags.register_validator(
    "levels", lambda n: n % 5 == 1, message="must be 1 more than a multiple of 5"
)
_THRESHOLD = define.threshold(
    None, "Lowest accepted accuracy; by default 0.7, in a replay 0.5."
)
_RETRAIN = define.choices("retrain", [], retrained.METHODS, "Ways to retrain")
_TRAINED_ON = define.choices(
    "trained_on",
    ["gaussian_noise", "defocus_blur", "brightness", "contrast", "jpeg_compression"],
    cells.CORRUPTIONS,
    "Corruptions to retrain against",
)
_IMAGES_SEEN = flags.DEFINE_integer(
    "images_seen", 30_000, "Images that each retrained network is trained on.", 1
)
_BATCH_SIZE = flags.DEFINE_integer(
    "batch_size", 128, "Images in a step of retraining.", 1
)
_REPLAY = flags.DEFINE_string("replay", None, "Table of published accuracies.")
_SEED = define.seed()
_SEEDS = flags.DEFINE_integer("seeds", 1, "Seeds of retraining, from seed on.", 1)
_OUTPUT = define.output("results/common_corruptions")
_PROGRESS = define.progress()
_requirements = gate.define_require("robustness", "robustness.low")


def main(argv: Sequence[str]) -> None:
    startup.start(argv)
    output = files.output_folder(_OUTPUT.value)
    if _REPLAY.value is not None:
        _replay(pathlib.Path(_REPLAY.value))
        return
    some = cells.alterations(_CORRUPTIONS.value, _FROST.value)
    whole = _load("test")
    test_set = datasets.evenly_picked(whole, _NUM_IMAGES.value)
    if _RETRAIN.value:
        _retrained(some, test_set)
    else:
        _table(some, test_set, output)


def _load(split: str) -> jaxrob.Dataset:
    """Loads colour images of 32 px: CIFAR-10's, or digits with a border."""
    found = data.load(_DATASET.value, split, _DATA_DIR.value)
    if _DATASET.value != "digits":
        return found
    images = np.pad(found.images, ((0, 0), (2, 2), (2, 2), (0, 0)), "edge")
    images = images.repeat(3, axis=3)
    return jaxrob.Dataset(images, found.labels, found.class_names, found.name)


def _title() -> str:
    return f"{_DATASET.value}-{_NETWORK.value}"


def _threshold() -> float:
    usual = _THRESHOLDS[_DATASET.value]
    return usual if _THRESHOLD.value is None else _THRESHOLD.value


def _table(
    some: Mapping[str, jaxrob.Alteration],
    test_set: jaxrob.Dataset,
    output: pathlib.Path,
) -> None:
    _, key = jax.random.split(jax.random.key(_SEED.value))
    epochs = _EPOCHS.value or _EPOCHS_USUAL[_DATASET.value]
    train_set = datasets.evenly_picked(_load("train"), _NUM_TRAIN.value)
    folder = pathlib.Path(_OUTPUT.value, "networks")
    how = folder, _SEED.value, _DATASET.value, _PROGRESS.value
    kept = classifiers.at_epochs(_NETWORK.value, train_set, [epochs], *how)
    classifier = kept[epochs]
    start = time.perf_counter()
    assessments = ranges.assessed(
        classifier, test_set, [*some.values()], _threshold(), _LEVELS.value, key,
        journals.path(_title()), rule="linear", progress=_PROGRESS.value,
    )  # fmt: skip
    seconds = time.perf_counter() - start
    by_name = dict(zip(some, assessments))
    rows = [cells.row(name, one) for name, one in by_name.items()]
    document = {
        "dataset": _DATASET.value,
        "network": _NETWORK.value,
        "seed": _SEED.value,
        "num_images": len(test_set),
        "threshold": _threshold(),
        "device": jax.devices()[0].device_kind,
        "seconds": seconds,
        "mean": cells.mean_line(by_name),
        "rows": rows,
    }
    pictures = len(some) * _LEVELS.value * len(test_set)
    print(
        f"{_title()} on {len(test_set):,} images, {document['device']}; error on "
        f"unaltered images {rows[0]['clean error']:.2%}; threshold {_threshold():g}\n"
    )
    print("\n".join(cells.lines(rows)))
    print(
        f"{document['mean']}\n{pictures:,} altered images ({_LEVELS.value} "
        f"levels) made and classified in {seconds:.1f} s, compilation included"
    )
    files.write_assessments(output, assessments)
    # The licence of frost's pictures is not stated.
    shown = {name: one for name, one in by_name.items() if name != "frost"}
    if shown:
        altered, image = [some[name] for name in shown], np.asarray(test_set.images[0])
        given = [*shown.values()], altered, image, jax.random.key(_SEED.value)
        figure = reporting.figure(*given, columns=5, num_examples=6)
        figure.savefig(output / f"{_title()}.png", dpi=110)
    files.save(_OUTPUT.value, f"{_title()}.json", document)
    gate.require_of_assessments(_requirements(), assessments)


def _retrained(some: Mapping[str, jaxrob.Alteration], test_set: jaxrob.Dataset) -> None:
    train = datasets.evenly_picked(_load("train"), _NUM_TRAIN.value)
    tenth = np.arange(len(train)) % 10 == 9
    trained_on = [name for name in some if name in _TRAINED_ON.value]
    if not trained_on:
        raise app.UsageError("--trained_on: none of them is among --corruptions")
    settings = (
        f"{_title()}-{len(train)}images-{_IMAGES_SEEN.value}seen-"
        f"{_BATCH_SIZE.value}-{'-'.join(trained_on)}"
    )
    setting = retrained.Setting(
        train=train[~tenth],
        validation=datasets.evenly_picked(train[tenth], _VALIDATION),
        test=test_set,
        alterations=some,
        trained_on=trained_on,
        network=_NETWORK.value,
        images_seen=_IMAGES_SEEN.value,
        batch_size=_BATCH_SIZE.value,
        threshold=_threshold(),
        levels=_LEVELS.value,
        folder=pathlib.Path(_OUTPUT.value, "networks", settings),
        progress=_PROGRESS.value,
    )
    module = classifiers.module(_NETWORK.value, len(datasets.class_names(train)))
    found: dict[str, list[dict[str, Any]]] = {}
    for seed in range(_SEED.value, _SEED.value + _SEEDS.value):
        print(f"seed {seed}", flush=True)
        one = retrained.one_seed(setting, module, _RETRAIN.value, seed)
        for method, answers in one.items():
            found.setdefault(method, []).append(answers)
    print("\n" + "\n".join(retrained.lines(found, setting.groups)))
    document = {
        "settings": settings,
        "seeds": [_SEED.value, _SEED.value + _SEEDS.value],
        "num_images": len(test_set),
        "threshold": _threshold(),
        "groups": setting.groups,
        "found": found,
    }
    files.save(_OUTPUT.value, f"{_title()}-retrained.json", document)


def _replay(path: pathlib.Path) -> None:
    threshold = _THRESHOLD.value
    threshold = _THRESHOLD_OF_REPLAY if threshold is None else threshold
    try:
        models = replay.read(path)
    except ValueError as error:
        raise app.UsageError(f"--replay: {error}") from error
    found = replay.table(models, threshold)
    print(f"{path.name}: {len(models)} models, threshold {threshold:g}")
    print("\n".join(replay.lines(found)))
    document = {"threshold": threshold, "models": found}
    files.save(_OUTPUT.value, "replay.json", document)


if __name__ == "__main__":
    app.run(main)
