"""Figures are drawn without a screen, and closed; packages can be hidden."""

import os
import sys
import types

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

    def hidden(package):
        def missing(name):
            if name.partition(".")[0] == package:
                raise ModuleNotFoundError(name, name=package)

        for name in [*sys.modules]:
            if name.partition(".")[0] == package:
                monkeypatch.delitem(sys.modules, name)
        finder = types.SimpleNamespace(find_spec=lambda name, *rest: missing(name))
        monkeypatch.setattr(sys, "meta_path", [finder, *sys.meta_path])

    return hidden
