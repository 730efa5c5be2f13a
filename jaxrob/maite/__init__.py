"""MAITE's image classification: its data and models here, our parts in its evaluations.

`dataset` and `classifier` make ours of MAITE's, for `jaxrob.assess` and all else.
`Augmentation` and `Robustness` are an alteration and an assessment in the protocols
that `maite.tasks.evaluate` takes. MAITE's protocols are structural, so none of this
needs it installed; version 0.10 is what is tested.
"""

from jaxrob.maite._parts import Augmentation, Robustness
from jaxrob.maite._sources import classifier, dataset

__all__ = ("Augmentation", "Robustness", "classifier", "dataset")
