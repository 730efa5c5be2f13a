"""How a part stands in its object: marks for annotations beside a kind of value."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from jaxrob._codec._kinds import Number


@dataclasses.dataclass(frozen=True)
class Named:
    """The part has another name in the document."""

    name: str


@dataclasses.dataclass(frozen=True)
class Under:
    """The part stands in an object of this name, with others that do."""

    name: str


@dataclasses.dataclass(frozen=True)
class Flat:
    """The parts of this object stand in the one around it."""


@dataclasses.dataclass(frozen=True)
class MayLack:
    """None is told by the part's absence, not by null."""


@dataclasses.dataclass(frozen=True)
class Unwritten:
    """The part is not in the document; what is read has this value."""

    make: Callable[[], Any]


@dataclasses.dataclass(frozen=True)
class Axis:
    """The part is the length that a letter of arrays' shapes stands for."""

    letter: str


@dataclasses.dataclass(frozen=True)
class Lengths:
    """What a part says of lengths that other arrays have, by their letters."""

    of: Callable[[np.ndarray], dict[str, int]]


@dataclasses.dataclass(frozen=True)
class Stated:
    """A property that is written for readers without jaxrob.

    It is computed again from what was read, and compared.

    Attributes:
      within: how far the two may be apart; None if they are not compared.
    """

    within: float | None = 0.0


@dataclasses.dataclass(frozen=True)
class Fewest:
    """How many entries a list has at least."""

    number: int


@dataclasses.dataclass(frozen=True)
class Row:
    """A named tuple that is written as a list.

    Attributes:
      each: what its entries are; None for what its fields say.
      ascends: whether no entry is below the one before.
    """

    each: Number | None = None
    ascends: bool = False


@dataclasses.dataclass(frozen=True)
class As:
    """A value that is written as one of another type.

    Attributes:
      type: the annotation of what is written.
      written: makes that from the value.
      made: makes the value from that and its place in the document, or raises.
    """

    type: Any
    written: Callable[[Any], Any]
    made: Callable[[Any, str], Any]


@dataclasses.dataclass(frozen=True)
class Holding:
    """A plain JSON object that holds the parts of a class, and may hold any others.

    Parts with a default may be missing.
    """

    type: type
