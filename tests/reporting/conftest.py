"""Figures are drawn without a screen, and closed; packages can be hidden."""

import builtins

import matplotlib
import pytest

matplotlib.use("Agg")


@pytest.fixture(autouse=True)
def no_figure_is_left():
    from matplotlib import pyplot

    yield
    pyplot.close("all")


@pytest.fixture
def hide(monkeypatch):
    """Makes each import of a package fail, as if it were not installed."""
    usual = builtins.__import__

    def hidden(package):
        def missing(name, *rest, **more):
            if name.partition(".")[0] == package:
                raise ImportError(name)
            return usual(name, *rest, **more)

        monkeypatch.setattr(builtins, "__import__", missing)

    return hidden
