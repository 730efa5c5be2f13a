"""How a run goes: several hosts, the compilation cache, few images, its passes."""

import dataclasses
import io
import sys
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

import jaxrob
from jaxrob._arguments.texts import counted
from jaxrob._assessment.criterion import ratio_per_image
from jaxrob._command.define import Values
from jaxrob._command.refused import Refused
from jaxrob._command.subject import Subject
from jaxrob.reporting import Plan, Requirement
from jaxrob.reporting._requirements import AT_LEAST
from jaxrob.strategies import ASAP, FewImages, Including, Strategy, Uniform

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
    if values.compilation_cache is not None:
        jax.config.update("jax_compilation_cache_dir", values.compilation_cache)
        # Compilation time is mostly hundreds of small programs of less than a second
        # each.
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)


def mesh_of_all() -> Mesh | None:
    """Returns a mesh of all devices of all processes; None for a single process."""
    if jax.process_count() == 1:
        return None
    return Mesh(np.array(jax.devices()), ("images",))


FLAGS = ("half_width", "budget", "curtail")


def few_images_of(values: Values, plan: Plan | None) -> FewImages | None:
    """Returns the search of the flags or the plan; None for all images."""
    given = [name for name in FLAGS if values[name].present]
    found: Any = values
    if plan is not None and plan.wants_few:
        if given:
            raise Refused(f"--{given[0]}: the plan says it; leave it out, or the plan")
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
    """Adds the requirement that ends the work early."""
    # This is the highest bound on the robustness, if all requirements are such bounds
    # of all alterations: the lower end of an interval is most informative if the work
    # was not ended early.
    flags = "--half_width, --budget and --curtail"
    if earlier:
        raise Refused(
            "--regressions and --earlier compare the answers on every image at every "
            f"level, which {flags} leave out; leave these out, or those"
        )
    known = ("robustness", "robustness.low")
    for one in requirements:
        if one.quantity in known:
            continue
        raise Refused(
            f"--require: {one.quantity} needs all images; leave it out, or "
            f"{flags}. What goes with them: robustness, which ends each alteration as "
            "soon as it is certain, and robustness.low, which does not"
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


# The levels that ASAP asks for: at least, usually, and at most, unless a curve crosses
# the threshold many times.
_OF_ASAP = (9, 16, 30)


def print_passes(
    subject: Subject,
    altered: Sequence[jaxrob.Alteration],
    strategy: Strategy,
) -> None:
    """Prints the passes of an assessment; of few images, the most of them."""
    few = strategy if isinstance(strategy, FewImages) else None
    strategy = few.strategy if few is not None else strategy
    images = len(subject.dataset)
    fewest, number, most = _levels(strategy)
    about = "" if fewest == most else "about "
    levels = f"{number} levels"
    if about:
        levels = f"about {levels} ({fewest} to {most})"
    for one in altered:
        print(f"  {one.name} [{one.lower:g}, {one.upper:g}] {one.unit}".rstrip())
    passes = images * number * len(altered)
    print(
        f"{counted(images, 'image')} x {levels} x "
        f"{counted(len(altered), 'alteration')}: {about}{passes:,} forward passes"
    )
    if few is not None:
        passes = min(passes, few.budget or passes)
        print(f"{_said(few)}: at most about {passes:,} of these")


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
