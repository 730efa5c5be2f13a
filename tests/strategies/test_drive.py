"""The driver of searches."""

import numpy as np
import pytest

from jaxrob.strategies import ASAP, Task, Uniform
from jaxrob.strategies._drive import Seen, Subject, drive


def subject(threshold):
    task = Task(0.0, 1.0, threshold)
    return Subject("curve", task, np.asarray, np.asarray)


def test_a_search_is_asked_while_others_wait_for_answers():
    events = []
    subjects = [subject(threshold) for threshold in (0.1, 0.2)]

    class Noted(Uniform):
        def ask(self, task, state, history):
            events.append(("asked", task.threshold, len(history.levels)))
            return super().ask(task, state, history)

    def look(parts, learn):
        for part in parts:
            events.append(("answered", part.alteration))
            learn(part, Seen(part.level, None))

    found = drive(Noted(3), subjects, look)
    assert [one.history.levels.tolist() for one in found] == [[0.0, 0.5, 1.0]] * 2
    assert events == [
        ("asked", 0.1, 0),
        ("asked", 0.2, 0),
        *[("answered", 0)] * 3,
        ("asked", 0.1, 3),
        *[("answered", 1)] * 3,
        ("asked", 0.2, 3),
    ]


@pytest.mark.parametrize("backwards", [False, True])
def test_answers_may_come_in_any_order(backwards):
    def value(place, level):
        return 1.0 if level < 0.3 * (place + 1) else 0.0

    def look(parts, learn):
        for part in reversed(parts) if backwards else parts:
            learn(part, Seen(value(part.alteration, part.level), None))

    strategy = ASAP(64, concavity=8.0)
    subjects = [subject(threshold) for threshold in (0.2, 0.5, 0.8)]
    for place, found in enumerate(drive(strategy, subjects, look)):

        def alone(parts, learn, place=place):
            for part in parts:
                learn(part, Seen(value(place, part.level), None))

        (expected,) = drive(strategy, subjects[place : place + 1], alone)
        history, other = found.history, expected.history
        np.testing.assert_array_equal(history.levels, other.levels)
        np.testing.assert_array_equal(history.values, other.values)
        assert history.rounds == other.rounds
