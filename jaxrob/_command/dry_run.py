"""The cost of a run, estimated by a short trial."""

import dataclasses
import time
from collections.abc import Callable, Sequence

import jax
import numpy as np

import jaxrob
from jaxrob._arguments.counted import counted
from jaxrob._assessment.expected import expected_levels
from jaxrob._command.few_images import FewImagesFlags
from jaxrob._command.subject import Subject
from jaxrob._engine.cost import (
    Cost,
    duration,
    passes_in_words,
    seconds_in_words,
)
from jaxrob.strategies import Strategy

# A trial of this duration is accurate enough.
_ENOUGH_SECONDS = 0.5
_FIRST_IMAGES = _FIRST_DRAWS = 16
_GROWTH = 8


def of_levels(
    subject: Subject,
    altered: Sequence[jaxrob.Alteration],
    strategy: Strategy,
    key: jax.Array,
    few: FewImagesFlags | None = None,
) -> None:
    """Prints the forward passes of an assessment, and about how long they take.

    With few images the passes are at most those of all images, or the budget; how many
    fewer is known only after the search.
    """
    images, asked = len(subject.dataset), expected_levels(strategy)
    assert asked is not None  # The command has no other strategies.
    fewest, number, most = asked
    is_known = fewest == most
    levels = f"{number} levels"
    if not is_known:
        levels = f"about {levels} ({fewest} to {most})"
    for one in altered:
        print(f"  {one.name} [{one.lower:g}, {one.upper:g}] {one.unit}".rstrip())
    passes = images * number * len(altered)
    about = "" if is_known else "about "
    print(
        f"{counted(images, 'image')} x {levels} x "
        f"{counted(len(altered), 'alteration')}: {about}{passes:,} forward passes"
    )
    at_most = "about"
    if few is not None:
        passes = min(passes, few.budget or passes)
        at_most = "at most about"
        print(f"{_said(few)}: at most about {passes:,} of these")
    each, once = _trial(subject, altered[0], key)
    print(f"trial: {1 / each:,.0f} passes a second, {once:.1f} s to compile")
    print(f"time: {at_most} {duration(len(altered) * once + passes * each)}")


def of_draws(
    subject: Subject,
    cost: Cost,
    draw: Callable[[jaxrob.Dataset, int], object],
    num_samples: int,
) -> None:
    """Prints the same for RoMA.

    Args:
      subject: the network and the pictures.
      cost: of the run.
      draw: makes so many plain draws around some pictures.
      num_samples: the plain draws of the run for each.
    """
    print(
        f"{len(subject.dataset)} images: {passes_in_words(cost)} forward passes",
        flush=True,
    )
    each = _trial_of_draws(subject.dataset, draw, num_samples)
    print(f"trial: {1 / each:,.0f} passes a second")
    print(f"time: {seconds_in_words(cost, each)}, compilation apart")
    if cost.note is not None:
        print(cost.note)


def _said(few: FewImagesFlags) -> str:
    """Returns the flags that ask for few images."""
    said = [] if few.half_width is None else [f"--half_width={few.half_width:g}"]
    said += [] if few.budget is None else [f"--budget={few.budget}"]
    return " ".join(said + ["--curtail"] * few.curtail)


def _trial(
    subject: Subject, alteration: jaxrob.Alteration, key: jax.Array
) -> tuple[float, float]:
    """Returns the seconds of a forward pass, and of a compilation."""
    _say_trial()
    number = min(_FIRST_IMAGES, len(subject.dataset))
    while True:
        few = subject.dataset[:number]
        if few.labels is None:
            few = dataclasses.replace(few, labels=np.zeros(len(few), np.int32))
        first = _seconds(subject, few, alteration, (0.2, 0.4), key)
        second = _seconds(subject, few, alteration, (0.3, 0.5), key)
        if second >= _ENOUGH_SECONDS or number == len(subject.dataset):
            return second / (2 * number), max(first - second, 0.0)
        number = min(_GROWTH * number, len(subject.dataset))


def _trial_of_draws(
    dataset: jaxrob.Dataset,
    draw: Callable[[jaxrob.Dataset, int], object],
    num_samples: int,
) -> float:
    """Returns the seconds of a forward pass: of more draws, then around more images."""
    _say_trial()
    images, draws = 1, min(_FIRST_DRAWS, num_samples)
    while True:
        draw(dataset[:images], draws)  # Compiles.
        start = time.perf_counter()
        draw(dataset[:images], draws)
        seconds = time.perf_counter() - start
        is_all = draws == num_samples and images == len(dataset)
        if seconds >= _ENOUGH_SECONDS or is_all:
            return seconds / (images * draws)
        if draws == num_samples:
            images = min(_GROWTH * images, len(dataset))
        draws = min(_GROWTH * draws, num_samples)


def _say_trial() -> None:
    print("a short trial of the network, for its pace", flush=True)


def _seconds(
    subject: Subject,
    few: jaxrob.Dataset,
    alteration: jaxrob.Alteration,
    shares: tuple[float, float],
    key: jax.Array,
) -> float:
    width = alteration.upper - alteration.lower
    levels = [alteration.lower + share * width for share in shares]
    start = time.perf_counter()
    jaxrob.evaluate(subject.classifier, few, alteration, levels, key=key)
    return time.perf_counter() - start
