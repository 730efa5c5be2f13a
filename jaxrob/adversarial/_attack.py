"""What every attack returns."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple

import numpy as np

from jaxrob._arguments.checks import checked_sequence
from jaxrob._codec import Array, Layout, document, from_json, to_json

_Flags = Annotated[np.ndarray, Array("N", "bool")]
_Classes = Annotated[np.ndarray, Array("N", "int32", at_least=0)]
# Rounding may carry a probability or a similarity beyond 1.
_MOST = 1 + 1e-5


@document("jaxrob attack 1")
class Attack(NamedTuple):
    """What an attack found, for each of N inputs.

    Attributes:
      images: float32 `[N, H, W, C]` in [0, 1], the adversarial examples; where there is
        none, the image as it was.
      success: bool `[N]`, whether an adversarial example was found: one for which the
        classifier predicts another class than the label. Only for images that are
        classified correctly as they are (Definition 7).
      similarity: float64 `[N]`, `structural_similarity` to the unaltered image; 0 where
        there is no adversarial example.
      distance: float64 `[N]`, the Euclidean norm of the perturbation; NaN likewise.
      correct: bool `[N]`, whether the unaltered image is classified correctly.
      labels: int32 `[N]`, the right classes.
      target: int32 `[N]`, the class aimed at; -1 if any wrong one would do.
      predicted: int32 `[N]`, the class predicted for `images`.
      confidence: float32 `[N]`, its probability; NaN if the outputs are "scores".
      vanished: bool `[N]`, whether nothing was found because the gradient was exactly
        0, or not finite, somewhere on the way. That says nothing of the image's
        robustness.
    """

    images: Annotated[
        np.ndarray, Layout(make=lambda axes: np.zeros((0, 0, 0, 0), np.float32))
    ]
    success: _Flags
    similarity: Annotated[np.ndarray, Array("N", at_least=-_MOST, at_most=_MOST)]
    distance: Annotated[np.ndarray, Array("N", at_least=0, may_be_nan=True)]
    correct: _Flags
    labels: _Classes
    target: Annotated[np.ndarray, Array("N", "int32", at_least=-1)]
    predicted: _Classes
    confidence: Annotated[
        np.ndarray, Array("N", "float32", at_least=0, at_most=_MOST, may_be_nan=True)
    ]
    vanished: _Flags

    def to_json(self) -> str:
        """What was found as JSON text, without the images. NaN becomes null."""
        return to_json(self)

    @staticmethod
    def from_json(text: str | bytes) -> "Attack":
        """An attack's result from the text that `to_json` gave. Nothing is executed.

        Returns:
          The result; its `images`, which the text lacks, are an array `[0, 0, 0, 0]`.

        Raises:
          TypeError: if it is not text.
          ValueError: if the text is not strict JSON, not of this format, a part is
            missing, unknown, outside its range or of a wrong type or length,
            contradicts the others, or is not what was written.
        """
        return from_json(text, Attack)


def most_adversarial(attacks: Sequence[Attack]) -> Attack:
    """Picks each image's most similar example among those of several attacks.

    Args:
      attacks: results for the same classifier, images and labels.

    Returns:
      For each input the result of the attack with the largest similarity; of equals,
      that of the first.

    Raises:
      ValueError: if no attack is given, or they are not of the same inputs.

    Source: Definition 7 of the 2020 paper.
    """
    wanted = "jaxrob.adversarial.Attack"
    attacks = checked_sequence("attacks", attacks, Attack, wanted)
    first = attacks[0]
    for attack in attacks:
        same = [
            np.array_equal(getattr(attack, name), getattr(first, name))
            for name in ("labels", "correct")
        ]
        if not all(same) or attack.images.shape != first.images.shape:
            raise ValueError(
                "attacks must be of the same classifier, images and labels"
            )
    # A failure must not beat an adversarial example of similarity 0 or less.
    similarity = np.stack([np.where(a.success, a.similarity, -np.inf) for a in attacks])
    best = similarity.argmax(axis=0)
    every = np.arange(len(best))
    found = Attack(*(np.stack(field)[best, every] for field in zip(*attacks)))
    # One that had a gradient, and failed, says something.
    vanished = np.all([attack.vanished for attack in attacks], axis=0)
    return found._replace(vanished=vanished)
