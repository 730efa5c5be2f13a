"""Mistaken values of flags and words, usually from an unset variable."""

from collections.abc import Sequence

from jaxrob._command.define import Values
from jaxrob._command.refused import Refused


def check(values: Values, words: Sequence[str], expected: str) -> None:
    """Rejects empty values, and flags that were taken as the value of another."""
    for name in values:
        if not values[name].present:
            continue
        value = values[name].value
        texts = value if isinstance(value, list) else [value]
        if not texts or any(isinstance(one, str) and not one.strip() for one in texts):
            raise Refused(f"--{name}: its value is empty; leave it out, or say one")
        for one in texts:
            if isinstance(one, str) and one.startswith("--"):
                raise Refused(f"--{name}: its value is missing; the next is {one}")
    for number, word in enumerate(words):
        if not word.strip():
            raise Refused(
                f"the argument {number + 1} is empty; expected {expected or 'flags'}"
            )
