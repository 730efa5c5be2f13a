"""Calls every public function with one wrong argument, and classifies the errors.

Each valid call is repeated with one argument replaced by a value such as None, NaN, -1,
2**70, a text, an array of another shape. The package must reject it itself, before
anything is compiled, with a message that names the argument and its value. Calls that
return something instead are listed, because it may be a silent wrong answer.
"""

import collections
import contextlib
import os
import pathlib
import random
import tempfile
import warnings
from collections.abc import Iterator, Sequence

import matplotlib
from absl import app, flags
from checks.cases import Case
from checks.hostile import VALUES
from checks.of_frameworks import of_frameworks
from checks.of_images import of_images
from checks.of_numbers import of_numbers
from checks.of_steps import of_steps
from checks.of_training import of_training
from checks.outcomes import Outcome, outcome
from common import files

_COUNT = flags.DEFINE_integer("count", 3000, "Wrong calls.", 1)
_SEED = flags.DEFINE_integer("seed", 0, "Which they are, of all that there are.")
_OUT = flags.DEFINE_string("out", None, "File for all outcomes, as JSON.")
_VALID = flags.DEFINE_bool("valid", True, "Whether the valid calls are made first.")

#: The least share of refusals that must be the package's own.
LEAST_SHARE = 0.98


def chosen(cases: Sequence[Case], count: int, seed: int) -> list[tuple[Case, str, str]]:
    """Samples pairs of an argument and a value, balanced over the functions."""
    rng = random.Random(seed)
    by_case = []
    for one in cases:
        pairs = [(one, name, value) for name in one.arguments for value in VALUES]
        rng.shuffle(pairs)
        by_case.append(pairs)
    found: list[tuple[Case, str, str]] = []
    while len(found) < count and any(by_case):
        found += [pairs.pop() for pairs in by_case if pairs]
    return found[:count]


def share_of_ours(outcomes: Sequence[Outcome]) -> float:
    """Returns the share of all rejections that the package made itself."""
    kinds = collections.Counter(one.kind for one in outcomes)
    return kinds["ours"] / (kinds["ours"] + kinds["theirs"])


@contextlib.contextmanager
def all_cases() -> Iterator[list[Case]]:
    """Yields the cases, in a folder that is removed afterwards."""
    matplotlib.use("Agg")
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder)
        # Calls with allowed values may write files.
        os.chdir(path)
        try:
            yield [
                *of_numbers(),
                *of_images(path),
                *of_training(path),
                *of_steps(),
                *of_frameworks(path),
            ]
        finally:
            os.chdir(before)


def _print_table(title: str, outcomes: Sequence[Outcome]) -> None:
    if outcomes:
        print(f"\n{title}:")
    for one in sorted(outcomes):
        said = " ".join(one.said.split())[:150]
        print(f"  {one.case}({one.argument}={one.value}): {said}")


def main(argv: Sequence[str]) -> int | None:
    """Makes the calls and prints their outcomes."""
    del argv
    warnings.simplefilter("ignore")
    out = _OUT.value and pathlib.Path(_OUT.value).absolute()
    with all_cases() as cases:
        for one in cases if _VALID.value else ():
            one.function(**{name: each.value for name, each in one.arguments.items()})
        picked = chosen(cases, _COUNT.value, _SEED.value)
        outcomes = [outcome(*one) for one in picked]
    of = collections.defaultdict(list)
    for one in outcomes:
        of[one.kind].append(one)
    _print_table("Allowed, and returned", of["allowed"])
    _print_table("Refused by others", of["theirs"])
    compiled = [one for one in of["ours"] if one.programs]
    _print_table("Refused after something was compiled", compiled)
    _print_table("RETURNED, WHICH MUST NOT BE", of["wrong"])
    share = share_of_ours(outcomes)
    print(
        f"\n{len(outcomes)} calls of {len(cases)} functions: {len(of['ours'])} refused "
        f"by jaxrob, {len(of['theirs'])} by others, {len(of['allowed'])} allowed, "
        f"{len(of['wrong'])} wrong; {share:.2%} of the refusals are jaxrob's, the "
        f"slowest after {max(one.seconds for one in of['ours']):.2f} s"
    )
    if out:
        files.write_json(out, [one._asdict() for one in outcomes])
    if of["wrong"] or share < LEAST_SHARE:
        return 1


if __name__ == "__main__":
    app.run(main)
