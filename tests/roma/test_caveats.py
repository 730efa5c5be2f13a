"""What answers may miss, in words."""

import numpy as np

from jaxrob.roma._caveats import caveats


def test_each_method_that_answered_says_what_it_may_miss():
    status = np.array(["importance", "counted", "importance", "transformed", "normal"])
    normal, importance = caveats(status)
    assert "normal, transformed (2 of 5): " in normal
    assert importance.startswith("importance (2 of 5): ") and "steeper" in importance


def test_counts_and_missing_answers_miss_nothing_without_notice():
    assert caveats(np.array(["counted", "untrusted", "incomplete", "failed"])) == ()


def test_what_a_budget_left_open_says_what_more_would_cost():
    status = np.array(["undecided", "counted", "undecided"])
    (said,) = caveats(status, np.array([131_072, 0, 26_000]))
    assert said.startswith("undecided (2 of 3): ")
    assert "about 30,000 to 100,000 forward passes" in said
