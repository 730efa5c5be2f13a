"""How similar two images are."""

import jax
import jax.numpy as jnp
import numpy as np
from dm_pix import ssim

from jaxrob._arguments.checks import checked_array

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
