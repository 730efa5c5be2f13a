"""Strategies: which levels of an alteration to look at next."""

from jaxrob.strategies._asap import ASAP
from jaxrob.strategies._including import Including
from jaxrob.strategies._quadrature import Quadrature
from jaxrob.strategies._random import Random
from jaxrob.strategies._sample import sample
from jaxrob.strategies._strategy import Question, Samples, Strategy
from jaxrob.strategies._uniform import Uniform

__all__ = (
    "ASAP",
    "Including",
    "Quadrature",
    "Question",
    "Random",
    "Samples",
    "Strategy",
    "Uniform",
    "sample",
)
