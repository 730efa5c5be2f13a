"""`jaxrob roma`: estimates the probability of a misclassification near each picture."""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax

import jaxrob
from jaxrob._arguments.checks import check_choice
from jaxrob._arguments.texts import counted
from jaxrob._command.define import Values
from jaxrob._command.flow import Replacing, run_beside
from jaxrob._command.results import required
from jaxrob._command.subject import Subject, journal_of, mesh_of_all
from jaxrob.reporting._requirements import OF_ROMA, names_of
from jaxrob.reporting._words import percent_of
from jaxrob.roma import RomaResult
from jaxrob.roma._assess import checked_budget, fewest_and_most
from jaxrob.roma._result import question

QUANTITIES = names_of(OF_ROMA)


def run_roma(values: Values, words: Sequence[str]) -> str:
    del words
    check_choice("estimator", values.estimator, jaxrob.roma.ESTIMATORS)
    requirements = required(values.require, QUANTITIES)
    budget = checked_budget(_budget(values), values.estimator, values.num_samples)

    def prepare(found: Subject) -> tuple[str, Callable[[], dict[str, Any]]]:
        low, high = fewest_and_most(
            values.estimator,
            len(found.dataset),
            values.num_samples,
            budget,
            values.half_width is None,
        )
        passes = f"{high:,}" if low == high else f"{low:,} to {high:,}"
        dry = f"{len(found.dataset)} images: {passes} forward passes"
        return dry, functools.partial(_estimated, found, values)

    return run_beside(values, Replacing(QUANTITIES, requirements), prepare)


def _estimated(found: Subject, values: Values) -> dict[str, Any]:
    result = jaxrob.roma.assess(
        found.classifier,
        found.dataset,
        epsilon=values.epsilon,
        delta=values.delta,
        num_samples=values.num_samples,
        norm=values.norm,
        clip=values.clip,
        estimator=values.estimator,
        half_width=values.half_width,
        confidence_level=values.confidence_level,
        budget=_budget(values),
        key=jax.random.key(values.seed),
        mesh=mesh_of_all(),
        journal=journal_of(values, "roma", found),
        progress=values.progress,
    )
    _print_summary(result)
    return {"roma": result}


def _budget(values: Values) -> float | None:
    # Flags have no infinite values.
    return math.inf if values.budget == 0 else values.budget


def _print_summary(result: RomaResult) -> None:
    answered = int(result.answered.sum())
    print(question(result))
    print(
        f"mean plr {result.mean_plr:.6f}, lower ends {result.mean_low:.6f}; "
        f"{answered} of {counted(len(result.status), 'image')} answered, "
        f"{counted(int(result.evaluations.sum()), 'forward pass', 'forward passes')}"
    )
    low, high = result.mean_plr_interval
    over_all = f"the mean over all lies between {low:.6f} and {high:.6f} "
    over_all += f"({percent_of(result.confidence_level)})"
    if result.half_width is not None:
        print(f"looked at {counted(int(result.seen.sum()), 'image')}; {over_all}")
    elif low < high:
        print(over_all)
    for text in (*result.warnings, *result.caveats):
        print(text)
