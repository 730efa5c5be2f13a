"""Results as JSON and back: one mechanism, driven by the classes' annotations.

A class says of each field once what it holds. That is how it is written, and what is
checked when it is read::

    @document("jaxrob score 1")
    class Score(NamedTuple):
        network: str
        level: Annotated[float, Number(at_least=0, below=1)]
        counts: Annotated[np.ndarray, Array("N", "int64", at_least=0)]
        note: str | None = None

    text = to_json(Score("net", 0.5, np.array([3, 4])))
    assert from_json(text, Score).network == "net"

Plain types need no annotation: `float`, `int`, `str`, `bool`, `Any` (any JSON),
`T | None`, `tuple[T, ...]`, `dict[str, T]`, dataclasses and named tuples. `_kinds` and
`_array` hold the kinds of values with their limits, `_marks` says how a part stands in
its object, and `_objects` puts them together. What parts must be together is checked by
a method `_check_together` of the class, after its constructor.

Documents are strict JSON: NaN is null, infinities are "inf" and "-inf". Every error is
a ValueError that names the path in the document, what was found and what is allowed.
"""

from jaxrob._codec._array import Array
from jaxrob._codec._kinds import Choice, Integer, Number, Text
from jaxrob._codec._marks import (
    As,
    Axis,
    Fewest,
    Flat,
    Holding,
    Lengths,
    MayLack,
    Named,
    Row,
    Stated,
    Under,
    Unwritten,
)
from jaxrob._codec._objects import document, from_json, read, to_json

__all__ = (
    "Array",
    "As",
    "Axis",
    "Choice",
    "Fewest",
    "Flat",
    "Holding",
    "Integer",
    "Lengths",
    "MayLack",
    "Named",
    "Number",
    "Row",
    "Stated",
    "Text",
    "Under",
    "Unwritten",
    "document",
    "from_json",
    "read",
    "to_json",
)
