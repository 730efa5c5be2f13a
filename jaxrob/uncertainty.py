"""How uncertain a prediction is, from the probabilities of posterior samples."""

import jax
import jax.numpy as jnp


def aleatoric(log_probabilities: jax.Array) -> jax.Array:
    """Aleatoric uncertainty, normalised to [0, 1].

    The trace of the aleatoric part of Kwon et al. (2020), the mean over samples of
    `diag(p) - p p'`, which is `1 - mean_t sum_k p_tk**2`, over its largest value
    `1 - 1/K`, reached where every sample is uniform over the K classes.

    Args:
      log_probabilities: `[S, ..., K]` for S posterior samples and K classes.

    Returns:
      `[...]`, in [0, 1].
    """
    num_classes = log_probabilities.shape[-1]
    squares = jnp.sum(jnp.exp(2 * log_probabilities), axis=-1)
    uncertainty = (1 - jnp.mean(squares, axis=0)) / (1 - 1 / num_classes)
    return jnp.clip(uncertainty, 0.0, 1.0)  # rounding may leave the range


def unknown_threshold(alpha: float) -> float:
    """The normalised uncertainty above which a prediction is "unknown".

    `maxUnc (1 - alpha)` of the 2024 paper, section 3, with the uncertainty normalised
    so that maxUnc is 1.

    Args:
      alpha: the confidence level asked for, in [0, 1]; 0 never gives "unknown".

    Raises:
      ValueError: if alpha lies outside [0, 1].
    """
    if not 0 <= alpha <= 1:
        raise ValueError(f"alpha must lie in [0, 1]; got {alpha}")
    return 1.0 - alpha
