"""Training a Flax module: a short loop on optax, with checkpoints by orbax.

`fit` is the loop. `Batches` says what an epoch shows; `jaxrob.retraining` gives it
batches of original and altered images.
"""

from jaxrob.training._batches import Batches, Losses
from jaxrob.training._fit import fit

__all__ = ("Batches", "Losses", "fit")
