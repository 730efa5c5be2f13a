"""Strategies of a user's own that look at some of the images, and what they may not."""

import dataclasses

import jax
import numpy as np
import pytest

import jaxrob
from jaxrob import reporting
from jaxrob._arguments.texts import was_computing
from jaxrob.metrics import ConfidenceInterval as Interval
from jaxrob.strategies import Found, History, Including, Request, Uniform, all_images

from .test_few import CLASSIFIER, DATASET, DIM, HUNDRED, NUM_IMAGES, THRESHOLD, TRUTH


@dataclasses.dataclass(frozen=True)
class Halving:
    """Halves towards the crossing, on as many images as tell the side of a level."""

    halvings: int = 6
    first: int | None = 100
    rule = "linear"
    rules = ("linear",)
    needs_scores = True

    def init(self, task):
        return History()

    def ask(self, task, state, history):
        return self.asked(task, history), history

    def asked(self, task, history):
        if not len(history.levels):
            return [Request(end, self.first) for end in (task.lower, task.upper)]
        seen, sides = self.sides(task, history)
        if (sides == 0).any():
            return [
                Request(level, int(2 * number))
                for level, number in zip(history.levels[sides == 0], seen[sides == 0])
            ]
        start, end = self.bracket(task, history)
        if end - start <= task.width / 2**self.halvings:
            return []
        return [Request((start + end) / 2, self.first)]

    def result(self, task, state):
        start, end = self.bracket(task, state)
        sides = self.sides(task, state)[1]
        return Found(None, (start + end) / 2, Interval(start, end), "precise", sides)

    def sides(self, task, history):
        seen = np.array([len(scores) for scores in history.scores])
        far = 2 * np.sqrt(1 / seen - 1 / task.num_images)
        off = history.values - task.threshold
        return seen, np.where(off >= far, 1, np.where(off < -far, -1, 0))

    def bracket(self, task, history):
        sides = self.sides(task, history)[1]
        return history.levels[sides > 0][-1], history.levels[sides < 0][0]


def assess(strategy, dataset=DATASET, **settings):
    settings = {"threshold": THRESHOLD} | settings
    return jaxrob.assess(CLASSIFIER, dataset, DIM, strategy=strategy, **settings)


def test_a_search_of_one_s_own_by_few_images():
    found = assess(Halving())
    assert found.dataset_interval.high - found.dataset_interval.low <= 1 / 64
    low, high = found.dataset_interval
    assert low <= TRUTH <= high and abs(found.robustness - TRUTH) <= 1 / 64
    sampling = found.sampling
    # In whole blocks, and far fewer than all images at each level.
    assert (sampling.seen % 128 == 0).sum() + (
        sampling.seen == NUM_IMAGES
    ).sum() == len(sampling.seen)
    assert (
        found.evaluations == sampling.seen.sum() < 0.6 * len(found.levels) * NUM_IMAGES
    )
    assert (sampling.sides == np.where(found.levels <= TRUTH, 1, -1)).all()
    population = found.confidence_interval
    assert population.low <= low <= high <= population.high
    text = found.to_json()
    assert jaxrob.Assessment.from_json(text).to_json() == text


class Ends(Halving):
    def asked(self, task, history):
        return [] if len(history.levels) else all_images([task.lower, task.upper])


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ([0.0, 1.0], "ask must be of jaxrob.strategies.Request"),
        ([Request(0.0, 0)], "images must be at least 1; got 0"),
        ([Request(0.0, 2.5)], "images must be an int"),
        ([Request(2.0)], "levels must lie in"),
        (None, "ask must be a list"),
    ],
)
def test_what_is_no_request_is_refused(asked, message):
    broken = type("Broken", (Ends,), {"asked": lambda self, task, history: asked})
    with pytest.raises((TypeError, ValueError), match=message):
        assess(broken(), HUNDRED)


def test_an_error_of_its_own_loses_no_answers(tmp_path):
    class Fails(Uniform):
        def ask(self, task, state, history):
            if len(history.levels):
                # Nothing of the run's is set around it.
                assert jax.sharding.get_mesh().empty
                raise RuntimeError("no more")
            return super().ask(task, state, history)

    several = [DIM, jaxrob.Alteration("slow", DIM.fn, 0.0, 0.5)]
    journal = tmp_path / "answers"
    with pytest.raises(RuntimeError, match="no more") as raised:
        about = CLASSIFIER, HUNDRED, several
        jaxrob.assess(*about, strategy=Fails(3), journal=journal)
    assert not was_computing(raised.value)
    # The header, and the answers of both.
    assert len(journal.read_bytes().splitlines()) == 3


TOO_NARROW = Found(interval=Interval(0.4, 0.5), population_interval=Interval(0.5, 0.5))


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (0.5, "result must be a jaxrob.strategies.Found"),
        (Found(2.0), "error_bound must lie in"),
        (Found(robustness=-1.0), "robustness must lie in"),
        (Found(interval=Interval(0.1, 3.0)), "interval must lie in"),
        (Found(status="certain"), "status must be one of"),
        (Found(interval=Interval(0.5, 0.4)), "interval must ascend"),
        (Found(robustness=0.1, interval=Interval(0.4, 0.5)), "interval must hold 0.1"),
        (TOO_NARROW, "population_interval must hold 0.4"),
        (Found(sides=np.ones(3, int)), "sides"),
    ],
)
def test_what_is_no_result_is_refused(found, message):
    broken = type("Broken", (Ends,), {"result": lambda self, task, state: found})
    with pytest.raises((TypeError, ValueError), match=message):
        assess(broken(), HUNDRED)


def test_what_a_search_says_is_not_taken_for_a_promise():
    found = assess(Halving(), confidence_level=0.9999)
    assert found.sampling.error is None
    table = reporting.table([found])
    assert "as its strategy says (asked: nothing, the strategy decides)" in table
    assert "confidence (asked" not in table


class Inside(Ends):
    def asked(self, task, history):
        return [] if len(history.levels) else [Request(0.3, 50), Request(0.5, 50)]

    def result(self, task, state):
        return Found()


@pytest.mark.parametrize(
    ("strategy", "settings", "message"),
    [
        (Inside(), {}, "both ends of the range"),
        (Halving(), {"rule": "linear"}, "rule does not go"),
        (Halving(), {"tolerance": jaxrob.Tolerance("step")}, "tolerance"),
    ],
)
def test_what_does_not_go_with_few_images(strategy, settings, message):
    with pytest.raises(ValueError, match=message):
        assess(strategy, HUNDRED, **settings)


def test_levels_beside_go_with_all_images_and_images_with_scores():
    with pytest.raises(ValueError, match="strategy must look at all images"):
        Including(Halving(), (0.5,))
    plain = type("Plain", (Halving,), {"needs_scores": False})
    with pytest.raises(ValueError, match="needs_scores"):
        assess(plain())
