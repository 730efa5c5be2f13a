"""The gallery shows every alteration, as the library describes it."""

import importlib.util
import pathlib

import numpy as np
import pytest
from PIL import Image

from jaxrob._command import catalogue

FOLDER = pathlib.Path(__file__).parents[2] / "docs"
SHOWN = FOLDER / "gallery"

pytest.importorskip("skimage")
_spec = importlib.util.spec_from_file_location("gallery", FOLDER / "gallery.py")
gallery = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(gallery)


@pytest.fixture(scope="module")
def drawn():
    return gallery.drawn()


def test_all_but_frost_are_shown(drawn):
    every = {*catalogue.NAMES, *catalogue.BY_SEVERITY}
    assert {*drawn} == every - {"corruptions.frost"}
    assert {path.stem for path in SHOWN.iterdir()} == {*drawn}


def test_the_page_says_what_the_library_says(drawn):
    """`docs/gallery.py` writes it; a change of an alteration's words changes it."""
    assert (FOLDER / "gallery.md").read_text() == gallery.page(drawn)


def test_levels_alter_and_lie_in_the_range(drawn):
    for name, one in drawn.items():
        levels = gallery.levels(one)
        assert len(levels) == gallery.LEVELS == len({*levels}), name
        assert one.identity not in levels, name
        assert one.lower <= levels.min() and levels.max() <= one.upper, name


def test_the_pictures_are_small():
    assert sum(path.stat().st_size for path in SHOWN.iterdir()) < 1_000_000


@pytest.mark.slow
def test_strips_are_those_that_are_drawn(drawn, tmp_path):
    """Every seventh: noise, codecs, moves and blurs among them."""
    gallery.main(tmp_path, dict([*drawn.items()][::7]))
    for path in tmp_path.iterdir():
        kept, made = (
            np.float32(Image.open(folder / path.name)) for folder in (SHOWN, tmp_path)
        )
        # Other versions of a codec round differently.
        assert np.abs(kept - made).mean() < 4, path.name
