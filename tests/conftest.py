"""What tests of several parts need."""

import pathlib

import pytest

EXPERIMENTS = pathlib.Path(__file__).parents[1] / "experiments"


@pytest.fixture
def compilations(monkeypatch):
    """Entered, it lists the programs that are compiled; the scripts' own."""
    monkeypatch.syspath_prepend(EXPERIMENTS)
    import timing

    return timing.compilations
