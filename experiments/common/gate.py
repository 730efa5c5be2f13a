"""Flags by which a script fails if its results are not good enough.

Such a script exits with status 1 and one line that names the failure, after it has
written everything.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from absl import app, flags

import jaxrob
from jaxrob import reporting

# `--help` then lists these flags under the script that defines them.
flags.disclaim_key_flags()


def define_require(*quantities: str) -> Callable[[], list[reporting.Requirement]]:
    """Defines `--require` for a script; returns a function that reads the flag."""
    flag = flags.DEFINE_multi_string(
        "require",
        [],
        f'Fail unless it holds everywhere: "{quantities[0]}>=0.9", for instance; of '
        f"{', '.join(quantities)}. An alteration's name and a colon before it: there.",
    )

    def read(texts: Sequence[str]) -> list[reporting.Requirement]:
        return [reporting.requirement(text, quantities) for text in texts]

    def check(texts: Sequence[str]) -> bool:
        try:
            read(texts)
        except ValueError as error:
            raise flags.ValidationError(str(error)) from error
        return True

    flags.register_validator(flag, check)
    return lambda: read(flag.value)


def define_regressions() -> flags.FlagHolder[list[str]]:
    return flags.DEFINE_multi_string(
        "regressions",
        [],
        "Fail if the network is less robust than an earlier one, beyond what chance "
        "explains: the JSON of an earlier assessment, or a folder of one for each "
        "alteration.",
    )


def earlier(
    flag: flags.FlagHolder[list[str]], alterations: Sequence[jaxrob.Alteration]
) -> list[jaxrob.Assessment]:
    names = [one.name for one in alterations]
    try:
        return reporting.earlier_assessments(flag.value, names)
    except ValueError as error:
        raise app.UsageError(f"--regressions: {error}") from error


def require(
    requirements: Sequence[reporting.Requirement],
    found: Sequence[jaxrob.Assessment] | Mapping[str, Any],
    regressions: Sequence[str] = (),
) -> None:
    if line := reporting.verdict(requirements, found, regressions):
        sys.exit(line)


def require_of_assessments(
    requirements: Sequence[reporting.Requirement],
    assessments: Sequence[jaxrob.Assessment],
    earlier: Sequence[jaxrob.Assessment] = (),
) -> None:
    """Applies `require` to assessments, and compares them with earlier ones."""
    require(requirements, assessments, reporting.regressions(assessments, earlier))
