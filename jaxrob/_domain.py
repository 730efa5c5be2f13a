"""Operating domains: several alterations at once, each with a level of its own."""

import dataclasses
import functools
import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxrob._arguments.checks import checked_array, checked_sequence, checked_text
from jaxrob._identity.identity import library, text
from jaxrob.alterations import Alteration
from jaxrob.alterations._alteration import About, check_level
from jaxrob.alterations._compose import about_all
from jaxrob.alterations._moves import fingerprinted_alteration

#: A level: a number, or of a domain one number for each alteration.
Level = float | tuple[float, ...]


class Axis(NamedTuple):
    """One alteration of a domain, with its levels."""

    name: str
    unit: str
    lower: float
    upper: float
    identity: float


@dataclasses.dataclass(frozen=True)
class Domain:
    """Several alterations at once, applied one after the other.

    A level of a domain is a vector `[d]`, one number for each alteration, and all its
    levels together are a box.

    Example::

        turned = jaxrob.alterations.rotation(-15, 15)
        dark = jaxrob.alterations.brightness(-0.4, 0.4)
        domain = jaxrob.Domain([turned, dark])
        altered = domain(image, [10.0, -0.3])
        curve = jaxrob.evaluate(classifier, dataset, domain, [[0, 0], [10, -0.3]])

    The order matters: noise that is then blurred is another picture than a blurred one
    with noise. The physical order is optics, exposure, sensor noise, storage.

    Attributes:
      alterations: the alterations, the first is applied first. One that comes twice has
        another name the second time: "rotation", "rotation 2".
      name: its name in reports; by default the alterations' names, joined by " + ".

    Random alterations draw as if each were alone: the first with the image's key, the
    one in place i, from 0, with `fold_in(key, i)`, the same at every level.

    Raises:
      TypeError: if an argument has a wrong type.
      ValueError: if there is no alteration.
    """

    alterations: Sequence[Alteration]
    name: str = ""

    def __post_init__(self) -> None:
        given = checked_sequence(
            "Domain: alterations", self.alterations, Alteration, "jaxrob.Alteration"
        )
        alterations = tuple(_named_apart(given))
        checked_text("Domain: name", self.name, may_be_empty=True)
        object.__setattr__(self, "alterations", alterations)
        joined = " + ".join(one.name for one in alterations)
        object.__setattr__(self, "name", self.name or joined)

    @property
    def axes(self) -> tuple[Axis, ...]:
        """Each alteration's name, unit and levels, as results keep them."""
        return tuple(
            Axis(one.name, one.unit, one.lower, one.upper, one.identity)
            for one in self.alterations
        )

    @functools.cached_property
    def lower(self) -> tuple[float, ...]:
        """The lowest levels, d numbers."""
        return tuple(one.lower for one in self.alterations)

    @functools.cached_property
    def upper(self) -> tuple[float, ...]:
        """The highest levels, d numbers."""
        return tuple(one.upper for one in self.alterations)

    @functools.cached_property
    def identity(self) -> tuple[float, ...]:
        """The level at which nothing is altered, d numbers."""
        return tuple(one.identity for one in self.alterations)

    @functools.cached_property
    def description(self) -> str:
        """As `Alteration.description`."""
        return f"{library()}: {text(self)}"

    @property
    def about(self) -> About:
        """What its alterations say of their parameters."""
        return about_all(self.alterations)

    @property
    def stochastic(self) -> bool:
        """Whether an alteration needs a random key."""
        return any(one.stochastic for one in self.alterations)

    @property
    def moves_pixels(self) -> bool:
        """Whether an alteration moves what is to be seen."""
        return any(one.moves_pixels for one in self.alterations)

    @property
    def prepare(self) -> Any:
        """The first alteration's `prepare`: the others see what it altered."""
        return self.alterations[0].prepare

    def __call__(
        self,
        image: jax.Array,
        level: jax.typing.ArrayLike | Sequence[float],
        key: jax.Array | None = None,
    ) -> jax.Array:
        """Alters one image, by a level `[d]`."""
        level = jnp.asarray(level, jnp.float32)
        if level.shape != (len(self.alterations),):
            raise ValueError(
                f"{self.name}: level must be {len(self.alterations)} numbers, one for "
                f"each alteration; got the shape {level.shape}"
            )
        for place, one in enumerate(self.alterations):
            check_level(one, level[place])
        return self.at_level(self.prepared(image, key), level)

    def prepared(self, image: jax.Array, key: jax.Array | None = None) -> Any:
        """As `Alteration.prepared`."""
        if key is None and self.stochastic:
            raise ValueError(f"{self.name} is stochastic and needs a key; got key=None")
        first = self.alterations[0].prepared(image, key)
        return (first, key) if self.stochastic else first

    def at_level(self, prepared: Any, level: jax.Array) -> jax.Array:
        """As `Alteration.at_level`, at a level `[d]`."""
        first = prepared[0] if self.stochastic else prepared
        image = self.alterations[0].at_level(first, level[0])
        for place, one in enumerate(self.alterations[1:], 1):
            own = jax.random.fold_in(prepared[1], place) if one.stochastic else None
            image = one(image, level[place], own)
        return image

    def canonical(self, levels: np.ndarray) -> np.ndarray:
        """As `Alteration.canonical`, of levels `[..., d]`."""
        return self._each("canonical", levels)

    def snap(self, levels: np.ndarray) -> np.ndarray:
        """As `Alteration.snap`, of levels `[..., d]`."""
        return self._each("snap", levels)

    def _each(self, method: str, levels: np.ndarray) -> np.ndarray:
        axes = {"d": len(self.alterations)}
        levels = checked_array(f"{self.name}: levels", levels, "..., d", axes=axes)
        columns = zip(self.alterations, np.moveaxis(levels, -1, 0))
        found = [getattr(one, method)(column) for one, column in columns]
        return np.stack(found, axis=-1)


def _named_apart(alterations: Sequence[Alteration]) -> Iterator[Alteration]:
    taken: set[str] = set()
    for one in alterations:
        more = (f"{one.name} {number}" for number in itertools.count(2))
        name = next(n for n in itertools.chain([one.name], more) if n not in taken)
        taken.add(name)
        yield one if name == one.name else dataclasses.replace(one, name=name)


#: What levels belong to.
AnyAlteration = Alteration | Domain


def members(alteration: AnyAlteration) -> Sequence[Alteration]:
    return alteration.alterations if isinstance(alteration, Domain) else (alteration,)


def fingerprinted(
    alteration: AnyAlteration, image_shape: tuple[int, ...]
) -> AnyAlteration:
    if not isinstance(alteration, Domain):
        return fingerprinted_alteration(alteration, image_shape)
    own = [fingerprinted_alteration(one, image_shape) for one in members(alteration)]
    return dataclasses.replace(alteration, alterations=own)


def levels_of(levels: np.ndarray) -> list[Any]:
    """Returns levels `[L]` as numbers, `[L, d]` as tuples, which have hashes."""
    return [tuple(one) if levels.ndim > 1 else one for one in levels.tolist()]


def level_text(level: Level | np.ndarray) -> str:
    return ", ".join(f"{one:g}" for one in np.ravel(level))
