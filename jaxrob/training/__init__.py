"""Training a Flax module: a short loop on optax, with checkpoints by orbax."""

from jaxrob.training._fit import fit
from jaxrob.training._step import Batches, Losses

__all__ = ("Batches", "Losses", "fit")
