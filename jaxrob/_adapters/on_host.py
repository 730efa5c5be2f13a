"""Networks that run on the host, in their own runtime."""

import dataclasses
from typing import Any

import jax

from jaxrob._adapters.preprocessing import Preprocessing
from jaxrob._devices.host_function import HostFunction, host_callback
from jaxrob._identity.fingerprinted import Fingerprinted


@dataclasses.dataclass(frozen=True)
class OnHost:
    """An `apply_fn` that preprocesses images on the device and calls the host.

    Attributes:
      function: the function on the host.
      preprocessing: that of the images, on the device.
    """

    function: HostFunction
    preprocessing: Preprocessing

    def __call__(self, variables: Any, images: jax.Array) -> jax.Array:
        del variables
        return host_callback(self.function, self.preprocessing(images))


def on_host(apply_fn: Any) -> OnHost | None:
    """Returns the host network behind an `apply_fn`, or None."""
    function = apply_fn.function if isinstance(apply_fn, Fingerprinted) else apply_fn
    return function if isinstance(function, OnHost) else None
