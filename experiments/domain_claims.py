r"""What failure probabilities and operating boxes claim, on made-up answers.

    python experiments/domain_claims.py --runs=2000 --kind=failure
    python experiments/domain_claims.py --runs=500 --kind=wrong_model
    python experiments/domain_claims.py --runs=20 --kind=volume

No network. "failure": images fail with known probabilities that depend on their margin
by a steepness (0 not at all); evaluations are beside those of plain draws with the same
stopping. "wrong_model": the first boxes that are tried hold 0.985 to 0.99 accepted
levels, so that claiming one is claiming too much. "volume": `known_domains`,
around the best of random levels; boxes are beside the largest that a search on the true
answers finds with 0.99 accepted. Prints a line each, and writes JSON into `--output`.
"""

import contextlib
import itertools
from collections.abc import Iterator, Sequence
from typing import Any
from unittest import mock

import numpy as np
from absl import app, flags
from common import define, files, known_domains, startup

from jaxrob._assessment.explore import block_of
from jaxrob.domains import _draws
from jaxrob.domains._box_search import BoxSearch, State
from jaxrob.domains._grow import Box, cloud_of, grown
from jaxrob.strategies import Task
from jaxrob.strategies._drive import Seen, Span, Subject, at_once, drive

_LEVEL, _SHARE, _LEAST_VOLUME, _BUDGET = 0.95, 0.99, 0.05, 80_000
_CASES = {0.0: "flat", 1.5: "mild", 4.0: "steep"}
_SHAPES = ("half-space", "ball", "L", "ridge", "two islands", "plateau")

_KIND = flags.DEFINE_enum(
    "kind", "failure", ["failure", "wrong_model", "volume"], "What is made up."
)
_NUM_IMAGES = define.num_images(1000, "Images of the domains with boxes.")
_RUNS = flags.DEFINE_integer("runs", 20, "Runs of each.", 1)
_SEED = define.seed()
_OUTPUT = define.output("results/domain_claims")


