"""The results of each way to retrain a network."""

from collections.abc import Sequence
from typing import TypedDict

import numpy as np

# Each method and its comparison, as in the paper's table II.
METHODS = {"DA": None, "LDA": "DA", "NP": "DA", "LNP": "NP", "WL": "DA"}
NETWORKS = ("original", *METHODS)


class Curve(TypedDict):
    """Accuracy over the level."""

    levels: list[float]
    accuracy: list[float]


class Found(TypedDict):
    """The results of one network; lists have an item for each alteration."""

    input_size: int
    seconds: float
    copies: list[float]  # of each image
    accuracy: float  # on clean images
    robustness: list[float]
    curves: list[Curve]
    adversariability: float | None


# One seed's results, by network.
Seed = dict[str, Found]


def mean(seeds: Sequence[Seed], network: str, what: str) -> np.ndarray:
    """Returns the mean over seeds."""
    return np.mean([seed[network][what] for seed in seeds], axis=0)
