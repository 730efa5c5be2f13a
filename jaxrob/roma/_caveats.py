"""What answers may miss without notice, in words."""

import numpy as np

_BY_STATUS = {
    "normal": (
        "a normal distribution fitted to plain draws is read beyond them; how far that "
        "is off is not known"
    ),
    "importance": (
        "the parts of the ball that count were sought by gradients from 16 to 64 "
        "starts in and far around it, and by particles without gradients; a part that "
        "is behind others nearly everywhere, because the margin is much steeper there, "
        "may have been missed, and so may a class that nothing came near"
    ),
    "splitting": (
        "particles climbed towards the boundary; a part of the ball that is behind "
        "others until late, because the margin is much steeper there, may have been "
        "missed"
    ),
    "bounded": (
        "the upper bound holds for the parts of the ball that gradients and particles "
        "found"
    ),
    "unseen": (
        "not looked at; the mean of each category was known to the precision asked for "
        "without them"
    ),
}
_SAME = {"transformed": "normal", "extrapolated": "normal"}


def caveats(status: np.ndarray) -> tuple[str, ...]:
    """A sentence for each kind of answer that is missing, or may be wrong.

    Args:
      status: `[N]`, as of `RomaResult`.
    """
    found = []
    for kind, words in _BY_STATUS.items():
        mine = [name for name in np.unique(status) if _SAME.get(name, name) == kind]
        if mine:
            number = np.isin(status, mine).sum()
            found.append(f"{', '.join(mine)} ({number} of {len(status)}): {words}")
    return tuple(found)
