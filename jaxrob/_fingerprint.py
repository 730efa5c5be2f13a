"""Classifiers as they are at the time of a call."""

import dataclasses

from jaxrob._arguments.warnings import warn
from jaxrob._classifier import Classifier, looked_at
from jaxrob._identity.fingerprinted import Fingerprinted

# More numbers than this among a function's constants are weights, most likely.
_MOST_CAPTURED = 1000


def fingerprinted(classifier: Classifier, image_shape: tuple[int, ...]) -> Classifier:
    """The classifier as it is now: programs compiled for another one do not serve it.

    Every public function that takes a classifier begins with this. `apply_fn` may take
    arrays from around it, which become constants of compiled programs. Where it does,
    it is traced anew to see them.

    Args:
      classifier: the classifier. A fingerprinted one is returned as it is.
      image_shape: the shape of one image, `(H, W, C)`.

    Raises:
      ValueError: if the classifier does not take images of this shape, or what it
        returns has a wrong shape.
    """
    function = classifier.apply_fn
    if isinstance(function, Fingerprinted):
        return classifier
    found, has_changed = looked_at(classifier, image_shape)
    program = found.fingerprint
    _warn_of_captured(program.num_captured, has_changed)
    own = Fingerprinted(program.digest, function, program.is_whole, found)
    return dataclasses.replace(classifier, apply_fn=own)


def _warn_of_captured(number: int, has_changed: bool) -> None:
    captured = f"the classifier's apply_fn captures {number:,} numbers"
    if has_changed:
        warn(
            f"{captured}, and what it captures has changed since the last call with "
            "the same apply_fn. These answers are of the new values. Give weights as "
            "the classifier's `variables`, so that new ones need no new compilation"
        )
    if number > _MOST_CAPTURED:
        warn(
            f"{captured}, which are constants of the compiled program. If they are "
            "weights, give them as the classifier's `variables`: new ones then need no "
            "new compilation"
        )
