"""Runs cases, and says what differs from the reference.

    python tests/reference/random_cases/run.py NUMBER

runs one case;

    python tests/reference/random_cases/run.py FIRST LAST STEP

those of `range(FIRST, LAST, STEP)`, in this process, on all of its devices.
"""

import collections
import pathlib
import sys
import tempfile
import traceback
import warnings

import jax
import numpy as np

if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

import jaxrob
from random_cases import draw
from random_cases.agreement import Findings
from random_cases.assessing import assessed
from random_cases.evaluating import evaluated
from random_cases.setting import setting_of


def run(numbers):
    """The disagreements, a text each, and tallies of what was compared."""
    texts, tally = [], collections.Counter()
    for number in numbers:
        if number % (10 * draw.CASES_ALIKE) == 0:
            # Programs of earlier structures are of no use any more, and fill memory.
            jax.clear_caches()
        found, notes = run_case(number)
        tally += found.tally
        if found.disagreements:
            what = "\n  ".join(found.disagreements[:3])
            texts.append(f"case {number} ({'; '.join(notes)})\n  {what}")
    return texts, tally


def run_case(number):
    """One case's findings, and what it drew in words."""
    rng, found, notes = np.random.default_rng([draw.SEED, number]), Findings(), []
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        # Random networks do what deserves a warning.
        warnings.simplefilter("ignore", jaxrob.RobustnessWarning)
        try:
            setting = setting_of(number, rng, folder)
            notes = setting.notes
            question_of(rng)(found, rng, setting)
        except Exception as error:  # Reported with its case.
            lines = traceback.format_exception(error)
            found.disagreements.append("".join(lines)[-1500:])
    return found, notes


def question_of(rng):
    """Which function of the library the case calls."""
    return evaluated if rng.random() < 0.4 else assessed


def report(disagreements):
    """The shortest few, because those are the easiest to look into."""
    few = sorted(disagreements, key=len)[:5]
    return f"{len(disagreements)} cases disagree with NumPy:\n" + "\n".join(few)


def main(first, last=None, step=1):
    disagreements, tally = run(range(first, first + 1 if last is None else last, step))
    print(f"compared {dict(tally)}")
    if disagreements:
        sys.exit(report(disagreements))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
