"""The library's compiled steps, to be looked at: what does one cost on a device?

Each function returns the very function that the library compiles, with the shapes that
it gives it. Nothing is computed and no array is made: variables may be shapes
(`jax.eval_shape`), and devices need not be there (`jax.experimental.topologies`).
"""

from jaxrob.steps._attack import attack
from jaxrob.steps._evaluation import Evaluation, evaluation
from jaxrob.steps._roma import roma
from jaxrob.steps._step import Step
from jaxrob.steps._training import training

__all__ = ("Evaluation", "Step", "attack", "evaluation", "roma", "training")
