"""What a run would take: passes of the network."""

from collections.abc import Sequence

import jaxrob
from jaxrob._arguments.texts import counted
from jaxrob._command.subject import Subject
from jaxrob.strategies import ASAP, FewImages, Including, Strategy, Uniform

# The levels that ASAP asks for: at least, usually, and at most, unless a curve crosses
# the threshold many times.
_OF_ASAP = (9, 16, 30)


def of_levels(
    subject: Subject,
    altered: Sequence[jaxrob.Alteration],
    strategy: Strategy,
) -> None:
    """Prints the passes of an assessment; of few images, the most of them."""
    few = strategy if isinstance(strategy, FewImages) else None
    strategy = few.strategy if few is not None else strategy
    images = len(subject.dataset)
    fewest, number, most = _levels(strategy)
    about = "" if fewest == most else "about "
    levels = f"{number} levels"
    if about:
        levels = f"about {levels} ({fewest} to {most})"
    for one in altered:
        print(f"  {one.name} [{one.lower:g}, {one.upper:g}] {one.unit}".rstrip())
    passes = images * number * len(altered)
    print(
        f"{counted(images, 'image')} x {levels} x "
        f"{counted(len(altered), 'alteration')}: {about}{passes:,} forward passes"
    )
    if few is not None:
        passes = min(passes, few.budget or passes)
        print(f"{_said(few)}: at most about {passes:,} of these")


def _levels(strategy: Strategy) -> tuple[int, int, int]:
    if isinstance(strategy, Including):
        fewest, number, most = _levels(strategy.strategy)
        more = len(strategy.levels)
        return fewest + more, number + more, most + more
    if isinstance(strategy, Uniform):
        return strategy.n, strategy.n, strategy.n
    assert isinstance(strategy, ASAP)  # The command has no other strategies.
    return _OF_ASAP


def _said(few: FewImages) -> str:
    said = [] if few.half_width is None else [f"--half_width={few.half_width:g}"]
    said += [] if few.budget is None else [f"--budget={few.budget}"]
    return " ".join(said + ["--curtail"] * few.curtail)
