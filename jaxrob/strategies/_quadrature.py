"""Adaptive numerical integration."""

import dataclasses

from jaxrob._arguments.checks import checked_integer
from jaxrob.metrics._quadrature import replay
from jaxrob.strategies._checks import checked_asked
from jaxrob.strategies._strategy import Found, History, Request, Task, all_images


@dataclasses.dataclass(frozen=True)
class Quadrature:
    """Samples where `scipy.integrate.quad` would (2022 paper, RQ2.1).

    Adaptive Gauss-Kronrod quadrature of H(value - threshold): 21 levels, then 42 for
    each bisection of an interval, until the integral is known to scipy's default
    tolerances. It asks for the 21 levels first, and then for the 42 of one
    bisection after the other.

    Where quad gives up, rule "quadrature" gives NaN: the paper's "timeout".

    Attributes:
      limit: scipy's `limit`, at least 2: quad gives up once a bisection has made this
        many intervals, even if that bisection was enough. It is therefore never
        evaluated, and levels are at most 21 (2 limit - 3), where quad's own evaluations
        are at most 21 (2 limit - 1). By default 24, for which the latter is 987, the
        largest below the paper's 1,024.
      rule: "quadrature", quad's own value.
      rules: "quadrature" alone.

    Raises:
      TypeError: if `limit` is not an integer.
      ValueError: if `limit` is below 2.
    """

    limit: int = 24
    rule = "quadrature"
    rules = ("quadrature",)

    def __post_init__(self) -> None:
        number = checked_integer("limit", self.limit, at_least=2)
        object.__setattr__(self, "limit", number)

    def ask(self, task: Task, history: History) -> list[Request]:
        """Returns the levels of quad's next bisection; see `Strategy`."""
        task = checked_asked(task, history)
        accepted = history.values >= task.threshold
        levels = history.levels
        found = replay(levels, accepted, task.lower, task.upper, self.limit)
        return all_images(found.missing)

    def result(self, task: Task, history: History) -> Found:
        """Returns no error bound: quad only estimates its error."""
        task = checked_asked(task, history)
        return Found()
