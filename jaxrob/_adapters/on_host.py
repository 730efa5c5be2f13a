"""Networks that run on the host, in a runtime of their own."""

import dataclasses
from typing import Any

import jax

from jaxrob._adapters.preprocessing import Preprocessing
from jaxrob._runtime.host_function import HostFunction, call_on_host
from jaxrob._runtime.pinned import Pinned


@dataclasses.dataclass(frozen=True)
class OnHost:
    """An `apply_fn` that prepares images on the device and asks the host.

    Attributes:
      function: what runs on the host.
      preprocessing: what is done to the images before, on the device.
    """

    function: HostFunction
    preprocessing: Preprocessing

    def __call__(self, variables: Any, images: jax.Array) -> jax.Array:
        del variables
        return call_on_host(self.function, self.preprocessing(images))


def on_host(apply_fn: Any) -> OnHost | None:
    """The network on the host that an `apply_fn`, pinned or not, is; None if none."""
    function = apply_fn.function if isinstance(apply_fn, Pinned) else apply_fn
    return function if isinstance(function, OnHost) else None
