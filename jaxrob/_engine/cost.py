"""What a run costs, said as soon as its pace is known."""

import contextlib
import contextvars
import dataclasses
import math
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from jax import monitoring
from tqdm.auto import tqdm

from jaxrob._devices.host_function import CALLED
from jaxrob._devices.hosts import is_first

#: Of fewer images, fewer or as few as the answer takes are no advice.
FEW_IMAGES = 500
# Shorter runs need no word.
_LEAST_SECONDS = 10.0
# Measured so long, a pace is known.
_ENOUGH_SECONDS = 0.5
# Steps or calls of more images than this many times the largest so far are another
# pace: small ones mostly wait.
_LARGER = 2
# An upper end of seconds is longer by this: later passes may be slower than the first,
# and more may be compiled.
_MARGIN = 1.25
_COMPILED = "/jax/core/compile/backend_compile_duration"


class Cost(NamedTuple):
    """The passes of the network that a run takes: altered images to classify.

    Attributes:
      fewest: at least so many; 0 if nothing is known.
      most: at most so many, about.
      cheaper: what would make the run cheaper, in words; "" for nothing.
      usual: so many, usually; None if that is not known.
      note: what else to know before the run, in words; or None.
    """

    fewest: int
    most: int
    cheaper: str
    usual: int | None = None
    note: str | None = None

    @property
    def expected(self) -> float:
        """The number to expect: of two bounds alone the middle of their orders."""
        if self.usual is not None:
            return self.usual
        return math.sqrt(self.fewest * self.most) if self.fewest else self.most

    def times(self, number: int) -> "Cost":
        """Returns the cost of several such runs."""
        return self._changed(lambda passes: passes * number)

    def less(self, known: int) -> "Cost":
        """Returns the cost if some answers are known."""
        return self._changed(lambda passes: max(0, passes - known))

    def _changed(self, change: Callable[[int], int]) -> "Cost":
        usual = None if self.usual is None else change(self.usual)
        fewest, most = change(self.fewest), change(self.most)
        return self._replace(fewest=fewest, most=most, usual=usual)


class Bar(tqdm):
    """A progress bar that says once what a long run costs, shown or not."""

    # tqdm is closed when it is deleted, even if it was never begun.
    _pace: "_Pace | None" = None
    _asked = 0

    def expect(self, cost: Cost | None, by_call: bool = False) -> None:
        """Tells the cost of what follows.

        Args:
          cost: the cost; None if it is unknown.
          by_call: whether the bar goes on with each call of a network on the host, not
            by `update`.
        """
        if cost is not None and cost.usual is not None:
            self.total = max(self.total or 0, cost.usual)
        always = _ALWAYS.get()
        if cost is None or not is_first() or (self.disable and always is None):
            return
        if always is not None:
            if always.is_said:
                return
            cost = cost.times(always.runs)._replace(cheaper=always.cheaper)
        self._forget()
        self._pace = _Pace(cost, always, super().update if by_call else None)
        monitoring.register_event_duration_secs_listener(self._pace.heard)

    def update(self, n: float | None = 1) -> bool | None:
        """Counts computed answers, or what costs as much."""
        if self._pace is not None:
            self._pace.computed(int(n or 0))
            if self._pace.on_host and self._pace.advance is not None:
                return None
        return super().update(n)

    def ask(self, number: int) -> None:
        """Takes notice of answers that are asked for: the total is at least these."""
        self._asked += number
        self.total = max(self.total or 0, self._asked)
        self.refresh()

    def measured(self, number: int, seconds: float) -> None:
        """Takes notice of a trial: answers that do not count, and their time."""
        if self._pace is not None:
            self._pace.add(number, seconds)

    def skip(self, number: int) -> None:
        """Counts answers that were known."""
        if self._pace is not None:
            self._pace.known(number)
        super().update(number)

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        """Closes the bar, which is full if there was no error."""
        if error is None and self.total:
            self.total = self.n
        self.close()

    def close(self) -> None:
        """Closes the bar; nothing is said any more."""
        self._forget()
        super().close()

    def _forget(self) -> None:
        if self._pace is not None:
            pace, self._pace = self._pace, None
            # Others may have cleared all listeners.
            with contextlib.suppress(AssertionError, ValueError):
                monitoring.unregister_event_duration_listener(pace.heard)


