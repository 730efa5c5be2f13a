"""The driver of searches."""

import numpy as np
import pytest

from jaxrob.strategies import ASAP, Task, Uniform
from jaxrob.strategies._drive import Seen, Subject, drive


def subject(name, strategy):
    task = Task(0.0, 1.0, 0.5)
    return Subject(name, strategy, task, np.asarray, np.asarray)


class Noted(Uniform):
    """Notes when it is asked."""

    def ask(self, task, history):
        self.events.append(("asked", self.name, len(history.levels)))
        return super().ask(task, history)


def noted(name, events):
    strategy = Noted(3)
    object.__setattr__(strategy, "name", name)
    object.__setattr__(strategy, "events", events)
    return strategy


def test_a_search_is_asked_while_others_wait_for_answers():
    events = []
    subjects = [subject(name, noted(name, events)) for name in ("a", "b")]

    def look(parts, learn):
        for part in parts:
            events.append(("answered", part.subject))
            learn(part, Seen(part.level, None))

    histories = drive(subjects, look)
    assert [one.levels.tolist() for one in histories] == [[0.0, 0.5, 1.0]] * 2
    assert events == [
        ("asked", "a", 0),
        ("asked", "b", 0),
        *[("answered", 0)] * 3,
        ("asked", "a", 3),
        *[("answered", 1)] * 3,
        ("asked", "b", 3),
    ]


@pytest.mark.parametrize("backwards", [False, True])
def test_answers_may_come_in_any_order(backwards):
    def value(place, level):
        return 1.0 if level < 0.3 * (place + 1) else 0.0

    def look(parts, learn):
        for part in reversed(parts) if backwards else parts:
            learn(part, Seen(value(part.subject, part.level), None))

    strategies = ASAP(64, concavity=8.0), ASAP(256, concavity=8.0), Uniform(11)
    subjects = [subject(str(one), one) for one in strategies]
    for place, (one, history) in enumerate(zip(subjects, drive(subjects, look))):

        def alone(parts, learn, place=place):
            for part in parts:
                learn(part, Seen(value(place, part.level), None))

        (expected,) = drive([one], alone)
        np.testing.assert_array_equal(history.levels, expected.levels)
        np.testing.assert_array_equal(history.values, expected.values)
        assert history.rounds == expected.rounds