class Table:
    """Images that fail with known probabilities, in place of a network's answers."""

    def __init__(self, shares: np.ndarray, margins: np.ndarray, seed: int) -> None:
        """Draws failures by a seed."""
        self._shares, self._margins = shares, margins
        self._rng = np.random.default_rng([seed, 1])

    def __call__(
        self, order: np.ndarray, spans: Sequence[_draws.Spans], by_margin: bool
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        """Returns which draws fail, and confidences."""
        del by_margin
        some = [order[start:stop] for _, start, stop in spans]
        margins = [self._margins[images] for images in some]
        if spans[0].draw < 0:
            return [(one < 0, np.abs(one)) for one in margins]
        wrong = [self._rng.random(len(one)) < self._shares[one] for one in some]
        return list(zip(wrong, margins))


def made_up(
    steepness: float, probability: float, number: int
) -> tuple[np.ndarray, np.ndarray]:
    """Returns probabilities of failure with a given mean, and margins, `[N]` each."""
    rng = np.random.default_rng([number, 5])
    margins = rng.standard_normal(number)
    shares = np.exp(-steepness * (margins + 0.5 * rng.standard_normal(number)))
    for _ in range(60):
        shares = np.minimum(shares * probability / shares.mean(), 1.0)
    return shares, margins


@contextlib.contextmanager
def plain_draws() -> Iterator[None]:
    """Lets no images be put into groups."""
    with mock.patch.object(_draws, "_grouped", lambda now, *rest: now):
        yield


def drawn(
    table: tuple[np.ndarray, np.ndarray], relative: float, seed: int
) -> _draws.Draws:
    """Runs one search."""
    order = np.random.default_rng([seed, 2]).permutation(len(table[0]))
    wanted = _draws.Wanted(relative, 0.0, 10**8, _LEVEL)
    return _draws.search(wanted, order, Table(*table, seed))[0]


def failure(runs: int, seed: int) -> Iterator[dict[str, Any]]:
    """Yields coverage and evaluations, by case."""
    cases = itertools.product(
        _CASES, (0.03, 0.008, 0.001, 5.7e-4), (500, 2000), (0.2, 0.1)
    )
    for steepness, probability, number, relative in cases:
        table = made_up(steepness, probability, number)
        found = [drawn(table, relative, seed + i) for i in range(runs)]
        with plain_draws():
            some = range(max(runs // 5, 1))
            few = [drawn(table, relative, 10**6 + seed + i) for i in some]
        ends = [one.interval(_LEVEL)[1] for one in found]
        held = [low <= table[0].mean() <= high for low, high in ends]
        cost, plain = (np.mean([i.evaluations for i in one]) for one in (found, few))
        yield {
            "case": _CASES[steepness],
            "probability": probability,
            "images": number,
            "relative": relative,
            "held": float(np.mean(held)),
            "evaluations": float(cost),
            "plain": float(plain),
            "times fewer": float(plain / cost),
        }


def searched(
    search: BoxSearch, one: Any, identity: np.ndarray, number: int, seed: int
) -> tuple[State, int]:
    """Runs a search for a box; returns its last state and the evaluations."""
    dimension, spent = len(identity), 0
    box = (0.0,) * dimension, (1.0,) * dimension
    task = Task(*box, known_domains.THRESHOLD, tuple(identity.tolist()), number)
    task = task._replace(block=block_of(number), seed=seed)
    right = (np.random.default_rng([seed, 3]).permutation(number) + 0.5) / number

    def look(parts: Sequence[Span]) -> Iterator[Seen]:
        nonlocal spent
        for part in parts:
            spent += part.length
            order = known_domains.own_order(part.level, task)[: part.stop]
            scores = right[order] < one.accuracy(np.array([part.level]))[0]
            yield Seen(float(scores.mean()), len(scores), scores.astype(float))

    subject = Subject("sample", task, np.asarray, np.asarray)
    (found,) = drive(search, [subject], at_once(look))
    return found.state, spent


def free(dimension: int) -> np.ndarray:
    """Returns faces none of which is fixed."""
    return np.full((2, dimension), np.nan)


class TooLarge(BoxSearch):
    """Its model is wrong: the first three boxes hold too many rejected levels."""

    def init(self, task: Task) -> State:
        """Learns nothing more than the first levels."""
        return super().init(task)._replace(refinements=0)

    def _learnt(self, task: Task, state: State) -> State:
        return state if state.model else super()._learnt(task, state)

    def _candidate(self, task: Task, state: State, each: float) -> Box:
        del each
        rng = np.random.default_rng([task.seed, 4, state.attempt])
        share = rng.uniform(0.985, 0.99) if state.attempt < 3 else 0.9998
        return Box(np.zeros(2), np.array([1.0, 0.5 / share]))


def wrong_model(runs: int, seed: int, number: int = 0) -> Iterator[dict[str, Any]]:
    """Yields how many runs claim a box, and how many claim too much."""
    search, at = TooLarge(_SHARE, 10**8, free(2)), np.full(2, 0.1)
    number = number or _NUM_IMAGES.value
    half = known_domains.Shape(lambda x: np.where(x[:, 1] <= 0.5, 0.95, 0.5), 0.5)
    states = [searched(search, half, at, number, seed + i)[0] for i in range(runs)]
    claims = [one.attempt for one in states if one.status == "validated"]
    too_much = sum(one <= 3 for one in claims)
    yield {"runs": runs, "claims": len(claims), "too much": too_much}


def volume(runs: int, seed: int) -> Iterator[dict[str, Any]]:
    """Yields the boxes' volumes beside the largest, by shape."""
    for name, dimension in itertools.product(_SHAPES, (2, 3)):
        ratios, spent, shares = [], [], []
        for number in range(seed, seed + runs):
            one = known_domains.shape(name, dimension, "showing", number)
            rng = np.random.default_rng([number, 6])
            points = rng.random((4000, dimension))
            identity = points[one.accuracy(points).argmax()]
            best = _best(one, identity, rng)
            if best is None or best.volume < _LEAST_VOLUME:
                continue
            search = BoxSearch(_SHARE, _BUDGET, free(dimension))
            state, cost = searched(search, one, identity, _NUM_IMAGES.value, number)
            spent.append(cost)
            ratios.append(0.0)
            if state.status == "validated" and state.box is not None:
                ratios[-1] = state.box.volume / best.volume
                inside = one.accuracy(state.box.drawn(20_000, rng))
                shares.append(float((inside >= known_domains.THRESHOLD).mean()))
        if ratios:
            yield {
                "shape": name,
                "dimension": dimension,
                "boxes": len(ratios),
                "claims": len(shares),
                "median": float(np.median(ratios)),
                "least share": min(shares, default=None),
                "most evaluations": max(spent),
                "ratios": ratios,
            }


def _best(one: Any, identity: np.ndarray, rng: np.random.Generator) -> Box | None:
    dimension = len(identity)
    region, box = Box(np.zeros(dimension), np.ones(dimension)), None
    for _ in range(2):
        points = region.drawn(10_000, rng)
        bad = one.accuracy(points) < known_domains.THRESHOLD
        cloud = cloud_of(points, bad[None] / (1 - _SHARE), region)
        start = Box(identity, identity)
        box = grown(cloud, start, np.isnan(free(dimension)), rng)
        if box is None:
            return None
        region = box.wider(0.15)
    return box


def main(argv: Sequence[str]) -> None:
    """Runs what was asked for."""
    startup.start(argv)
    kinds = {"failure": failure, "wrong_model": wrong_model, "volume": volume}
    rows = []
    for row in kinds[_KIND.value](_RUNS.value, _SEED.value):
        rows.append(row)
        print(row, flush=True)
    files.save(_OUTPUT.value, f"domain_claims_{_KIND.value}.json", rows)


if __name__ == "__main__":
    app.run(main)
