"""Classifiers in their state at the time of a call."""

import dataclasses

from jaxrob._arguments.warnings import warn
from jaxrob._classifier import Classifier, current_trace
from jaxrob._identity.program import Fingerprinted

# More constants than this in a function are probably weights.
_MOST_CAPTURED = 1000


def fingerprinted_classifier(
    classifier: Classifier, image_shape: tuple[int, ...]
) -> Classifier:
    """Returns the classifier with a fingerprint of its present state."""
    # Programs compiled for another state are not reused. Every public function that
    # takes a classifier begins with this. What `apply_fn` captures becomes constants of
    # compiled programs, so it is traced anew to find the present values.
    function = classifier.apply_fn
    if isinstance(function, Fingerprinted):
        return classifier
    found, has_changed = current_trace(classifier, image_shape)
    program = found.fingerprint
    _warn_of_captured(program.num_captured, has_changed)
    own = Fingerprinted(program.digest, function, program.on_host, found)
    return dataclasses.replace(classifier, apply_fn=own)


def _warn_of_captured(number: int, has_changed: bool) -> None:
    if has_changed:
        warn(
            "what the classifier's apply_fn captures has changed since the last call "
            "with the same apply_fn. These answers are of the new values. Give weights "
            "as the classifier's `variables`, so that new ones need no new compilation"
        )
    if number > _MOST_CAPTURED:
        warn(
            f"the classifier's apply_fn captures {number:,} numbers, which are "
            "constants of the compiled program. If they are weights, give them as the "
            "classifier's `variables`: new ones then need no new compilation"
        )
