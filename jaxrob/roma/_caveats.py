"""What answers may miss without notice, in words."""

import numpy as np

from jaxrob.roma._estimate import UNDECIDED

_BY_STATUS = {
    "normal": (
        "a normal distribution fitted to plain draws is assumed to hold beyond them; "
        "how far that is off is not known: rare probabilities come out too high, often "
        "tenfold and up to 20,000-fold"
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
        "the upper bound, `log_high`, holds for the parts of the ball that gradients "
        "and particles found"
    ),
    "undecided": (
        "the budget allowed for plain draws alone, which had hardly a hit; only their "
        "interval is known"
    ),
    "unseen": (
        "not looked at; the mean of each category was known within the half width "
        "asked for without them"
    ),
}
_SAME = {"transformed": "normal"}


def caveats(status: np.ndarray, needed: np.ndarray | None = None) -> tuple[str, ...]:
    """A sentence for each kind of answer that is missing, or may be wrong."""
    found = []
    for kind, words in _BY_STATUS.items():
        mine = [name for name in np.unique(status) if _SAME.get(name, name) == kind]
        if mine:
            number = np.isin(status, mine).sum()
            if kind == UNDECIDED and needed is not None:
                words += _more_costs(needed[status == UNDECIDED])
            found.append(f"{', '.join(mine)} ({number} of {len(status)}): {words}")
    return tuple(found)


def _more_costs(needed: np.ndarray) -> str:
    least, most = (float(f"{some:.1g}") for some in (needed.min(), needed.max()))
    passes = f"{most:,.0f}" if least == most else f"{least:,.0f} to {most:,.0f}"
    return (
        f". Without a limit (budget=math.inf, --budget=0) each takes about {passes} "
        "forward passes"
    )
