"""Training a Flax module: a short loop on optax, with checkpoints by orbax.

`fit` is the loop. `Batches` describes the batches of an epoch; `jaxrob.retraining`
supplies batches of original and altered images.
"""

from jaxrob.training._fit import fit
from jaxrob.training._step import Batches, Losses

__all__ = ("Batches", "Losses", "fit")
