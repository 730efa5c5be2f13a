"""Equinox modules of one image, as functions of their arrays."""

from typing import Any

import jax
import numpy as np

from jaxrob._adapters.snapshot import snapshot
from jaxrob._arguments.checks import check_hashable, check_type
from jaxrob._arguments.extra import required
from jaxrob._identity.hashable_partial import HashablePartial, hashable_partial

_PURPOSE = "Classifier.from_equinox"


def read_equinox(module: Any, state: Any) -> tuple[HashablePartial, Any]:
    """Returns a module in inference mode as an `apply_fn`, and its variables."""
    equinox = required("equinox", _PURPOSE, "equinox")
    check_type("module", module, equinox.Module, "an Equinox module")
    wanted = "an equinox.nn.State or None"
    check_type("state", state, equinox.nn.State | None, wanted)
    own = equinox.nn.inference_mode(module)
    arrays, rest = equinox.partition(own, _is_array)
    check_hashable("module", rest)
    return hashable_partial(_apply, rest=rest), snapshot((arrays, state))


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array | np.ndarray)


def _apply(variables: Any, images: jax.Array, *, rest: Any) -> Any:
    equinox = required("equinox", _PURPOSE, "equinox")
    arrays, state = variables
    module = equinox.combine(arrays, rest)
    if state is None:
        return jax.vmap(module)(images)
    # In inference mode no image changes the state.
    return jax.vmap(lambda image: module(image, state)[0])(images)
