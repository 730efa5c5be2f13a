"""MAITE's image classification: its data and models here, our parts in its evaluations.

`dataset` and `classifier` make ours of MAITE's, for `jaxrob.assess` and all else.
`Augmentation` and `Robustness` are an alteration and an assessment in the protocols
that `maite.tasks.evaluate` takes. MAITE's protocols are structural, so none of this
needs it installed; version 0.10 is what is tested.
"""

from jaxrob.maite._augmentation import Augmentation
from jaxrob.maite._classifier import classifier
from jaxrob.maite._dataset import dataset
from jaxrob.maite._robustness import Robustness

__all__ = ("Augmentation", "Robustness", "classifier", "dataset")
