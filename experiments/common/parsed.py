"""Flags that are lists of numbers."""

from collections.abc import Sequence

from absl import app


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
