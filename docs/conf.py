"""Configuration of Sphinx: `sphinx-build -W -b html docs docs/_build/html`."""

import functools
import typing
from typing import Any

import jaxrob

project = "jaxrob"
author = "The jaxrob authors"
copyright = author
version = release = jaxrob.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
]
exclude_patterns = ["_build"]

html_theme = "furo"
html_title = "jaxrob"
html_copy_source = False
html_static_path = ["_static"]
html_css_files = ["site.css"]
# Dashes alone: quotes as in "linear" mark values to type.
smartquotes_action = "D"

myst_heading_anchors = 3

# Docstrings write names as `name`: a link if there is such a name, else code. A name
# that begins with "jaxrob." must exist on these pages, unless it is private.
default_role = "py:obj"
nitpicky = True
nitpick_ignore_regex = [("py:.*", r"(?!jaxrob\.).*|.*\._.*")]
# One parameter a line if a signature is longer than a line of code.
maximum_signature_line_length = 88
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
napoleon_numpy_docstring = False
# "Attributes:" of a class is a list of fields, not objects of their own.
# Long lists of arguments are grouped, as those of `jaxrob.assess`.
napoleon_custom_sections = [
    (title, "params_style")
    for title in (
        "Attributes",
        "What is assessed",
        "How good it has to be",
        "Which levels",
        "How few images",
        "How it runs",
    )
]


def _skip(app: Any, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool:
    """Leaves out a named tuple's fields, which its docstring describes."""
    if isinstance(obj, property | functools.cached_property):
        _without_limits(app, obj.fget if isinstance(obj, property) else obj.func, False)
    del what, name, options
    return skip or type(obj).__name__ == "_tuplegetter"


def _without_limits(app: Any, function: Any, bound: bool) -> None:
    """Removes the limits in annotations, which are meant for `jaxrob._codec`."""
    del app, bound
    if "Annotated[" in str(getattr(function, "__annotations__", "")):
        function.__annotations__ = typing.get_type_hints(function)


def setup(app: Any) -> None:
    """Registers the handlers; called by Sphinx."""
    app.connect("autodoc-skip-member", _skip)
    app.connect("autodoc-before-process-signature", _without_limits)
