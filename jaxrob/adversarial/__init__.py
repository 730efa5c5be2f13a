"""Adversarial attacks, and how vulnerable a classifier is to them."""

from jaxrob.adversarial._adversariability import (
    Adversariability,
    adversariability,
    fgsm,
    pgd,
)
from jaxrob.adversarial._attack import (
    Attack,
    most_adversarial,
    structural_similarity,
    windowed_similarity,
)
from jaxrob.adversarial._lbfgs import lbfgs

__all__ = (
    "Adversariability",
    "Attack",
    "adversariability",
    "fgsm",
    "lbfgs",
    "most_adversarial",
    "pgd",
    "structural_similarity",
    "windowed_similarity",
)
