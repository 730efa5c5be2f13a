"""MAITE's image classification: its data and models here, our parts in its evaluations.

`dataset` and `classifier` make ours of MAITE's. `Augmentation` and `Robustness` are an
alteration and an assessment in the protocols that `maite.tasks.evaluate` takes. These
are structural, so none of this needs MAITE installed; version 0.10 is tested.
"""

from jaxrob.maite._parts import Augmentation, Robustness
from jaxrob.maite._sources import classifier, dataset

__all__ = ("Augmentation", "Robustness", "classifier", "dataset")
