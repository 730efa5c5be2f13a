"""Bayesian classifiers of Flax modules: posteriors, ensembles, dropout.

Every function returns (or leads to) a `jaxrob.Classifier` whose sample axis holds
draws from a posterior, members or passes.
"""

from jaxrob.bayes._dropout import ensemble, mc_dropout
from jaxrob.bayes._fit import fit, nuts
from jaxrob.bayes._posterior import Posterior, classifier
from jaxrob.bayes._save import load, save
from jaxrob.bayes._svi import svi

__all__ = (
    "Posterior",
    "classifier",
    "ensemble",
    "fit",
    "load",
    "mc_dropout",
    "nuts",
    "save",
    "svi",
)
