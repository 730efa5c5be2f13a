"""What a run says of its cost: passes, seconds, and when."""

import re

import jax
import numpy as np
import pytest
from jax import monitoring

import jaxrob
from jaxrob import alterations, roma
from jaxrob._engine import cost
from jaxrob._engine.cost import Cost, always_said
from jaxrob._engine.execution import progress_bar

COST = Cost(1000, 1000, "less")
IMAGES = np.random.default_rng(0).random((40, 4, 4, 3), np.float32)
NUMBERS = re.compile(r"takes ([\d,]+) s: ([\d,]+) passes .* at ([\d.]+) ms each")


class Clock:
    """A clock that is set by hand."""

    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(cost.time, "perf_counter", clock)
    return clock


def said(capsys):
    lines = capsys.readouterr().err.replace("\r", "\n").split("\n")
    return [line for line in lines if line.startswith("jaxrob: ")]


def steps(bar, clock, *durations, number=10):
    for seconds in durations:
        clock.now += seconds
        bar.update(number)


def test_passes_and_seconds_are_said_once_after_the_second_step(clock, capsys):
    with progress_bar("run", True) as bar:
        bar.expect(COST)
        steps(bar, clock, 100.0)  # with what comes before
        assert not said(capsys)
        steps(bar, clock, 1.0, 1.0, 7.0)
    first, second = said(capsys)
    assert NUMBERS.search(first).groups() == ("100", "1,000", "100")
    assert second == "jaxrob: cheaper: less"


def test_short_runs_say_nothing(clock, capsys):
    with progress_bar("run", True) as bar:
        bar.expect(COST)
        steps(bar, clock, *[0.09] * 100)
    assert not said(capsys)


def test_time_in_which_something_is_compiled_does_not_count(clock, capsys):
    with progress_bar("run", True) as bar:
        bar.expect(COST)
        steps(bar, clock, 0.0)
        monitoring.record_event_duration_secs(cost._COMPILED, 50.0)
        steps(bar, clock, 50.0)
        assert not said(capsys)
        steps(bar, clock, 0.6)
    assert NUMBERS.search(said(capsys)[0]).groups() == ("60", "1,000", "60")


def test_known_answers_cost_nothing(clock, capsys):
    with progress_bar("run", True) as bar:
        bar.expect(COST)
        bar.skip(900)
        assert bar.n == 900
        steps(bar, clock, 5.0)
    assert NUMBERS.search(said(capsys)[0]).groups() == ("50", "100", "500")


def test_nothing_is_said_or_heard_without_progress_or_after_the_run(clock, capsys):
    with progress_bar("run", False) as bar:
        bar.expect(COST)
        steps(bar, clock, 1.0, 9.0)
    with progress_bar("run", True) as bar:
        bar.expect(COST)
    steps(bar, clock, 1.0, 9.0)
    assert not said(capsys)


@pytest.mark.parametrize("progress", [False, True])
def test_the_command_says_it_once_for_all_runs(clock, capsys, progress):
    lines = []
    with always_said(5, "flags", lines.append):
        for _ in range(5):
            with progress_bar("run", progress) as bar:
                bar.expect(COST)
                steps(bar, clock, 1.0, 1.0, number=50)
    assert NUMBERS.search(lines[0]).groups() == ("100", "5,000", "20")
    assert lines[1:] == ["cheaper: flags"] and not said(capsys)


@pytest.mark.parametrize(
    "given, words",
    [
        (Cost(400, 3000, "", 1000), "about 100 s (40 s to 6 min)"),
        (Cost(100, 3000, ""), "10 s to 6 min"),
        (Cost(0, 300000, ""), "at most 10.4 h"),
    ],
)
def test_bounds_are_said_as_bounds(clock, capsys, given, words):
    with progress_bar("run", True) as bar:
        bar.expect(given)
        steps(bar, clock, 1.0, 1.0)
    assert f"takes {words}:" in said(capsys)[0]


def slow(seconds, clock):
    """A network on the host that takes some seconds for each image."""
    weights = np.linspace(-1, 1, 48 * 3).reshape(48, 3)

    def network(images):
        clock.now += seconds * len(images)
        return images.reshape(len(images), -1) @ weights

    return jaxrob.Classifier.from_host(network, 3)


def test_roma_says_within_the_first_block_what_a_slow_network_takes(clock, capsys):
    """The clock moves in the network alone, so the seconds are the passes' own."""
    start = clock.now
    roma.assess(
        slow(0.1, clock), IMAGES[:2], num_samples=200, epsilon=0.1, budget=400,
        key=jax.random.key(0), progress=True,
    )  # fmt: skip
    first, second, *more = said(capsys)
    assert clock.now - start >= 40
    assert "takes 40 s to 100 s: 400 to 800 passes" in first
    assert "no gradients" in more[0] and '"undecided"' in more[0]
    assert 'estimator="count" (400 passes)' in second


def test_assess_and_evaluate_say_what_a_slow_network_takes(clock, capsys):
    bright = alterations.brightness(-0.5, 0.5)
    data = jaxrob.Dataset(IMAGES)
    classifier = slow(0.1, clock)
    jaxrob.evaluate(classifier, data, bright, np.linspace(-0.5, 0.5, 8), progress=True)
    assert NUMBERS.search(said(capsys)[0]).groups() == ("32", "320", "100")
    start = clock.now
    result = jaxrob.assess(classifier, data, bright, progress=True)
    assert "takes about 64 s (36 s to 2 min): about 640 (360" in said(capsys)[0]
    assert 360 <= result.evaluations <= 1200
    assert clock.now - start >= result.evaluations * 0.1


def test_the_bar_has_the_usual_number_for_its_total_and_ends_full():
    with progress_bar("run", True) as bar:
        bar.expect(Cost(90, 300, "", 160))
        bar.ask(90)
        assert bar.total == 160
        bar.update(90)
        bar.ask(40)
        assert (bar.n, bar.total) == (90, 160)
        bar.ask(50)
        assert bar.total == 180
        bar.update(85)
    assert (bar.n, bar.total) == (175, 175)
    with pytest.raises(KeyboardInterrupt), progress_bar("run", True, total=9) as bar:
        raise KeyboardInterrupt
    assert bar.total == 9
