"""The two parts that most data sets come in."""

from jaxrob._arguments.checks import check_choice

SPLITS = ("test", "train")


def check_split(split: str) -> None:
    """Refuses a split that is neither "test" nor "train"."""
    check_choice("split", split, SPLITS)
