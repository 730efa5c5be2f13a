"""The two parts that most data sets come in."""

SPLITS = ("test", "train")


def check_split(split: str) -> None:
    """Raises a ValueError unless `split` is "test" or "train"."""
    if split not in SPLITS:
        raise ValueError(f"split must be one of {SPLITS}, got {split!r}")
