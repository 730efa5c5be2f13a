"""A function on the host, called from a compiled program."""

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np


@dataclasses.dataclass(frozen=True)
class HostFunction:
    """A function of NumPy arrays, with what tells it from others.

    Attributes:
      function: takes float32 images `[B, H, W, C]`, returns `[B, num_classes]`.
      num_classes: number of classes, K.
      name: what it is called, or None.
      version: which one of that name it is, or None.
    """

    function: Callable[[np.ndarray], np.ndarray]
    num_classes: int
    name: str | None = None
    version: str | None = None

    @property
    def is_told(self) -> bool:
        """Whether its name and version tell it from others."""
        return self.name is not None and self.version is not None

    def result(self, images: jax.Array) -> jax.ShapeDtypeStruct:
        """The shape and type of what it returns."""
        return jax.ShapeDtypeStruct((len(images), self.num_classes), jnp.float32)

    def __call__(self, images: jax.Array) -> np.ndarray:
        """Its outputs, float32.

        Raises:
          ValueError: if they have another shape.
        """
        outputs = np.asarray(self.function(np.asarray(images)))
        wanted = self.result(images).shape
        if outputs.shape != wanted:
            raise ValueError(
                f"the host function must return the shape {wanted}; got {outputs.shape}"
            )
        return outputs.astype(np.float32)
