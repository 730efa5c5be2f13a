"""The compiled steps of `jaxrob.evaluate`: what does one cost on a device?

Nothing is computed: variables may be shapes, and devices need not be there.
"""

from jaxrob.steps._evaluation import Evaluation, Step, evaluation

__all__ = ("Evaluation", "Step", "evaluation")
