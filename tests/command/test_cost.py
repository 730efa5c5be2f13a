"""The command says what a long run costs, whether it shows a bar or not."""

import pytest

from jaxrob._engine import cost


@pytest.fixture
def every_run_is_long(monkeypatch):
    monkeypatch.setattr(cost, "_LEAST_SECONDS", 0.0)
    monkeypatch.setattr(cost, "_ENOUGH_SECONDS", 0.0)


def test_assess_says_it_once_for_all_alterations(assess, every_run_is_long):
    # Blocks of 20 of the 40 pictures: the second tells the pace.
    status, out, said = assess(
        "--alterations=brightness", "--alterations=contrast", "--batch_size=20"
    )
    assert status == 0, said
    lines = [one for one in said.split("\n") if "passes" in one or "cheaper" in one]
    assert len(lines) == 2 and "passes" not in out
    assert "jaxrob: this takes" in lines[0] and " 240 passes" in lines[0]
    # Of 40 pictures and 3 levels, fewer are no advice.
    assert lines[1] == "jaxrob: cheaper: fewer --alterations"


def test_nothing_of_quick_runs(assess, roma):
    assert "this takes" not in assess()[2] + roma()[2]
