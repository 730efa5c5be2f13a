"""Modules of NNX and Equinox, as functions of their arrays."""

from typing import Any

import jax
import numpy as np

from jaxrob._adapters.network import Network, Preprocessing, preprocessed, snapshot
from jaxrob._arguments.checks import check_hashable, check_type
from jaxrob._arguments.texts import required
from jaxrob._identity.digest import hashable_partial

_PURPOSE = "Classifier.from_equinox"


def nnx_network(module: Any, outputs: str, preprocessing: Preprocessing) -> Network:
    """See `Classifier.from_nnx`."""
    from flax import nnx

    check_type("module", module, nnx.Module, "a Flax NNX module")
    graph, state = nnx.split(module)
    function = preprocessed(hashable_partial(_apply_nnx, graph=graph), preprocessing)
    return Network(function, outputs, variables=snapshot(state))


def equinox_network(
    module: Any, state: Any, outputs: str, preprocessing: Preprocessing
) -> Network:
    """See `Classifier.from_equinox`."""
    equinox = required("equinox", _PURPOSE, "equinox")
    check_type("module", module, equinox.Module, "an Equinox module")
    wanted = "an equinox.nn.State or None"
    check_type("state", state, equinox.nn.State | None, wanted)
    own = equinox.nn.inference_mode(module)
    arrays, rest = equinox.partition(own, _is_array)
    check_hashable("module", rest)
    function = preprocessed(hashable_partial(_apply, rest=rest), preprocessing)
    return Network(function, outputs, variables=snapshot((arrays, state)))


def _apply_nnx(state: Any, images: Any, *, graph: Any) -> Any:
    from flax import nnx

    module = nnx.merge(graph, state)
    module.eval()
    return module(images)


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
