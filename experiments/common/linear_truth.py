"""Exact probabilities that a linear function exceeds a threshold in a unit ball."""

from collections.abc import Callable

import numpy as np
from scipy import integrate, optimize, stats


def linear_linf_log_probability(a: np.ndarray, t: float) -> float:
    """Log P(a . u >= t) for u uniform in [-1, 1]^d, for d at least 3, within 1e-9."""
    # The inverse Laplace transform along a line through its saddle point (Lugannani and
    # Rice, 1980), where the integrand hardly cancels.
    a = np.abs(np.asarray(a, np.float64))
    a = a[a > 0]
    if t < 0:
        return np.log1p(-np.exp(linear_linf_log_probability(a, -t)))

    def cumulant(z: complex) -> complex:
        # log(sinh(a z) / (a z)), without overflow.
        az = a * z
        return (az + np.log(-np.expm1(-2 * az)) - np.log(2 * az)).sum()

    def slope(theta: float) -> float:
        return (a / np.tanh(a * theta) - 1 / theta).sum() - t

    deviation = np.sqrt((a**2).sum() / 3)
    # Away from the pole at 0.
    theta, high = 1 / deviation, 2 / deviation
    if slope(theta) < 0:
        while slope(high) < 0:
            high *= 2
        theta = optimize.root_scalar(slope, bracket=(theta, high)).root
    top = cumulant(theta) - theta * t

    def integrand(w: float) -> float:
        z = theta + 1j * w / deviation
        return (np.exp(cumulant(z) - z * t - top) / z).real

    area = integrate.quad(integrand, 0, np.inf, limit=1000, epsabs=0, epsrel=1e-9)[0]
    return top + np.log(area / (np.pi * deviation))


def linear_l2_log_probability(a_norm: float, dim: int, t: float) -> float:
    """Log P(a . u >= t) for u uniform in the unit ball of `dim` dimensions."""
    # For a coordinate s of u, (1 + s) / 2 ~ Beta((dim + 1) / 2, the same).
    half = (dim + 1) / 2
    return float(stats.beta.logsf((1 + t / a_norm) / 2, half, half))


def threshold(
    log_probability: Callable[[float], float], log_p: float, high: float
) -> float:
    """Finds t in (0, high) at which a decreasing `log_probability(t)` is `log_p`."""
    return optimize.root_scalar(
        lambda t: log_probability(t) - log_p, bracket=(0, high), xtol=1e-12
    ).root
