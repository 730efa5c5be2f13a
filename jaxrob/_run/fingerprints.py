"""Fingerprints of a classifier and alterations at the time of a call."""

from collections.abc import Sequence

import numpy as np

from jaxrob._classifier import Classifier
from jaxrob._engine.checks import check_shape_is_kept
from jaxrob._fingerprint import fingerprinted_classifier
from jaxrob.alterations import Alteration
from jaxrob.alterations._fingerprint import fingerprinted_alteration


def fingerprint_inputs(
    classifier: Classifier, alterations: Sequence[Alteration], image: np.ndarray
) -> tuple[Classifier, tuple[Alteration, ...]]:
    """A classifier and alterations fingerprinted, with the values they capture."""
    fingerprinted_ones = tuple(
        fingerprinted_alteration(alteration, image.shape) for alteration in alterations
    )
    # Checked first, because the classifier would only say that it fails.
    for alteration in fingerprinted_ones:
        check_shape_is_kept(alteration, image.shape)
    return fingerprinted_classifier(classifier, image.shape), fingerprinted_ones
