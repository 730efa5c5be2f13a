"""Levels of a domain: from the unit cube, by a distribution, from a profile."""

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy

from jaxrob._arguments.checks import check_type, checked_array
from jaxrob._arguments.texts import warn
from jaxrob._assessment.criterion import named_setting
from jaxrob._domain import Domain
from jaxrob._identity.identity import digest, hashable_partial
from jaxrob.alterations import Alteration

#: Maps points of the unit cube, `[n, d]`, to levels `[n, d]`.
LevelsAt = Callable[[np.ndarray], np.ndarray]


def by_distribution(domain: Domain, given: Any) -> LevelsAt:
    """Levels whose distribution on a uniform cube is the given one, within the box."""
    # Imported here: a caller with a distribution has imported NumPyro already.
    from numpyro import distributions as known

    lower, upper = np.array(domain.lower), np.array(domain.upper)
    each, factor = given, np.eye(len(lower))
    if isinstance(given, known.Independent):
        each = [given.base_dist]
    elif isinstance(given, known.GaussianCopula):
        each = [given.marginal_dist]
        factor = np.asarray(given.correlation_cholesky, np.float64)
    is_one = isinstance(each, Sequence) and all(
        isinstance(one, known.Distribution)
        and not (one.event_shape or one.is_discrete or len(one.batch_shape) > 1)
        for one in each
    )
    if not is_one or sum(sum(one.batch_shape or (1,)) for one in each) != len(lower):
        raise ValueError(
            "level_distribution must be a continuous NumPyro distribution for each of "
            f"{len(lower)} alterations, in their order, or an Independent or a "
            f"GaussianCopula of {len(lower)} numbers; got {given}. (A profile of any "
            "other form goes into jaxrob.failure_probability.)"
        )
    low, high = (_applied(each, "cdf", ends[None])[0] for ends in (lower, upper))
    if not (low < high).all():
        raise ValueError(
            "level_distribution must have mass in each range; got none in that of "
            f"{domain.alterations[int((low < high).argmin())].name}"
        )

    def levels_at(points: np.ndarray) -> np.ndarray:
        # The quantiles of a normal distribution are infinite at 0 and 1.
        normal = scipy.special.ndtri(np.clip(points, 1e-12, 1 - 1e-12))
        shares = low + scipy.special.ndtr(normal @ factor.T) * (high - low)
        return np.clip(_applied(each, "icdf", shares), lower, upper)

    return levels_at


def _applied(each: Sequence[Any], name: str, values: np.ndarray) -> np.ndarray:
    """Applies each one's function to its column, or a single one's to all, `[n, d]`."""
    # Padded to a power of two, because JAX compiles each operation for each length.
    number = len(values)
    room = max(64, 1 << (number - 1).bit_length()) - number
    values = np.pad(values, ((0, room), (0, 0)), constant_values=0.5)
    columns = [values] if len(each) == 1 else values.T[..., None]
    # In float32 the shares beside the ends would be mostly rounding errors.
    with jax.enable_x64(True):
        try:
            found = [
                np.asarray(getattr(one, name)(jnp.asarray(some)))
                for one, some in zip(each, columns)
            ]
        except (AttributeError, NotImplementedError):
            raise ValueError(
                f"level_distribution must have quantiles; NumPyro has no {name} of "
                f"{', '.join(type(one).__name__ for one in each)}"
            ) from None
    return np.concatenate(found, axis=1)[:number]


@dataclasses.dataclass(frozen=True)
class Profile:
    """Levels by random keys; equal ones share a compiled step."""

    token: str  # a digest of levels
    draw: Callable[[jax.Array], jax.Array] = dataclasses.field(compare=False)


_WANTED = (
    "a NumPyro distribution for each alteration, in their order, a joint one of as "
    "many numbers, or recorded levels [M, d]"
)
# Levels drawn to see how many are outside the box.
_TRIED = 4096
# A level is drawn again until one is inside, except with this probability.
_NEVER = 1e-9
_MOST_OUTSIDE = 0.5
#: Twice larger numbers are not all levels in float32.
MOST_DRAWS = 2**23


