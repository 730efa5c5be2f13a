"""The progress bar of a run, which says once how long the rest takes."""

import sys
import time
from typing import Any

from tqdm.auto import tqdm

# Shorter runs need no word.
_LEAST_SECONDS = 10.0
# Measured so long, a pace is known.
_ENOUGH_SECONDS = 0.5


class Bar(tqdm):
    """A progress bar that says how long the rest takes, if that is long.

    Its total is what was asked for so far: an adaptive search may ask for more.
    """

    _asked = 0
    _first: tuple[float, float] | None = None
    _is_said = False

    def update(self, n: float | None = 1) -> bool | None:
        """Counts computed answers, or what costs as much."""
        shown = super().update(n)
        if self.disable or self._is_said:
            return shown
        now = time.perf_counter()
        if self._first is None:
            # The first step compiles, so the pace is that of those after it.
            self._first = now, self.n
            return shown
        since, number = now - self._first[0], self.n - self._first[1]
        left = (self.total or 0) - self.n
        if since >= _ENOUGH_SECONDS and left * since >= _LEAST_SECONDS * number:
            self._is_said = True
            line = f"jaxrob: {left:,} {self.unit}s are left, about "
            with tqdm.external_write_mode(file=sys.stderr):
                print(line + _duration(left * since / number), file=sys.stderr)
        return shown

    def ask(self, number: int) -> None:
        """Takes notice of answers that are asked for: the total is at least these."""
        self._asked += number
        self.total = max(self.total or 0, self._asked)
        self.refresh()

    def skip(self, number: int) -> None:
        """Counts answers that were known."""
        super().update(number)

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        """Closes the bar, which is full if there was no error."""
        if error is None and self.total:
            self.total = self.n
        self.close()


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{max(1, round(seconds))} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
