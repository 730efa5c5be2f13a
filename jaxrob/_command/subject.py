"""What a run works on, and how: network and pictures, hosts, images, passes."""

import contextlib
import dataclasses
import io
import pathlib
import re
import sys
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh

import jaxrob
from jaxrob import data
from jaxrob._arguments.texts import computing, counted, was_computing
from jaxrob._assessment.criterion import ratio_per_image
from jaxrob._classifiers.network import OnHost, Preprocessed, on_host
from jaxrob._command.define import Refused, Values, check_unplanned
from jaxrob._command.network import (
    identified,
    load_images,
    load_network,
    read_class_names,
)
from jaxrob._command.programs import keep_programs
from jaxrob._dataset import check_labels_below
from jaxrob._engine.preflight import check_class_names
from jaxrob._engine.queue import shared_size
from jaxrob._engine.step import UNALTERED
from jaxrob.alterations._recorded import Recorded
from jaxrob.reporting import Plan, Requirement
from jaxrob.reporting._requirements import AT_LEAST
from jaxrob.strategies import ASAP, FewImages, Including, Strategy, Uniform

# The epochs in which a small network learns the digits to an accuracy of 95 %.
_EPOCHS = 20


class Subject(NamedTuple):
    classifier: jaxrob.Classifier  # The network
    dataset: jaxrob.Dataset  # The pictures

    @property
    def name(self) -> str:
        return self.classifier.name or "network"

    @property
    def class_names(self) -> tuple[str, ...] | None:
        return self.classifier.class_names or self.dataset.class_names


def load_subject(values: Values) -> Subject:
    if values.classifier is None:
        return _digits(values)
    if values.images is None:
        raise Refused(
            "--images must say which pictures: a folder, an archive, an .npz file, or "
            "digits"
        )
    names = read_class_names(values)
    classifier = load_network(values, names)
    dataset = load_images(values, names)
    found = Subject(classifier, dataset)
    _check(found)
    shape = dataset.images.shape[1:]
    return Subject(identified(classifier, values.classifier, shape), dataset)


def journal_of(values: Values, kind: str, subject: Subject) -> str | None:
    if values.journal is None:
        return None
    folder = pathlib.Path(values.journal)
    folder.mkdir(parents=True, exist_ok=True)
    name = re.sub(r"[^\w.]+", "-", f"{kind}-{subject.name}")
    return str(folder / f"{name}.journal")


def announce(subject: Subject) -> None:
    kind = jax.devices()[0].device_kind
    height, width, channels = subject.dataset.images.shape[1:]
    print(
        f"{subject.name} on {subject.dataset.name}: "
        f"{counted(len(subject.dataset), 'image')} of {height} x {width} x {channels}, "
        f"on {kind}",
        flush=True,
    )


def _digits(values: Values) -> Subject:
    for name in ("images", "outputs", "scale", "mean", "std", "channels_first"):
        if values[name].present and values[name].value != "digits":
            raise Refused(f"--{name} needs --classifier, the network it belongs to")
    values["images"].value = "digits"
    from jaxrob import networks, training

    dataset = load_images(values, None)
    print("training a small network on the embedded digits", flush=True)
    with computing():
        classifier = training.fit(
            networks.MLP(),
            data.digits("train"),
            key=jax.random.key(values.seed),
            epochs=_EPOCHS,
            progress=values.progress,
        )
    name = values.name or "small network trained on digits/train"
    return Subject(dataclasses.replace(classifier, name=name), dataset)


def _check(subject: Subject) -> None:
    """Rejects a network and pictures that do not go together, by the flags' names."""
    classifier, dataset = subject
    height, width, channels = shape = dataset.images.shape[1:]
    function: Any = on_host(classifier.apply_fn) or classifier.apply_fn
    is_sized = isinstance(function, Preprocessed | OnHost)
    size: Any = function.preprocessing.size if is_sized else None
    if size not in (None, (height, width)):
        raise Refused(
            f"{subject.name} takes images of {size[0]} x {size[1]} pixels; "
            f"those of {dataset.name} have {height} x {width}. Say "
            f"--size={size[0]},{size[1]}, or --resize and --crop"
        )
    try:
        num_classes = classifier.num_classes(shape)
    except ValueError as error:
        other, flag = (1, "grey") if channels == 3 else (3, "rgb")
        with contextlib.suppress(ValueError):
            classifier.num_classes((height, width, other))
            raise Refused(
                f"{subject.name} takes pictures that are {flag}, of channels: {other}; "
                f"those of {dataset.name} have {channels}. Say --channels={flag}"
            ) from error
        raise
    if dataset.labels is not None:
        check_class_names(classifier, dataset, num_classes)
        check_labels_below(
            np.asarray(dataset.labels), num_classes, "labels", dataset.class_names
        )


_FEW = 16


