"""The answers of a few hundred inputs at a time, kept in a journal."""

from collections.abc import Callable

from jaxrob._engine.journal import Journal, JournalOfFirstProcess, decoded
from jaxrob.roma._blocks import joined, taken
from jaxrob.roma._estimate import Answers
from jaxrob.roma._work import Inputs, Settings

# Inputs whose answers a journal takes at once.
_INPUTS = 256


def answers_in(
    journal: Journal | JournalOfFirstProcess | None,
    estimate: Callable[[Inputs, Settings], Answers],
    inputs: Inputs,
    settings: Settings,
) -> Answers:
    """The answers for N inputs; those that a journal has are taken from it.

    Args:
      journal: where known answers are found, and new ones go as soon as they are known;
        None keeps nothing.
      estimate: an estimator, given all but the inputs and the settings.
      inputs: N inputs.
      settings: what the caller asked for.
    """
    if journal is None:
        return estimate(inputs, settings)
    known = {record["first"]: record["fields"] for record in journal.records}
    parts = []
    for first in range(0, len(inputs.images), _INPUTS):
        if first in known:
            fields = {name: decoded(value) for name, value in known[first].items()}
            parts.append(Answers(**fields))
            continue
        answers = estimate(taken(inputs, slice(first, first + _INPUTS)), settings)
        fields = {k: v for k, v in answers._asdict().items() if v is not None}
        journal.append({"first": first, "fields": fields})
        parts.append(answers)
    return joined(parts)
