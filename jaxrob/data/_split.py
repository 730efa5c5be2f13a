"""The two parts of most data sets."""

from jaxrob._arguments.checks import check_choice

SPLITS = ("test", "train")


def check_split(split: str) -> None:
    """Rejects a split that is neither "test" nor "train"."""
    check_choice("split", split, SPLITS)
