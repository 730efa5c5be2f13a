"""Strategies: which levels of an alteration to look at next, on how many images."""

from jaxrob.strategies._asap import ASAP
from jaxrob.strategies._drive import sample
from jaxrob.strategies._few_images import FewImages
from jaxrob.strategies._levels import Including, Random, Uniform
from jaxrob.strategies._strategy import (
    Asked,
    Found,
    History,
    Request,
    Strategy,
    Task,
    all_images,
)
from jaxrob.strategies._volume.search import Volume

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
    "Volume",
    "all_images",
    "sample",
)
