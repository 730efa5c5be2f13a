"""Flags that several scripts share, each defined once.

A script gives its default, and the flag's special meaning there, if any:

    _THRESHOLD = define.threshold()
    _NUM_IMAGES = define.num_images(1000, "Test images at most, evenly picked.")
"""

from collections.abc import Sequence

from absl import flags

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


def epochs(default: int, help: str = "Training epochs.") -> flags.FlagHolder[int]:
    """`--epochs`, for scripts with a fixed default."""
    return flags.DEFINE_integer("epochs", default, help, 1)


def epochs_or_usual(
    help: str = "Training epochs; by default a number for the data set.",
) -> flags.FlagHolder[int | None]:
    """`--epochs`, None by default."""
    return flags.DEFINE_integer("epochs", None, help, 1)


def num_train(default: int) -> flags.FlagHolder[int]:
    """`--num_train`."""
    return flags.DEFINE_integer("num_train", default, "Training images at most.", 2)


def num_images(
    default: int, help: str = "Test images at most, the first ones."
) -> flags.FlagHolder[int]:
    """`--num_images`."""
    return flags.DEFINE_integer("num_images", default, help, 1)


def levels(default: int) -> flags.FlagHolder[int]:
    """`--levels`."""
    return flags.DEFINE_integer("levels", default, "Levels of each alteration.", 2)


def num_levels(default: int) -> flags.FlagHolder[int]:
    """`--num_levels`, of scripts that measure speed."""
    return flags.DEFINE_integer("num_levels", default, "Levels of each alteration.", 1)


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


def num_inputs(default: int) -> flags.FlagHolder[int]:
    """`--num_inputs`, of RoMA."""
    return flags.DEFINE_integer("num_inputs", default, "Inputs of RoMA at most.", 1)


def num_samples(default: int) -> flags.FlagHolder[int]:
    """`--num_samples`, of RoMA."""
    return flags.DEFINE_integer(
        "num_samples", default, "RoMA's plain draws an input, n.", 8
    )


def epsilon(default: float) -> flags.FlagHolder[float]:
    """`--epsilon`, of RoMA."""
    return flags.DEFINE_float("epsilon", default, "Radius of RoMA's ball.", 0)


def epsilon_or_usual(help: str) -> flags.FlagHolder[float | None]:
    """`--epsilon`, None by default."""
    return flags.DEFINE_float("epsilon", None, help, 0)


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


def seeds(default: int) -> flags.FlagHolder[int]:
    """`--seeds`, of scripts that train several networks of each kind."""
    return flags.DEFINE_integer("seeds", default, "Networks of each kind.", 1)


def output(default: str) -> flags.FlagHolder[str]:
    """`--output`."""
    return flags.DEFINE_string("output", default, "Folder written to.")


def progress() -> flags.FlagHolder[bool]:
    """`--progress`."""
    return flags.DEFINE_bool("progress", True, "Whether progress bars are shown.")
