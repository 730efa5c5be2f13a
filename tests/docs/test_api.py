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
    """Modules apart, and constants, which the docstrings of functions list."""
    page = (API / f"{name.split('.')[-1]}.md").read_text()
    listed = set(re.findall(r"\.\. auto(?:class|function):: (\w+)", page))
    module = importlib.import_module(name)
    public = {
        one
        for one, value in inspect.getmembers(module)
        if inspect.isclass(value) or inspect.isfunction(value)
        if one in getattr(module, "__all__", listed)
    }
    # An alias of `jaxrob.Alteration`.
    public -= {"Alteration"} if name == "jaxrob.alterations" else set()
    assert public <= listed
