"""A check of the network's outputs on a few unaltered pictures, before the work."""

import warnings

import jax
import numpy as np

import jaxrob
from jaxrob._arguments.computing import was_computing
from jaxrob._command.refused import Refused
from jaxrob._command.subject import Subject
from jaxrob._engine.evaluate import UNALTERED

_FEW = 16


def check(subject: Subject, seed: int) -> None:
    """Rejects a network whose outputs are NaN, or not what `--outputs` declares."""
    classifier, dataset = subject
    # From all over the data, because sorted folders start with one class.
    few = np.unique(np.linspace(0, len(dataset) - 1, _FEW).astype(int))
    key = jax.random.key(seed)
    try:
        with warnings.catch_warnings():
            # They come again from the work itself.
            warnings.simplefilter("ignore", jaxrob.RobustnessWarning)
            jaxrob.evaluate(classifier, dataset[few], UNALTERED, [0.0], key=key)
    except ValueError as error:
        if not was_computing(error):
            raise
        found = f"{subject.name}, unaltered: {error}"
        if classifier.outputs in ("probabilities", "sigmoid"):
            about = f"--outputs={classifier.outputs}: {found}, or --outputs=scores"
            raise Refused(about) from error
        raise FloatingPointError(
            f"{found}. Look at the network, and at what it expects (--scale, --mean, "
            "--std)"
        ) from error
