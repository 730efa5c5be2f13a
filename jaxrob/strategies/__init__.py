"""Strategies: which levels of an alteration to look at next."""

from jaxrob.strategies._asap import ASAP
from jaxrob.strategies._strategy import Question, Strategy
from jaxrob.strategies._uniform import Uniform

__all__ = ("ASAP", "Question", "Strategy", "Uniform")