@contextlib.contextmanager
def always_said(runs: int, cheaper: str, say: Callable[[str], None]) -> Iterator[None]:
    """Has the cost said once, also where no bar is shown.

    Args:
      runs: the number of runs inside, each of about the cost of the first.
      cheaper: see `Cost`; of all.
      say: prints a line.
    """
    token = _ALWAYS.set(_Always(runs, cheaper, say))
    try:
        yield
    finally:
        _ALWAYS.reset(token)


def duration(seconds: float) -> str:
    """Returns a time in words."""
    if seconds < 120:
        return f"{max(1, round(seconds))} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def passes_in_words(cost: Cost) -> str:
    """Returns the number of passes in words."""
    return _range(cost, lambda number: f"{number:,}")


def seconds_in_words(cost: Cost, each: float) -> str:
    """Returns the time of passes that take some seconds each, in words."""
    if cost.fewest < cost.most:
        cost = cost._replace(most=round(_MARGIN * cost.most))
    return _range(cost, lambda number: duration(number * each))


@dataclasses.dataclass
class _Always:
    runs: int
    cheaper: str
    say: Callable[[str], None]
    is_said: bool = False


_ALWAYS: contextvars.ContextVar[_Always | None] = contextvars.ContextVar(
    "jaxrob_cost", default=None
)


@dataclasses.dataclass(eq=False)
class _Pace:
    """The seconds of a pass, from the times at which answers come.

    Networks on the host are heard call by call, because a compiled program may call
    them for minutes. Times in which something was compiled do not count.
    """

    cost: Cost
    always: _Always | None
    advance: Callable[[int], Any] | None = None
    is_said: bool = False
    on_host: bool = False
    has_compiled: bool = False
    last: float | None = None
    largest: int = 0
    number: int = 0
    seconds: float = 0.0

    def computed(self, number: int) -> None:
        """Takes notice of answers, unless calls of the host tell more."""
        if not self.on_host:
            self.add(number)

    def known(self, number: int) -> None:
        """Takes notice of answers that cost nothing."""
        self.cost = self.cost.less(number)
        self.last = time.perf_counter()

    def heard(self, event: str, duration_secs: float, **kwargs: str | int) -> None:
        """Takes notice of a compilation, or of a call of a network on the host."""
        if event == _COMPILED:
            self.has_compiled = True
        elif event == CALLED:
            self.on_host, passes = True, int(kwargs["passes"])
            self.add(passes, duration_secs)
            if self.advance is not None:
                self.advance(passes)

    def add(self, number: int, own: float | None = None) -> None:
        """Adds answers to the pace, and says the cost once it is known.

        Args:
          number: answers since the last call.
          own: the seconds that they took, if known; they count where something was
            compiled since the last call.
        """
        now = time.perf_counter()
        elapsed = own
        if self.last is not None and not self.has_compiled:
            elapsed = now - self.last
        self.last, self.has_compiled = now, False
        if elapsed is None or not number:
            return
        if number > _LARGER * self.largest:
            self.number, self.seconds = 0, 0.0
        self.largest = max(self.largest, number)
        self.number += number
        self.seconds += elapsed
        each = self.seconds / self.number
        is_long = self.cost.expected * each >= _LEAST_SECONDS
        if self.seconds >= _ENOUGH_SECONDS and is_long and not self.is_said:
            self._say(each)

    def _say(self, each: float) -> None:
        self.is_said = True
        say = _print
        if self.always is not None:
            self.always.is_said, say = True, self.always.say
        with tqdm.external_write_mode(file=sys.stderr):
            say(
                f"this takes {seconds_in_words(self.cost, each)}: "
                f"{passes_in_words(self.cost)} passes of the network, one for each "
                f"altered image, at {_short(each)} each"
            )
            if self.cost.cheaper:
                say(f"cheaper: {self.cost.cheaper}")
            if self.cost.note is not None:
                say(self.cost.note)


def _range(cost: Cost, said: Callable[[int], str]) -> str:
    """Returns what is known of a number, in words."""
    low, high = said(cost.fewest), said(cost.most)
    if low == high:
        return low
    if cost.usual is not None:
        return f"about {said(cost.usual)} ({low} to {high})"
    return f"{low} to {high}" if cost.fewest else f"at most {high}"


def _short(seconds: float) -> str:
    if seconds >= 1:
        return f"{seconds:.1f} s"
    if seconds >= 1e-3:
        return f"{1e3 * seconds:.3g} ms"
    return f"{1e6 * seconds:.3g} µs"


def _print(text: str) -> None:
    print(f"jaxrob: {text}", file=sys.stderr, flush=True)
