"""The error of wrong use of the command, and hints at misspelt names."""

import difflib
from collections.abc import Iterable


class Refused(Exception):
    """Wrong use, or bad input found before anything is computed: status 2."""


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Returns a hint at the name that was probably meant, or ""."""
    # Hyphens, underscores and case do not distinguish names.
    plain = {one.lower().replace("_", ""): one for one in names}
    given = name.lower().replace("_", "").replace("-", "").replace(" ", "")
    close = difflib.get_close_matches(given, plain, n=1)
    # One word of a longer name is often thought to suffice.
    words = {}
    for one in plain.values():
        words |= {word: one for word in one.split("_") if word not in words}
    if not close and (near := difflib.get_close_matches(given, words, n=1)):
        return f" Did you mean {words[near[0]]}?"
    return f" Did you mean {plain[close[0]]}?" if close else ""
