"""What is measured, as it is at the time of a call."""

import functools
from collections.abc import Sequence

import numpy as np

from jaxrob._classifier import Classifier
from jaxrob._engine.checks import check_shape_is_kept
from jaxrob._pinned import pinned
from jaxrob.alterations import Alteration
from jaxrob.alterations._pinned import pinned as pinned_alteration


def as_they_are(
    classifier: Classifier, alterations: Sequence[Alteration], image: np.ndarray
) -> tuple[Classifier, tuple[Alteration, ...]]:
    """A classifier and alterations, pinned: what they take from around them is seen.

    Args:
      classifier: the classifier.
      alterations: the alterations.
      image: the first image of the data.

    Raises:
      ValueError: if an alteration or the classifier refuses the image's shape.
    """
    pin = functools.partial(pinned_alteration, image_shape=image.shape)
    pinned_ones = tuple(map(pin, alterations))
    # First, because the classifier would only say that it fails.
    for alteration in pinned_ones:
        check_shape_is_kept(alteration, image.shape)
    return pinned(classifier, image.shape), pinned_ones
