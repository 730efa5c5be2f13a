"""The public API on random cases, against a slow reference in NumPy.

A failure names its cases. To run a single one:

    python tests/test_against_numpy.py NUMBER

or those of `range(FIRST, LAST, STEP)`, in one process, on all of its devices:

    python tests/test_against_numpy.py FIRST LAST STEP

The option `--cases=5000` tries more of them.
"""

import collections
import os
import pathlib
import subprocess
import sys
import tempfile
import traceback
import warnings

import jax
import numpy as np
import pytest

if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(__file__).with_name("reference")))

from against_numpy import Findings, assessed, evaluated
from random_cases import CASES_ALIKE, SEED, setting_of

import jaxrob


def run(numbers):
    """The disagreements, a text each, and tallies of what was compared."""
    texts, tally = [], collections.Counter()
    for number in numbers:
        if number % (10 * CASES_ALIKE) == 0:
            # Programs of earlier structures are of no use any more, and fill memory.
            jax.clear_caches()
        found, notes = run_case(number)
        tally += found.tally
        if found.disagreements:
            what = "\n  ".join(found.disagreements[:3])
            texts.append(f"case {number} ({'; '.join(notes)})\n  {what}")
    return texts, tally


def run_case(number):
    rng, found, notes = np.random.default_rng([SEED, number]), Findings(), []
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


@pytest.mark.slow
def test_random_cases(cases):
    disagreements, tally = run(range(cases // 6))
    assert not disagreements, report(disagreements)
    # Differences from rounding must be rare, or nothing was tested.
    assert tally["near ties that differ"] <= 1e-3 * tally["answers"], tally


@pytest.mark.slow
def test_random_cases_on_several_devices(cases):
    environment = {"JAX_NUM_CPU_DEVICES": "5", "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
    done = subprocess.run(
        [sys.executable, __file__, "0", str(cases), "40"],
        env=os.environ | environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
