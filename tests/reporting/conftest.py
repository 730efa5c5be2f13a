"""Figures are drawn without a screen, and closed; packages can be hidden."""

import builtins
import os
import sys

import pytest

# Read when Matplotlib is imported, by the first test that draws.
os.environ["MPLBACKEND"] = "Agg"


@pytest.fixture(autouse=True)
def no_figure_is_left():
    yield
    if pyplot := sys.modules.get("matplotlib.pyplot"):
        pyplot.close("all")


@pytest.fixture
def hide(monkeypatch):
    usual = builtins.__import__

    def hidden(package):
        def missing(name, *rest, **more):
            if name.partition(".")[0] == package:
                raise ImportError(name)
            return usual(name, *rest, **more)

        monkeypatch.setattr(builtins, "__import__", missing)

    return hidden
