"""Bayesian classifiers of Flax modules: posteriors, ensembles, dropout.

Every function returns (or leads to) a `jaxrob.Classifier` whose sample axis holds
draws from a posterior, members or passes.
"""

from jaxrob.bayes._inference import fit, nuts, svi
from jaxrob.bayes._posterior import Posterior, classifier, ensemble, mc_dropout
from jaxrob.bayes._save import load, save

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
