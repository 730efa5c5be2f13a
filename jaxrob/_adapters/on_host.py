"""Networks that run on the host, in a runtime of their own."""

import dataclasses
from typing import Any

import jax

from jaxrob._adapters.preprocessing import Preprocessing
from jaxrob._devices.host_function import HostFunction, host_callback
from jaxrob._identity.fingerprinted import Fingerprinted


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
        return host_callback(self.function, self.preprocessing(images))


def on_host(apply_fn: Any) -> OnHost | None:
    """The host network behind an `apply_fn`, or None."""
    function = apply_fn.function if isinstance(apply_fn, Fingerprinted) else apply_fn
    return function if isinstance(function, OnHost) else None
