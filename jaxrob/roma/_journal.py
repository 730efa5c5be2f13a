"""The answers of a few hundred inputs at a time, kept in a journal."""

from collections.abc import Callable
from typing import Any

import numpy as np

from jaxrob._arguments.computing import computing
from jaxrob._devices.rows import joined, taken
from jaxrob._engine.journal import (
    Journal,
    JournalOfFirstProcess,
    array_entry,
    entry,
    read_records,
)
from jaxrob.roma._estimate import MOST_MODES, Answers
from jaxrob.roma._work import Inputs, Settings

# Inputs whose answers a journal takes at once.
_INPUTS = 256
# Of arrays; others hold floating numbers.
_KINDS = {"status": "U", "hits": "i", "evaluations": "i", "needed": "i"}


@computing()
def answers_in(
    journal: Journal | JournalOfFirstProcess | None,
    estimate: Callable[[Inputs, Settings], Answers],
    inputs: Inputs,
    settings: Settings,
) -> Answers:
    """The answers for N inputs; those that a journal has are taken from it."""
    if journal is None:
        return estimate(inputs, settings)
    records = read_records(journal.path, journal.records, _read)
    known = dict(record for _, record in records)
    parts = []
    for first in range(0, len(inputs.images), _INPUTS):
        some = taken(inputs, slice(first, first + _INPUTS))
        if (indices := tuple(some.indices.tolist())) in known:
            parts.append(known[indices])
            settings.bar.skip(int(known[indices].evaluations.sum()))
            continue
        answers = estimate(some, settings)
        fields = {k: v for k, v in answers._asdict().items() if v is not None}
        journal.append({"indices": some.indices, "fields": fields})
        parts.append(answers)
    if len({tuple(field is None for field in answers) for answers in parts}) > 1:
        raise ValueError(
            f"{journal.path}: some records have other fields than the answers of this "
            "estimator; move it away to start anew"
        )
    return joined(parts)


def _read(record: dict[str, Any]) -> tuple[tuple[int, ...], Answers]:
    """The indices of inputs, and their answers, that a record holds."""
    indices = array_entry(record, "indices", "u", (None,))
    fields, length = entry(record, "fields", dict), len(indices)
    if not 0 < length <= _INPUTS:
        raise ValueError(f"'indices' are {length}, not 1 to {_INPUTS}")
    if unknown := sorted(fields.keys() - set(Answers._fields)):
        raise ValueError(f"unknown fields {unknown}")
    arrays = {}
    for name in Answers._fields:
        if name in fields or name not in Answers._field_defaults:
            kinds = _KINDS.get(name, "f")
            shape = (length, MOST_MODES) if name == "modes" else (length,)
            arrays[name] = array = array_entry(fields, name, kinds, shape)
            if kinds == "i" and array.min() < 0:
                raise ValueError(f"{name!r} must hold numbers from 0")
            if kinds == "f" and np.isposinf(array).any():
                raise ValueError(f"{name!r} must not be infinite")
            if kinds == "U" and "" in array.tolist():
                raise ValueError(f"{name!r} must not be empty")
    return tuple(indices.tolist()), Answers(**arrays)
