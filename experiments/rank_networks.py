r"""Which of ten networks is the most robust: ranks with confidence, on real images.

    python experiments/rank_networks.py --data_dir=...
    python experiments/rank_networks.py --dataset=cifar10 --images_seen=200000

Trains a network plainly with three seeds, by data augmentation (DA), limited data
augmentation (LDA), network parallelization (NP), its limited form (LNP) and at worst
levels (WL), a Bayesian one (BNN), and the ensemble of the three plain ones. Each is
trained on equally many images, and all are assessed on the same test images. Prints the
tables of `jaxrob rank`, and writes into the folder `--output` a results folder for each
network and the figure `ranks.png`, which `jaxrob rank OUTPUT --figure=ranks.png` gives
as well.
"""

import functools
import time
from collections.abc import Sequence

import jax
from absl import app, flags
from common import classifiers, datasets, define, files, ranges, startup

import jaxrob
from jaxrob import alterations, bayes, data, reporting, retraining, training

_DATASET = define.dataset("mnist", "cifar10", "digits")
_DATA_DIR = define.data_dir()
_NETWORK = define.network(default="strided_cnn")
_IMAGES_SEEN = flags.DEFINE_integer(
    "images_seen", 60_000, "Images that each network is trained on.", 1
)
_NUM_TRAIN = define.num_train(10_000)
_NUM_IMAGES = define.num_images(1000, "Test images at most, evenly picked.")
_LEVELS = define.levels(11)
_THRESHOLD = define.threshold()
_OUTPUT = define.output("results/rank_networks")

_ALTERATIONS = (
    alterations.gaussian_blur(0.0, 3.0),
    alterations.gaussian_noise(0.0, 0.1),
    alterations.rotation(-60.0, 60.0, fill="edge"),
)


def main(argv: Sequence[str]) -> None:
    startup.start(argv)
    output = files.output_folder(_OUTPUT.value)
    train, test = (
        datasets.evenly_picked(data.load(_DATASET.value, part, _DATA_DIR.value), most)
        for part, most in (("train", _NUM_TRAIN.value), ("test", _NUM_IMAGES.value))
    )
    found = {}
    for name, classifier in _networks(train).items():
        found[name] = _assessed(classifier, test, 2)
        results = reporting.Results(name, test.class_names, tuple(found[name]))
        folder = output / name.lower().replace(" ", "_")
        reporting.write_results(folder, results)
    ranks = reporting.ranks(found)
    print("\n\n".join(map(reporting.rank_table, ranks)))
    reporting.rank_figure(ranks).savefig(output / "ranks.png", dpi=120)
    print(f"wrote {output}/")


def _assessed(
    classifier: jaxrob.Classifier, dataset: jaxrob.Dataset, seed: int
) -> tuple[jaxrob.Assessment, ...]:
    key, threshold = jax.random.key(seed), _THRESHOLD.value
    given = classifier, dataset, _ALTERATIONS, threshold, _LEVELS.value
    return ranges.assessed(*given, key)


def _networks(train: jaxrob.Dataset) -> dict[str, jaxrob.Classifier]:
    """Trains the networks; the limited methods measure what is weak on 500 of them."""
    module = classifiers.module(_NETWORK.value, len(datasets.class_names(train)))
    settings = {"images_seen": _IMAGES_SEEN.value, "batch_size": 128}
    plain = {}
    for seed in range(3):
        key = jax.random.key(seed)
        plain[f"plain {seed + 1}"] = training.fit(module, train, key=key, **settings)
        print(f"trained plain {seed + 1}", flush=True)
    first = plain["plain 1"]
    weak = _assessed(first, datasets.evenly_picked(train, 500), 3)
    limited = {"robustness": [one.robustness for one in weak]}
    retrained = {
        "DA": retraining.data_augmentation,
        "LDA": functools.partial(retraining.limited_data_augmentation, **limited),
        "NP": functools.partial(retraining.network_parallelization, classifier=first),
        "LNP": functools.partial(
            retraining.limited_network_parallelization, classifier=first, **limited
        ),
        "WL": retraining.worst_level,
    }
    found = dict(plain)
    for name, retrain in retrained.items():
        start = time.perf_counter()
        given = module, train, _ALTERATIONS
        found[name] = retrain(*given, key=jax.random.key(4), **settings)
        print(f"trained {name} in {time.perf_counter() - start:.0f} s", flush=True)
    epochs = max(1, round(_IMAGES_SEEN.value / len(train)))
    found["BNN"] = bayes.fit(module, train, key=jax.random.key(5), epochs=epochs)
    print("trained BNN", flush=True)
    members = [one.variables for one in plain.values()]
    return found | {"ensemble": bayes.ensemble(module, members)}


if __name__ == "__main__":
    app.run(main)
