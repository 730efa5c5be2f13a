"""Checks of the paper's findings, a line each."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from common import intervals
from scipy import stats

import jaxrob
from cnn_2020.results import METHODS, NETWORKS, Found, Seed, mean

# Their gain in clean accuracy over the original [points].
_PAPER_ACCURACY = {"DA": 0.11, "LDA": 0.18, "NP": 0.64, "LNP": 0.05}


def findings(
    seeds: Sequence[Seed], alterations: Sequence[jaxrob.Alteration]
) -> list[str]:
    """Returns all findings, with 95 % intervals over the seeds."""

    def rob(name: str) -> np.ndarray:
        return np.array([np.mean(seed[name]["robustness"]) for seed in seeds])

    def acc(name: str) -> np.ndarray:
        return np.array([seed[name]["accuracy"] for seed in seeds])

    lines = ["findings; differences in percentage points [95 % interval over seeds]"]
    fewer = mean(seeds, "LDA", "input_size") < mean(seeds, "DA", "input_size")
    lines += [
        _line("robustness LDA - DA (paper: +2.48)", rob("LDA") - rob("DA"), equal=True)
        + f"; of {'fewer' if fewer else 'more'} inputs",
        _line("robustness NP - original (paper: +6.71)", rob("NP") - rob("original")),
        _line("robustness DA - NP (paper: +14.63)", rob("DA") - rob("NP")),
        _line("robustness LDA - LNP (paper: +16.20)", rob("LDA") - rob("LNP")),
        _line("robustness LNP - NP (paper: +0.91)", rob("LNP") - rob("NP"), equal=True),
    ]
    for name in METHODS:
        paper = ""
        if name in _PAPER_ACCURACY:
            paper = f" (paper: +{_PAPER_ACCURACY[name]:.2f})"
        lines.append(
            _line(
                f"accuracy on unaltered images {name} - original{paper}",
                acc(name) - acc("original"),
                equal=True,
            )
        )
    for name in METHODS:
        gains = [_gains(seed["original"], seed[name], alterations) for seed in seeds]
        far, near = np.transpose(gains)
        lines.append(
            _line(f"accuracy gained by {name}, far levels - near ones", far - near)
        )
    lines.append(_line("robustness WL - DA (not in the paper)", rob("WL") - rob("DA")))
    lines.append(_line("robustness WL - LDA (likewise)", rob("WL") - rob("LDA")))
    if seeds[0]["original"]["adversariability"] is not None:
        lines.append(_correlation(seeds))
    return lines


def _gains(
    original: Found, retrained: Found, alterations: Sequence[jaxrob.Alteration]
) -> tuple[float, float]:
    """Returns the mean accuracy gained in the outer and in the inner half of the range.

    Over the alterations to which the original's robustness is below 100 %.
    """
    far, near = [], []
    for i, alteration in enumerate(alterations):
        if original["robustness"][i] == 1:
            continue
        levels = np.array(original["curves"][i]["levels"])
        away = levels - alteration.identity
        end = np.where(away < 0, alteration.lower, alteration.upper)
        span = np.where(away == 0, 1.0, end - alteration.identity)
        share = away / span
        gain = np.subtract(
            retrained["curves"][i]["accuracy"], original["curves"][i]["accuracy"]
        )
        far.append(gain[share > 0.5].mean())
        near.append(gain[share <= 0.5].mean())
    if not far:
        return 0.0, 0.0
    return float(np.mean(far)), float(np.mean(near))


def _line(what: str, differences: np.ndarray, equal: bool = False) -> str:
    """Formats a difference with its interval and verdict; `equal`: 0 also counts."""
    text = f"{what}: {100 * np.mean(differences):+.2f}"
    if len(differences) < 2:
        return f"{text}; one seed, no interval"
    if np.ptp(differences) < 1e-9:
        # Robustness is a multiple of one level's share.
        return f"{text} for every seed; no interval"
    low, high = intervals.student_t(100 * differences)
    if low > 0:
        verdict = "holds"
    elif high < 0:
        verdict = "does not hold"
    else:
        verdict = "equal within the interval" if equal else "not decided"
    return f"{text} [{low:+.2f}, {high:+.2f}]; {verdict}"


def _correlation(seeds: Sequence[Seed]) -> str:
    """Returns the correlation of robustness and adversariability over method means."""
    robustness = [mean(seeds, name, "robustness").mean() for name in NETWORKS]
    score = [mean(seeds, name, "adversariability") for name in NETWORKS]
    found: Any = stats.spearmanr(robustness, score)
    verdict = "no correlation shown" if found.pvalue > 0.05 else "correlated"
    return (
        f"robustness and adversariability, rank correlation over the {len(NETWORKS)} "
        f"networks' means: {found.statistic:+.2f}, p = {found.pvalue:.2f}; {verdict}"
    )
