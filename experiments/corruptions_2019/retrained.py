"""Networks retrained against some of the corruptions, tested on all."""

import functools
import pathlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from common import classifiers, files, hosts, intervals, ranges
from flax import linen

import jaxrob
from corruptions_2019.cells import row
from jaxrob import retraining, training

METHODS = ("da", "lda", "worst_level")
ORIGINAL = "original"


class Setting(NamedTuple):
    """Settings that all networks share."""

    train: jaxrob.Dataset  # the training set
    # The images on which the original's weaknesses are measured.
    validation: jaxrob.Dataset
    test: jaxrob.Dataset  # the test set
    alterations: Mapping[str, jaxrob.Alteration]  # the corruptions, by name
    trained_on: Sequence[str]  # names of those that are trained on
    network: str  # the network's name
    images_seen: int  # the number of images that each network is trained on
    batch_size: int  # images in a step of the training
    threshold: float  # the lowest accuracy accepted
    levels: int  # evenly spaced ones of each corruption
    folder: pathlib.Path  # the folder of networks and answers
    progress: bool  # whether progress bars are shown

    @property
    def groups(self) -> dict[str, list[str]]:
        """Returns the names of the corruptions in the training, and of the others."""
        both = {"trained on": [], "left out": []}
        for name in self.alterations:
            is_left_out = name not in self.trained_on
            both["left out" if is_left_out else "trained on"].append(name)
        return both


def one_seed(
    setting: Setting, module: linen.Module, methods: Sequence[str], seed: int
) -> dict[str, Any]:
    test_key, train_key, weak_key = jax.random.split(jax.random.key(seed), 3)
    folder = setting.folder / f"seed{seed}"
    trained = [setting.alterations[name] for name in setting.groups["trained on"]]
    original = _kept_network(
        setting,
        module,
        folder / ORIGINAL,
        functools.partial(training.fit, module, setting.train, key=train_key),
    )
    weak = functools.cache(lambda: _weak(setting, original, trained, weak_key))
    found = {ORIGINAL: _answers(setting, original, folder / ORIGINAL, test_key)}
    for name in methods:
        # Only LDA needs the original's weaknesses.
        classifier = _kept_network(
            setting,
            module,
            folder / name,
            functools.partial(
                _retrain, setting, module, trained, name, weak, train_key
            ),
        )
        found[name] = _answers(setting, classifier, folder / name, test_key)
    return found


def _retrain(
    setting: Setting,
    module: linen.Module,
    trained: Sequence[jaxrob.Alteration],
    name: str,
    weak: Callable[[], list[float]],
    key: jax.Array,
    **schedule: Any,
) -> jaxrob.Classifier:
    given = {"key": key, **schedule}
    if name == "lda":
        return retraining.limited_data_augmentation(
            module, setting.train, trained, robustness=weak(), **given
        )
    retrain = {"da": retraining.data_augmentation}.get(name, retraining.worst_level)
    return retrain(module, setting.train, trained, **given)


def _weak(
    setting: Setting,
    original: jaxrob.Classifier,
    trained: Sequence[jaxrob.Alteration],
    key: jax.Array,
) -> list[float]:
    found = _assess(setting, original, setting.validation, trained, key)
    values = [one.robustness for one in found]
    text = ", ".join(f"{one.alteration} {one.robustness:.0%}" for one in found)
    print(f"  of the validation images the original's robustness is: {text}")
    return values


def _kept_network(
    setting: Setting,
    module: linen.Module,
    path: pathlib.Path,
    train: Callable[..., jaxrob.Classifier],
) -> jaxrob.Classifier:
    def trained() -> jaxrob.Classifier:
        start = time.perf_counter()
        steps = setting.images_seen // setting.batch_size
        found = train(
            images_seen=setting.images_seen,
            batch_size=setting.batch_size,
            optimizer=classifiers.one_cycle(setting.network, steps),
            mesh=hosts.mesh(),
            progress=setting.progress,
        )
        seconds = time.perf_counter() - start
        print(f"  {path.name} trained in {seconds:.1f} s", flush=True)
        return found

    shape = setting.train.images.shape[1:]
    return classifiers.kept(path.with_suffix(".msgpack"), module, shape, trained)


def _answers(
    setting: Setting, classifier: jaxrob.Classifier, path: pathlib.Path, key: jax.Array
) -> dict[str, Any]:
    names = list(setting.alterations)
    settings = {
        "corruptions": names,
        "num_images": len(setting.test),
        "levels": setting.levels,
        "threshold": setting.threshold,
    }

    def measure() -> dict[str, Any]:
        some = [*setting.alterations.values()]
        assessments = _assess(setting, classifier, setting.test, some, key)
        rows = [row(name, one) for name, one in zip(names, assessments)]
        return {
            "clean": rows[0]["clean error"],
            "errors": {r["corruption"]: float(np.mean(r["errors"])) for r in rows},
            "robustness": {r["corruption"]: r["robustness"] for r in rows},
        }

    return files.kept(path.with_suffix(".json"), settings, measure)


def _assess(
    setting: Setting,
    classifier: jaxrob.Classifier,
    dataset: jaxrob.Dataset,
    some: Sequence[jaxrob.Alteration],
    key: jax.Array,
) -> Sequence[jaxrob.Assessment]:
    return ranges.assessed(
        classifier, dataset, some, setting.threshold, setting.levels, key,
        rule="linear", progress=setting.progress,
    )  # fmt: skip


def lines(
    found: Mapping[str, Sequence[dict[str, Any]]], groups: Mapping[str, Sequence[str]]
) -> list[str]:
    text = []
    for group, names in groups.items():
        if not names:
            continue
        text.append(f"{group}: {', '.join(names)}")
        text.append(f"  {'':12}{'error':>8} {'change [points]':26}robustness  change")
        for method, seeds in found.items():
            parts = [f"  {method:12}"]
            for quantity in ("errors", "robustness"):
                values = _means(seeds, quantity, names)
                before = _means(found[ORIGINAL], quantity, names)
                change = intervals.in_points(values - before)
                change = "" if method == ORIGINAL else change
                parts.append(f"{values.mean():8.2%} {change:26}")
            text.append("".join(parts).rstrip())
    clean = {
        name: np.mean([one["clean"] for one in some]) for name, some in found.items()
    }
    text.append(
        "error on unaltered images: "
        + ", ".join(f"{name} {value:.2%}" for name, value in clean.items())
    )
    return text


def _means(
    seeds: Sequence[dict[str, Any]], quantity: str, names: Sequence[str]
) -> np.ndarray:
    return np.array([np.mean([one[quantity][name] for name in names]) for one in seeds])
