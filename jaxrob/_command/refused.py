"""What is said where the command is used in a way that cannot be right."""

import difflib
from collections.abc import Iterable


class Refused(Exception):
    """Wrong use, or bad input found before anything is computed: status 2."""


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """A hint at the name that was probably meant, or nothing."""
    # What tells "gaussian-blur" from "gaussian_blur" is no difference.
    plain = {one.lower().replace("_", ""): one for one in names}
    given = name.lower().replace("_", "").replace("-", "").replace(" ", "")
    close = difflib.get_close_matches(given, plain, n=1)
    # Of a name of several words, one is often meant to be enough.
    words = {}
    for one in plain.values():
        words |= {word: one for word in one.split("_") if word not in words}
    if not close and (near := difflib.get_close_matches(given, words, n=1)):
        return f" Did you mean {words[near[0]]}?"
    return f" Did you mean {plain[close[0]]}?" if close else ""
