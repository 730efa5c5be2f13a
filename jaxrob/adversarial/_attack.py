"""What every attack returns, and how similar its images are."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from dm_pix import ssim

from jaxrob._arguments.checks import checked_array, checked_sequence
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


# Wang et al. (2004), for pixels in [0, 1].
_C1 = 0.01**2
_C2 = 0.03**2
_FILTER_SIZE = 11


def structural_similarity(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """How similar two images are: structural similarity, the image as one window.

    S(p, q) = (2 mu_p mu_q + c1) (2 sigma_pq + c2)
              / ((mu_p^2 + mu_q^2 + c1) (sigma_p^2 + sigma_q^2 + c2))

    with the means, variances and the covariance of all pixels in all channels. The
    definition names neither the constants nor the divisor of the variances: here
    c1 = 0.01^2 and c2 = 0.03^2 (Wang et al., 2004, for pixels in [0, 1]) and the number
    of values. It is computed in float64, because an adversarial example may be so
    similar that float32 cannot tell it from the image.

    Args:
      a: images `[N, H, W, C]` in [0, 1].
      b: images of the same shape.

    Returns:
      float64 `[N]` in [-1, 1], 1 where the images are identical; below 0 only where
      they are negatively correlated, which the definition does not foresee.

    Raises:
      ValueError: if the shapes differ or are not `[N, H, W, C]`.

    Source: Definition 6 of the 2020 paper; Brunet, Vrscay and Wang, "On the
    mathematical properties of the structural similarity index" (2012).
    """
    a, b = _checked_pair(a, b)
    a, b = (x.reshape(len(x), -1).astype(np.float64) for x in (a, b))
    # Each factor as 1 less something small: 2 x y = x^2 + y^2 - (x - y)^2.
    mean_a, mean_b, variances = a.mean(1), b.mean(1), a.var(1) + b.var(1)
    luminance = (mean_a - mean_b) ** 2 / (mean_a**2 + mean_b**2 + _C1)
    structure = (a - b).var(1) / (variances + _C2)
    return (1 - luminance) * (1 - structure)


def windowed_similarity(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """How similar two images are: mean structural similarity over Gaussian windows.

    It is `dm_pix.ssim`'s, that of Wang et al. (2004): windows of 11 x 11 pixels with a
    standard deviation of 1.5, of each channel alone.

    Args:
      a: images `[N, H, W, C]` in [0, 1], at least 11 x 11.
      b: images of the same shape.

    Returns:
      float64 `[N]` in [-1, 1], computed in float32.

    Raises:
      ValueError: if the shapes differ, are not `[N, H, W, C]` or are too small.
    """
    a, b = _checked_pair(a, b)
    if min(a.shape[1:3]) < _FILTER_SIZE:
        raise ValueError(
            f"images must be at least {_FILTER_SIZE} x {_FILTER_SIZE} for windows of "
            f"that size; got the shape {a.shape}"
        )
    similarity = _windowed(jnp.asarray(a, jnp.float32), jnp.asarray(b, jnp.float32))
    return np.asarray(similarity, np.float64)


@jax.jit
def _windowed(a: jax.Array, b: jax.Array) -> jax.Array:
    # One image after the other: the filter of many at once would keep all its maps.
    return jax.lax.map(lambda pair: ssim(*pair), (a, b))


def _checked_pair(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    axes: dict[str, int] = {}
    shape = "N, H, W, C"
    a = checked_array("a", a, shape, at_least=0, at_most=1, axes=axes)
    b = checked_array("b", b, shape, at_least=0, at_most=1, axes=axes)
    for name, x in (("a", a), ("b", b)):
        if not jnp.issubdtype(x.dtype, jnp.floating):
            raise TypeError(f"{name} must be floating, in [0, 1]; got {x.dtype}")
    return a, b
