"""The pictures of the explanations can be drawn."""

import importlib.util
import pathlib

import pytest

FOLDER = pathlib.Path(__file__).parents[2] / "docs"


@pytest.mark.slow
def test_draws_the_pictures_that_pages_show(tmp_path):
    """All of them, and no others."""
    spec = importlib.util.spec_from_file_location("figures", FOLDER / "figures.py")
    figures = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(figures)
    figures.main(tmp_path)
    drawn = {path.name for path in tmp_path.iterdir()}
    assert drawn == {path.name for path in (FOLDER / "figures").glob("*.svg")}
