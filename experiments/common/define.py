"""Flags that several scripts share, each defined once.

A script gives its default, and the flag's special meaning there, if any:

    _THRESHOLD = define.threshold()
    _NUM_IMAGES = define.num_images(1000, "Test images at most, evenly picked.")
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

from absl import app, flags

from common import classifiers
from jaxrob import roma

# `--help` then lists these flags under the script that defines them.
flags.disclaim_key_flags()


def _flag(
    define: Callable[..., Any], name: str, usual: Any, what: str, *bounds: float
) -> Callable[..., flags.FlagHolder[Any]]:
    """Defines a flag's function, of its default and its help."""

    def flag(default: Any = usual, help: str = what) -> flags.FlagHolder[Any]:
        return define(name, default, help, *bounds)

    return flag


_integer = functools.partial(_flag, flags.DEFINE_integer)
_float = functools.partial(_flag, flags.DEFINE_float)
_text = functools.partial(_flag, flags.DEFINE_string)

data_dir = _text("data_dir", None, "Folder of data sets; by default $JAXROB_DATA_DIR.")
output = _text("output", None, "Folder written to.")
progress = _flag(
    flags.DEFINE_bool, "progress", True, "Whether progress bars are shown."
)
epochs = _integer("epochs", None, "Training epochs.", 1)
num_train = _integer("num_train", None, "Training images at most.", 2)
num_images = _integer("num_images", None, "Test images at most, the first ones.", 1)
levels = _integer("levels", None, "Levels of each alteration.", 2)
threshold = _float("threshold", 0.8, "Lowest accepted accuracy.", 0, 1)
seed = _integer("seed", 0, "Random seed.", 0)
# Of scripts that measure speed.
num_levels = _integer("num_levels", None, "Levels of each alteration.", 1)
repeats = _integer("repeats", 5, "Timed runs of each.", 1)
# Of RoMA.
num_inputs = _integer("num_inputs", None, "Inputs of RoMA at most.", 1)
num_samples = _integer("num_samples", None, "RoMA's plain draws an input, n.", 8)
delta = _float("delta", 0.6, "Least confidence of a distinct answer.")
epsilons = _flag(flags.DEFINE_list, "epsilons", None, "Radii.")
budget = _integer(
    "budget", 0, 'Forward passes for an input by "auto"; 0 for no limit.', 0
)
# Of scripts that train several networks of each kind, or Bayesian ones.
seeds = _integer("seeds", None, "Networks of each kind.", 1)
samples = _integer("samples", 10, "Draws from the posterior, T.", 1)
alpha = _float("alpha", 0.8, "Confidence level of an answer.", 0, 1)


def epochs_or_usual(
    help: str = "Training epochs; by default a number for the data set.",
) -> flags.FlagHolder[int | None]:
    return epochs(None, help)


def dataset(*names: str) -> flags.FlagHolder[str]:
    return flags.DEFINE_enum("dataset", names[0], names, "Data set.")


def network(
    names: Sequence[str] = classifiers.GENERAL,
    default: str = "mnist_cnn",
    help: str = "Network.",
) -> flags.FlagHolder[str]:
    return flags.DEFINE_enum("network", default, names, help)


def n() -> flags.FlagHolder[int]:
    """`--n`, of scripts that compare ASAP with a fine grid."""
    about = "ASAP's n, and the intervals of the grid; a power of 2."
    flag = flags.DEFINE_integer("n", 1024, about, 8)
    flags.register_validator(flag, lambda n: n & (n - 1) == 0, "must be a power of 2")
    return flag


def estimators(
    default: Sequence[str],
    allowed: Sequence[str] = roma.ESTIMATORS,
    help: str = "Estimators side by side",
) -> flags.FlagHolder[list[str]]:
    return choices("estimators", default, allowed, help)


def choices(
    name: str, default: Sequence[str], allowed: Sequence[str], help: str
) -> flags.FlagHolder[list[str]]:
    """Defines a flag of some of the allowed texts, separated by commas."""
    flag = flags.DEFINE_list(name, default, f"{help}, of {', '.join(allowed)}.")
    flags.register_validator(
        flag,
        lambda texts: set(texts) <= set(allowed),
        message=f"must be among {', '.join(allowed)}",
    )
    return flag


def numbers(name: str, texts: Sequence[str], kind: type = float) -> list:
    try:
        return [kind(text) for text in texts]
    except ValueError as error:
        raise app.UsageError(f"{name} must be numbers: {error}") from None


def probabilities(texts: Sequence[str]) -> list[float]:
    """Parses a flag's values as probabilities below 1/2."""
    found = numbers("probabilities", texts)
    if any(not 0 < p < 0.5 for p in found):
        raise app.UsageError(f"probabilities must lie between 0 and 1/2; got {found}")
    return found
