"""Flags that several scripts share, each defined once.

A script gives its default, and the flag's special meaning there, if any:

    _THRESHOLD = define.threshold()
    _NUM_IMAGES = define.num_images(1000, "Test images at most, evenly picked.")
"""

from collections.abc import Callable, Sequence

from absl import app, flags

from common import classifiers
from jaxrob import roma

# `--help` then lists these flags under the script that defines them.
flags.disclaim_key_flags()


def dataset(*names: str) -> flags.FlagHolder[str]:
    """`--dataset`, one of the names; the first by default."""
    return flags.DEFINE_enum("dataset", names[0], names, "Data set.")


def data_dir() -> flags.FlagHolder[str | None]:
    """`--data_dir`."""
    return flags.DEFINE_string(
        "data_dir", None, "Folder of data sets; by default $JAXROB_DATA_DIR."
    )


def network(
    names: Sequence[str] = classifiers.GENERAL,
    default: str = "mnist_cnn",
    help: str = "Network.",
) -> flags.FlagHolder[str]:
    """`--network`, one of the names in `classifiers`."""
    return flags.DEFINE_enum("network", default, names, help)


def epochs_or_usual(
    help: str = "Training epochs; by default a number for the data set.",
) -> flags.FlagHolder[int | None]:
    """`--epochs`, None by default."""
    return flags.DEFINE_integer("epochs", None, help, 1)


def _integer(
    name: str, usual: str, least: int = 1
) -> Callable[..., flags.FlagHolder[int]]:
    """Defines a flag's function, of its default and its help."""

    def flag(default: int, help: str = usual) -> flags.FlagHolder[int]:
        return flags.DEFINE_integer(name, default, help, least)

    return flag


epochs = _integer("epochs", "Training epochs.")
num_train = _integer("num_train", "Training images at most.", 2)
num_images = _integer("num_images", "Test images at most, the first ones.")
levels = _integer("levels", "Levels of each alteration.", 2)
#: Of scripts that measure speed.
num_levels = _integer("num_levels", "Levels of each alteration.")
num_inputs = _integer("num_inputs", "Inputs of RoMA at most.")
num_samples = _integer("num_samples", "RoMA's plain draws an input, n.", 8)
#: Of scripts that train several networks of each kind.
seeds = _integer("seeds", "Networks of each kind.")


def repeats() -> flags.FlagHolder[int]:
    """`--repeats`, of scripts that measure speed."""
    return flags.DEFINE_integer("repeats", 5, "Timed runs of each.", 1)


def n() -> flags.FlagHolder[int]:
    """`--n`, of scripts that compare ASAP with a fine grid."""
    flag = flags.DEFINE_integer(
        "n", 1024, "ASAP's n, and the intervals of the grid; a power of 2.", 8
    )
    flags.register_validator(
        flag, lambda n: n & (n - 1) == 0, message="must be a power of 2"
    )
    return flag


def threshold() -> flags.FlagHolder[float]:
    """`--threshold`."""
    return flags.DEFINE_float("threshold", 0.8, "Lowest accepted accuracy.", 0, 1)


def threshold_or_usual(help: str) -> flags.FlagHolder[float | None]:
    """`--threshold`, None by default."""
    return flags.DEFINE_float("threshold", None, help, 0, 1)


def samples() -> flags.FlagHolder[int]:
    """`--samples`, of Bayesian networks."""
    return flags.DEFINE_integer("samples", 10, "Draws from the posterior, T.", 1)


def alpha() -> flags.FlagHolder[float]:
    """`--alpha`, of Bayesian networks."""
    return flags.DEFINE_float("alpha", 0.8, "Confidence level of an answer.", 0, 1)


def delta() -> flags.FlagHolder[float]:
    """`--delta`, of RoMA."""
    return flags.DEFINE_float("delta", 0.6, "Least confidence of a distinct answer.")


def epsilons(default: Sequence[str], help: str) -> flags.FlagHolder[list[str]]:
    """`--epsilons`, several radii of RoMA's ball."""
    return flags.DEFINE_list("epsilons", default, help)


def estimators(
    default: Sequence[str],
    allowed: Sequence[str] = roma.ESTIMATORS,
    help: str = "Estimators side by side",
) -> flags.FlagHolder[list[str]]:
    """`--estimators`, of RoMA."""
    return choices("estimators", default, allowed, help)


def budget() -> flags.FlagHolder[int]:
    """`--budget`, of RoMA's "auto"."""
    return flags.DEFINE_integer(
        "budget", 0, 'Forward passes for an input by "auto"; 0 for no limit.', 0
    )


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


def seed() -> flags.FlagHolder[int]:
    """`--seed`."""
    return flags.DEFINE_integer("seed", 0, "Random seed.", 0)


def output(default: str) -> flags.FlagHolder[str]:
    """`--output`."""
    return flags.DEFINE_string("output", default, "Folder written to.")


def progress() -> flags.FlagHolder[bool]:
    """`--progress`."""
    return flags.DEFINE_bool("progress", True, "Whether progress bars are shown.")


def numbers(name: str, texts: Sequence[str], kind: type = float) -> list:
    """Parses a flag's values as numbers."""
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
