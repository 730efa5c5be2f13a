"""The public API on random cases, against a slow reference in NumPy.

A failure names its cases. To run a single one:

    python tests/reference/random_cases/run.py NUMBER

The option `--cases=5000` tries more of them.
"""

import os
import pathlib
import subprocess
import sys

import pytest
from random_cases import run

SCRIPT = pathlib.Path(run.__file__)


@pytest.mark.slow
def test_random_cases(cases):
    disagreements, tally = run.run(range(cases // 6))
    assert not disagreements, run.report(disagreements)
    # Differences from rounding must be rare, or nothing was tested.
    assert tally["near ties that differ"] <= 1e-3 * tally["answers"], tally


@pytest.mark.slow
def test_random_cases_on_several_devices(cases):
    environment = {
        "JAX_NUM_CPU_DEVICES": "5",
        "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",
    }
    done = subprocess.run(
        [sys.executable, SCRIPT, "0", str(cases), "40"],
        env=os.environ | environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
