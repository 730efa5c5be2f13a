"""Classifiers as they are at the time of a call."""

import dataclasses
import functools
import weakref
from collections.abc import Callable
from typing import Any

import jax

from jaxrob._classifier import Classifier, Structure, program, structure
from jaxrob._runtime.identity import is_told
from jaxrob._runtime.pinned import Pinned
from jaxrob._runtime.program import Told, told
from jaxrob._runtime.warnings import warn

# More numbers than this among a function's constants are weights, most likely.
_MOST_CAPTURED = 1000

# What the last call with a function captured, by the hash of how it was called.
_last: weakref.WeakKeyDictionary[Callable[..., Any], dict[int, str]] = (
    weakref.WeakKeyDictionary()
)


def pinned(classifier: Classifier, image_shape: tuple[int, ...]) -> Classifier:
    """The classifier as it is now: programs compiled for another one do not serve it.

    Every public function that takes a classifier begins with this. `apply_fn` may take
    arrays and attributes from around it, which become constants of compiled programs.
    It is traced anew to see them.

    Args:
      classifier: the classifier. One that is pinned already is returned as it is.
      image_shape: the shape of one image, `(H, W, C)`.

    Raises:
      ValueError: if the classifier does not take images of this shape, or what it
        returns has a wrong shape.
    """
    function = classifier.apply_fn
    if isinstance(function, Pinned):
        return classifier
    of = structure(classifier)
    if is_told(function):
        found = _once(of, tuple(image_shape))
    else:
        found = told(program(of, image_shape)[0])
        _warn_of_captured(classifier, image_shape, found)
    return dataclasses.replace(
        classifier, apply_fn=Pinned(function, found.digest, found.is_whole)
    )


@functools.lru_cache(maxsize=256)
def _once(of: Structure, image_shape: tuple[int, ...]) -> Told:
    """What is found of the library's own, which take nothing from around them."""
    return told(program(of, image_shape)[0])


def _warn_of_captured(
    classifier: Classifier, image_shape: tuple[int, ...], found: Told
) -> None:
    captured = f"the classifier's apply_fn captures {found.num_captured:,} numbers"
    if _has_changed(classifier, image_shape, found):
        warn(
            f"{captured}, and what it captures has changed since the last call with "
            "the same apply_fn. These answers are of the new values. Give weights as "
            "the classifier's `variables`, so that new ones need no new compilation"
        )
    if found.num_captured > _MOST_CAPTURED:
        warn(
            f"{captured}, which are constants of the compiled program. If they are "
            "weights, give them as the classifier's `variables`: new ones then need no "
            "new compilation"
        )


def _has_changed(
    classifier: Classifier, image_shape: tuple[int, ...], found: Told
) -> bool:
    """Whether what a function captures differs from when it was last called so."""
    leaves, tree = jax.tree.flatten(classifier.variables)
    types = tuple((one.shape, str(one.dtype)) for one in map(jax.typeof, leaves))
    try:
        # The hash alone, because the structure may refer to the function.
        way = hash((tree, types, tuple(image_shape), jax.config.read("jax_enable_x64")))
        known = _last.setdefault(classifier.apply_fn, {})
    except TypeError:  # A function that cannot be hashed, or referred to weakly.
        return False
    before = known.get(way, found.constants)
    known[way] = found.constants
    return before != found.constants
