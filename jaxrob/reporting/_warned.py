"""Warnings by their causes: one for each, counted, the gravest first."""

from collections.abc import Sequence
from typing import NamedTuple

from jaxrob._arguments.warnings import cause_of
from jaxrob._assessment.assessment import Assessment
from jaxrob._assessment.diagnostics import SIGNS
from jaxrob.roma import RomaResult

_MOST_NAMES = 5  # Names of alterations in a sentence.


class Warned(NamedTuple):
    """A cause of warnings.

    Attributes:
      of: what the warnings are of, in words.
      text: what was seen and what to do; of several, the words of the first.
    """

    of: str
    text: str


def by_cause(
    assessments: Sequence[Assessment], roma: RomaResult | None = None
) -> tuple[Warned, ...]:
    """A warning for each cause.

    What looks like a mistake comes first, because the numbers may then mean nothing;
    signs that few levels, or few images, deceive come after it. Warnings that differ in
    numbers alone have one cause.

    Args:
      assessments: of one network.
      roma: of the same network, or None.
    """
    found: dict[str, list[tuple[str, str]]] = {}
    for one in assessments:
        for text in one.warnings:
            # Some begin with the name, because they are also seen one by one.
            own = text.removeprefix(f"{one.alteration}: ")
            cause = cause_of(own.replace(one.alteration, "it"))
            found.setdefault(cause, []).append((one.alteration, own))
    if roma is not None:
        for text in roma.warnings:
            found.setdefault(cause_of(text), []).append(("RoMA", text))
    for sign in SIGNS:
        for one in assessments:
            if text := one.diagnostics.signs.get(sign):
                found.setdefault(sign, []).append((one.alteration, text))
    if roma is not None:
        found |= {text: [("RoMA", text)] for text in roma.caveats}
    return tuple(_warned(pairs, len(assessments)) for pairs in found.values())


def _warned(pairs: Sequence[tuple[str, str]], number: int) -> Warned:
    names, texts = zip(*pairs)
    few = [*names[:_MOST_NAMES], *["..."] * (len(names) > _MOST_NAMES)]
    if len(names) == 1:
        return Warned(names[0], texts[0])
    numbers = "" if len(set(texts)) == 1 else f" (Numbers of {names[0]}.)"
    return Warned(f"{len(names)} of {number} ({', '.join(few)})", texts[0] + numbers)
