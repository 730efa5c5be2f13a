"""The API pages list every public name."""

import importlib
import inspect
import pathlib
import re

import pytest

import jaxrob

API = pathlib.Path(__file__).parents[2] / "docs" / "api"
PACKAGES = ("jaxrob", *(f"jaxrob.{name}" for name in jaxrob._SUBPACKAGES))


@pytest.mark.parametrize("name", PACKAGES)
def test_lists_every_public_name(name):
    """Once, under its package; the packages themselves have pages of their own."""
    page = (API / f"{name.split('.')[-1]}.md").read_text()
    listed = re.findall(r"\.\. (?:autoclass|autofunction|py:data):: (\w+)", page)
    module = importlib.import_module(name)
    public = {
        one
        for one in getattr(module, "__all__", listed)
        if not inspect.ismodule(getattr(module, one))
    }
    # `jaxrob.Alteration` under another name.
    public -= {"Alteration"} if name == "jaxrob.alterations" else set()
    assert public <= set(listed) and len(listed) == len(set(listed))