def checked_profile(domain: Domain, profile: Any) -> Profile:
    """Levels that a distribution draws outside the box are drawn again."""
    draw = _distribution(profile, len(domain.lower))
    if draw is None:
        known = _recorded(domain, profile)

        def one_of(key: jax.Array) -> jax.Array:
            return known[jax.random.randint(key, (), 0, len(known), jnp.int32)]

        return Profile(digest([known]), one_of)
    lower, upper = jnp.array(domain.lower), jnp.array(domain.upper)

    def is_inside(levels: jax.Array) -> jax.Array:
        return ((levels >= lower) & (levels <= upper)).all(axis=-1)

    tried = jax.random.split(jax.random.key(0), _TRIED)
    found = jax.jit(jax.vmap(draw))(tried)
    if found.shape[1:] != lower.shape or not jnp.isfinite(found).all():
        raise ValueError(
            f"profile must be {_WANTED}, finite; got levels of the shape "
            f"{found.shape[1:]}, {jnp.isnan(found).sum()} of them NaN"
        )
    share = float(1 - is_inside(found).mean())
    if share > _MOST_OUTSIDE:
        raise ValueError(
            f"profile must lie in the box of the domain; {share:.0%} of its levels are "
            "outside. Give the alterations wider ranges"
        )
    if share:
        warn(
            f"{share:.2%} of the profile's levels are outside the box of the domain "
            "and are left out: the probability is that of a failure at the others. "
            "Give the alterations wider ranges to count them"
        )
    times = math.ceil(math.log(_NEVER) / math.log(max(share, 1 / _TRIED)))

    def inside_the_box(key: jax.Array) -> jax.Array:
        levels = jax.vmap(draw)(jax.random.split(key, times))
        return jnp.clip(levels[is_inside(levels).argmax()], lower, upper)

    return Profile(digest([found]), inside_the_box)


def drawn_levels(domain: Domain, profile: Profile) -> Alteration:
    """Returns an alteration whose level is twice a draw's number, or one more."""
    # So that spans of images and numbers are draws. Odd numbers are of images in
    # another order.
    return Alteration(
        f"{domain.name}, levels from a profile",
        hashable_partial(_altered, domain=domain, profile=profile),
        -1.0,
        2.0 * MOST_DRAWS,
        stochastic=True,
        about=domain.about,
    )


def _altered(
    image: jax.Array,
    number: jax.Array,
    key: jax.Array,
    *,
    domain: Domain,
    profile: Profile,
) -> jax.Array:
    # Each image draws levels, and noise, of its own.
    draw = jnp.floor(jnp.maximum(number, 0) / 2).astype(jnp.uint32)
    of_level, of_noise = jax.random.split(jax.random.fold_in(key, draw))
    found = domain.at_level(domain.prepared(image, of_noise), profile.draw(of_level))
    return jnp.where(number < 0, image, found)


def _distribution(profile: Any, number: int) -> Any:
    """Returns how distributions draw a level, None of recorded levels."""
    is_joint = hasattr(profile, "sample") and hasattr(profile, "event_shape")
    each = [profile] if is_joint else profile
    if not isinstance(each, Sequence) or not any(
        hasattr(one, "sample") for one in each
    ):
        return None
    # Imported here: a caller with a distribution has imported NumPyro already.
    from numpyro.distributions import Distribution

    for one in each:
        check_type("profile", one, Distribution, _WANTED)
    if not is_joint and len(each) != number:
        raise ValueError(
            f"profile must be {_WANTED}; got {len(each)} for {number} alterations"
        )

    def draw(key: jax.Array) -> jax.Array:
        keys = jax.random.split(key, len(each))
        found = [one.sample(own) for one, own in zip(each, keys)]
        return jnp.asarray(found[0] if is_joint else jnp.stack(found), jnp.float32)

    return draw


def _recorded(domain: Domain, profile: Any) -> jax.Array:
    known = checked_array("profile", profile, "M, d", axes={"d": len(domain.lower)})
    for one, column in zip(domain.alterations, known.T):
        if column.min() < one.lower or column.max() > one.upper:
            raise ValueError(
                f"profile: levels of {one.name} must lie in [{one.lower:g}, "
                f"{one.upper:g}]; got {column.min():g} to {column.max():g}"
            )
    return jnp.asarray(known, jnp.float32)


def in_words(given: Any) -> str:
    if hasattr(given, "sample"):
        return named_setting(given)
    if isinstance(given, Sequence) and hasattr(given[0], "sample"):
        return ", ".join(map(named_setting, given))
    return f"{len(given):,} recorded levels"
