"""Groups warnings by cause, the gravest first."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from jaxrob._arguments.warnings import cause_of
from jaxrob._assessment.assessment import Assessment
from jaxrob._assessment.diagnostics import SIGNS, severity
from jaxrob.roma import RomaResult

_MOST_NAMES = 5  # Names of alterations in a sentence.


class Warned(NamedTuple):
    """A cause of warnings.

    Attributes:
      of: the alterations, or RoMA, that the warnings concern.
      text: a warning's text: the finding and the remedy. Of signs it is the gravest.
    """

    of: str
    text: str


def by_cause(
    assessments: Sequence[Assessment], roma: RomaResult | None = None
) -> tuple[Warned, ...]:
    """Returns a warning for each cause."""
    # Likely mistakes come first, because they may make the numbers meaningless. Signs
    # that few levels, or few images, mislead come after them. Warnings that differ only
    # in numbers have one cause.
    found: dict[str, list[tuple[str, str]]] = {}
    worst: dict[str, int] = {}
    for one in assessments:
        for text in one.warnings:
            # Some begin with the alteration's name, because they also appear alone.
            own = text.removeprefix(f"{one.alteration}: ")
            cause = cause_of(own.replace(one.alteration, "it"))
            found.setdefault(cause, []).append((one.alteration, own))
    if roma is not None:
        for text in roma.warnings:
            found.setdefault(cause_of(text), []).append(("RoMA", text))
    for sign in SIGNS:
        those = [one for one in assessments if sign in one.diagnostics.signs]
        if those:
            found[sign] = [
                (one.alteration, one.diagnostics.signs[sign]) for one in those
            ]
            severities = [severity(one.diagnostics, sign) for one in those]
            worst[sign] = int(np.argmax(severities))
    if roma is not None:
        found |= {text: [("RoMA", text)] for text in roma.caveats}
    return tuple(
        _warned(pairs, len(assessments), worst.get(cause))
        for cause, pairs in found.items()
    )


def _warned(pairs: Sequence[tuple[str, str]], number: int, worst: int | None) -> Warned:
    names, texts = zip(*pairs)
    few = [*names[:_MOST_NAMES], *["..."] * (len(names) > _MOST_NAMES)]
    if len(names) == 1:
        return Warned(names[0], texts[0])
    shown = worst or 0
    # Of other warnings nothing says whether high numbers are grave or low ones.
    which = "those of others differ" if worst is None else "the worst"
    numbers = "" if len(set(texts)) == 1 else f" (Numbers of {names[shown]}, {which}.)"
    text = texts[shown] + numbers
    return Warned(f"{len(names)} of {number} ({', '.join(few)})", text)