def first_look(
    subject: Subject,
    seed: int,
    strategy: Strategy | None = None,
    batch_size: int | None = None,
) -> None:
    """Rejects a network whose outputs are NaN, or not what `--outputs` declares."""
    classifier, dataset = subject
    # From all over the data, because sorted folders start with one class.
    few = np.unique(np.linspace(0, len(dataset) - 1, _FEW).astype(int))
    key, size = jax.random.key(seed), None
    if strategy is not None:
        size = shared_size(classifier, dataset, batch_size, _levels(strategy)[0])
    try:
        with warnings.catch_warnings():
            # They come again from the work itself.
            warnings.simplefilter("ignore", jaxrob.RobustnessWarning)
            jaxrob.evaluate(
                classifier, dataset[few], UNALTERED, [0.0], key=key, batch_size=size
            )
    except ValueError as error:
        if not was_computing(error):
            raise
        found = f"{subject.name}, unaltered: {error}"
        if classifier.outputs in ("probabilities", "sigmoid"):
            about = f"--outputs={classifier.outputs}: {found}, or --outputs=scores"
            raise Refused(about) from error
        raise FloatingPointError(
            f"{found}. Look at the network, and at what it expects (--scale, --mean, "
            "--std)"
        ) from error


_NAMES = ("coordinator_address", "num_processes", "process_id")


def join_hosts(values: Values) -> None:
    """Joins the other processes, and sets the folder of compiled programs."""
    # Must be called before anything uses a device.
    given = [getattr(values, name) for name in _NAMES]
    if any(value is not None for value in given):
        if any(value is None for value in given):
            raise Refused(f"--{', --'.join(_NAMES)} go together; got {given}")
        jax.distributed.initialize(
            values.coordinator_address, values.num_processes, values.process_id
        )
        if jax.process_index():
            sys.stdout = io.StringIO()
    keep_programs(values.compilation_cache)


def mesh_of_all() -> Mesh | None:
    several = jax.process_count() > 1
    return Mesh(np.array(jax.devices()), ("images",)) if several else None


def few_images_of(values: Values, plan: Plan | None) -> FewImages | None:
    found: Any = values
    if plan is not None and plan.wants_few:
        check_unplanned(values, "half_width", "budget", "curtail")
        found = plan
    half_width, budget, curtail = found.half_width, found.budget, found.curtail
    if half_width is None and budget is None and not curtail:
        return None
    levels = ASAP() if values.levels is None else Uniform(values.levels)
    try:
        return FewImages(levels, half_width, budget, curtail)
    except ValueError as error:
        raise Refused(f"--{error}") from error


def with_requirements(
    few: FewImages, requirements: Sequence[Requirement], earlier: Sequence[str]
) -> FewImages:
    # The highest bound, if all are such bounds: a lower end is sharpest at the end.
    flags = "--half_width, --budget and --curtail"
    if earlier:
        raise Refused(
            "--regressions and --earlier compare the answers on every image at every "
            f"level, which {flags} leave out; leave these out, or those"
        )
    for one in requirements:
        if one.quantity not in ("robustness", "robustness.low"):
            raise Refused(
                f"--require: {one.quantity} needs all images; leave it out, or "
                f"{flags}. What goes with them: robustness, which ends each alteration "
                "as soon as it is certain, and robustness.low, which does not"
            )
    # One bound ends all alterations.
    if any(
        one.quantity != "robustness" or one.sign != AT_LEAST or one.alteration
        for one in requirements
    ):
        return few
    least = max((one.bound for one in requirements), default=None)
    return dataclasses.replace(few, required=least)


def check_measure(measure: str) -> None:
    try:
        ratio_per_image(measure)
    except ValueError as error:
        raise Refused(f"--{error}") from error


# Levels of ASAP: least, usual, and most unless a curve crosses many times.
_OF_ASAP = (9, 16, 30)


def print_passes(
    subject: Subject, altered: Sequence[jaxrob.Alteration], strategy: Strategy
) -> None:
    """Prints the passes of an assessment; of few images, the most of them."""
    few = strategy if isinstance(strategy, FewImages) else None
    strategy = few.strategy if few is not None else strategy
    images = len(subject.dataset)
    fewest, number, most = _levels(strategy)
    about = "" if fewest == most else "about "
    levels = f"{about}{number} levels{f' ({fewest} to {most})' * bool(about)}"
    recorded = [one for one in altered if isinstance(one, Recorded)]
    for one in recorded:
        print(f"  {one.name}: {images} images x {len(one.pictures.at)} recorded levels")
    if not (altered := [one for one in altered if one not in recorded]):
        return
    print(ranges(altered))
    passes = images * number * len(altered)
    print(
        f"{counted(images, 'image')} x {levels} x "
        f"{counted(len(altered), 'alteration')}: {about}{passes:,} forward passes"
    )
    if few is not None:
        passes = min(passes, few.budget or passes)
        print(f"{_said(few)}: at most about {passes:,} of these")


def ranges(altered: Sequence[jaxrob.Alteration]) -> str:
    lines = (f"  {a.name} [{a.lower:g}, {a.upper:g}] {a.unit}" for a in altered)
    return "\n".join(line.rstrip() for line in lines)


def _levels(strategy: Strategy) -> tuple[int, int, int]:
    if isinstance(strategy, Including):
        fewest, number, most = _levels(strategy.strategy)
        more = len(strategy.levels)
        return fewest + more, number + more, most + more
    if isinstance(strategy, Uniform):
        return strategy.n, strategy.n, strategy.n
    assert isinstance(strategy, ASAP)  # The command has no other strategies.
    return _OF_ASAP


def _said(few: FewImages) -> str:
    said = [] if few.half_width is None else [f"--half_width={few.half_width:g}"]
    said += [] if few.budget is None else [f"--budget={few.budget}"]
    return " ".join(said + ["--curtail"] * few.curtail)
