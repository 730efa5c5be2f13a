"""What a progress bar says of the time left, and its total."""

import re

import pytest

from jaxrob._engine import bar as bars
from jaxrob._engine.execution import progress_bar

LEFT = re.compile(r"jaxrob: ([\d,]+) images are left, about (.*)")


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(bars.time, "perf_counter", lambda: now[0])
    return now


def said(capsys):
    return LEFT.findall(capsys.readouterr().err.replace("\r", "\n"))


def steps(bar, clock, *durations, number=10):
    for seconds in durations:
        clock[0] += seconds
        bar.update(number)


def test_what_is_left_is_said_once_after_the_second_step(clock, capsys):
    with progress_bar("run", True, total=1000) as bar:
        steps(bar, clock, 100.0)  # with what it compiles
        assert not said(capsys)
        steps(bar, clock, 1.0)
        assert said(capsys) == [("980", "98 s")]
        steps(bar, clock, 7.0, 7.0)
        assert not said(capsys)


def test_known_answers_cost_nothing(clock, capsys):
    with progress_bar("run", True, total=1000) as bar:
        bar.skip(700)
        steps(bar, clock, 5.0, 5.0)
    assert said(capsys) == [("280", "2 min")]


@pytest.mark.parametrize("progress, seconds", [(True, 0.09), (False, 9.0)])
def test_short_runs_and_those_without_progress_say_nothing(
    clock, capsys, progress, seconds
):
    with progress_bar("run", progress, total=1000) as bar:
        steps(bar, clock, *[seconds] * 100)
    assert not said(capsys)


def test_the_total_is_what_was_asked_for_and_the_bar_ends_full():
    with progress_bar("run", True) as bar:
        bar.ask(90)
        bar.update(90)
        bar.ask(40)
        assert (bar.n, bar.total) == (90, 130)
        bar.update(30)
    assert (bar.n, bar.total) == (120, 120)
    with pytest.raises(KeyboardInterrupt), progress_bar("run", True, total=9) as bar:
        raise KeyboardInterrupt
    assert bar.total == 9
