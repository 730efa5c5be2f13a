"""The power that a GPU draws, as its driver says."""

import shutil
import statistics
import subprocess
import time
from collections.abc import Callable


def watts(run: Callable[[], object], seconds: float = 3.0) -> float | None:
    """Returns the mean power while `run` is repeated; None without nvidia-smi."""
    if shutil.which("nvidia-smi") is None:
        return None
    # Of the first GPU, ten times a second.
    asked = subprocess.Popen(
        ["nvidia-smi", "--id=0", "--query-gpu=power.draw", "--loop-ms=100"]
        + ["--format=csv,noheader,nounits"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        run()
    asked.terminate()
    said, _ = asked.communicate()
    found = [float(line) for line in said.split() if line.replace(".", "").isdecimal()]
    # Those of the first half may still rise.
    return statistics.fmean(found[len(found) // 2 :]) if found else None
