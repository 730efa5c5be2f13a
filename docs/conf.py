"""Configuration of Sphinx: `sphinx-build -W -b html docs docs/_build/html`."""

import functools
import pathlib
import sys
import typing
from typing import Any

import jupytext

import jaxrob

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import summaries

project = "jaxrob"
author = "The jaxrob authors"
copyright = author
version = release = jaxrob.__version__

extensions = [
    "myst_parser",
    "sphinx_codeautolink",
    "sphinx_copybutton",
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


# Copied: the code, without outputs, which have no language that can run.
copybutton_selector = "div.highlight-python pre, div.highlight-console pre, " + (
    "div.highlight-bash pre, div.highlight-sh pre"
)
# Blocks of a page are one program, so a name imported in one is known in the next.
codeautolink_concat_default = True
# They are offered as notebooks, too.
_TUTORIALS = ("tutorial", "tutorial-decision")
_DOWNLOAD = (
    '\n\n<p><a href="notebooks/{0}.ipynb" download>This page as a notebook</a></p>\n\n'
)
# Pillow's annotations of ImageDraw name what its compiled part does not have.
_NOT_LINKED = ("how-to/detector",)

# Docstrings write names as `name`: a link if there is such a name, else code. A name
# that begins with "jaxrob." must exist on these pages, unless it is private.
default_role = "py:obj"
nitpicky = True
nitpick_ignore_regex = [("py:.*", r"(?s)(?!jaxrob\.).*|.*\._.*")]
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


def _prepare_page(app: Any, document: str, source: list[str]) -> None:
    """Adds to a page what only the site needs."""
    del app
    if document.startswith("api/"):
        source[0] = summaries.with_summary(source[0])
    if document in _TUTORIALS:
        source[0] = source[0].replace("\n\n", _DOWNLOAD.format(document), 1)
    if document in _NOT_LINKED:
        skip = "\n\n```{autolink-skip} file\n```\n\n"
        source[0] = source[0].replace("\n\n", skip, 1)


def _write_notebooks(app: Any, error: Exception | None) -> None:
    """Puts the tutorials' notebooks beside the pages."""
    if error is not None or app.builder.format != "html":
        return
    folder = pathlib.Path(app.outdir, "notebooks")
    folder.mkdir(exist_ok=True)
    for name in _TUTORIALS:
        # What is to be typed into a shell is no cell.
        page = pathlib.Path(app.srcdir, f"{name}.md").read_text()
        made = jupytext.reads(page.replace("```sh\n", "```console\n"), "md")
        jupytext.write(made, folder / f"{name}.ipynb")


def setup(app: Any) -> None:
    """Registers the handlers; called by Sphinx."""
    app.connect("source-read", _prepare_page)
    app.connect("build-finished", _write_notebooks)
    app.connect("autodoc-skip-member", _skip)
    app.connect("autodoc-before-process-signature", _without_limits)
