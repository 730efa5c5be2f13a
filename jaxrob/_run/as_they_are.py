"""What is measured, as it is at the time of a call."""

import functools
from collections.abc import Sequence

import numpy as np

from jaxrob._classifier import Classifier
from jaxrob._engine.checks import check_shape_is_kept
from jaxrob._fingerprint import fingerprinted
from jaxrob.alterations import Alteration
from jaxrob.alterations._fingerprint import fingerprinted as fingerprinted_alteration


def as_they_are(
    classifier: Classifier, alterations: Sequence[Alteration], image: np.ndarray
) -> tuple[Classifier, tuple[Alteration, ...]]:
    """Fingerprints a classifier and alterations, with the values that they capture.

    Args:
      classifier: the classifier.
      alterations: the alterations.
      image: the first image of the data.

    Raises:
      ValueError: if an alteration or the classifier refuses the image's shape.
    """
    pin = functools.partial(fingerprinted_alteration, image_shape=image.shape)
    fingerprinted_ones = tuple(map(pin, alterations))
    # First, because the classifier would only say that it fails.
    for alteration in fingerprinted_ones:
        check_shape_is_kept(alteration, image.shape)
    return fingerprinted(classifier, image.shape), fingerprinted_ones
