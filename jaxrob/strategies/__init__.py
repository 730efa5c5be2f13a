"""Strategies: which levels of an alteration to look at next, on how many images."""

from jaxrob.strategies._asap import ASAP
from jaxrob.strategies._few_images import FewImages
from jaxrob.strategies._including import Including
from jaxrob.strategies._random import Random
from jaxrob.strategies._sample import sample
from jaxrob.strategies._strategy import (
    Asked,
    Found,
    History,
    Request,
    Strategy,
    Task,
    all_images,
)
from jaxrob.strategies._uniform import Uniform

__all__ = (
    "ASAP",
    "Asked",
    "FewImages",
    "Found",
    "History",
    "Including",
    "Random",
    "Request",
    "Strategy",
    "Task",
    "Uniform",
    "all_images",
    "sample",
)
