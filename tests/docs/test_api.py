"""The API pages list every public name, and begin with a table of them."""

import collections
import importlib
import importlib.util
import inspect
import pathlib
import pkgutil

import pytest

DOCS = pathlib.Path(__file__).parents[2] / "docs"
PAGES = sorted(set((DOCS / "api").glob("*.md")) - {DOCS / "api" / "index.md"})

_spec = importlib.util.spec_from_file_location("summaries", DOCS / "summaries.py")
summaries = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(summaries)


def public_modules(name="jaxrob"):
    """The names of a package and of the public modules in it, at any depth."""
    yield name
    folders = getattr(importlib.import_module(name), "__path__", ())
    for one in pkgutil.iter_modules(folders):
        if not one.name.startswith("_"):
            yield from public_modules(f"{name}.{one.name}")


MODULES = list(public_modules())
LISTED = collections.defaultdict(list)
for _page in PAGES:
    for _entry in summaries.entries(_page.read_text()):
        LISTED[_entry.module].append(_entry.name)


def test_nested_modules_are_looked_into():
    assert {f"jaxrob.alterations.{one}" for one in ("corruptions", "presets")} <= {
        *MODULES
    }


@pytest.mark.parametrize("name", MODULES)
def test_lists_every_public_name(name):
    """Once, under its module; the modules themselves have pages of their own."""
    module = importlib.import_module(name)
    public = {
        one for one in module.__all__ if not inspect.ismodule(getattr(module, one))
    }
    # `jaxrob.Alteration` under another name.
    public -= {"Alteration"} if name == "jaxrob.alterations" else set()
    assert sorted(LISTED[name]) == sorted(public)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_begins_with_a_table_that_says_what_each_name_is(page):
    text = page.read_text()
    assert text.count(summaries.PLACE) == 1
    assert text.index(summaries.PLACE) < text.index(".. currentmodule")
    for entry in summaries.entries(text):
        assert entry.words.endswith((".", "?")), entry
    rows = summaries.with_summary(text).count("\n| {py:obj}`")
    assert rows == len(summaries.entries(text)) > 1
