"""Begins each page of the API with a table of its names and what each is.

A page has the comment `<!-- summary -->` where its table goes, the alterations'
`<!-- every alteration -->` where the command's names of them go, and the strategies'
`<!-- every strategy -->`. The names are those of the page's own directives and the
words those of the docstrings, so nothing is written twice.
"""

import importlib
import inspect
import re
from typing import NamedTuple

from jaxrob import strategies
from jaxrob._command import catalogue

PLACE = "<!-- summary -->"

_DIRECTIVE = re.compile(
    r"^\.\. (?P<kind>currentmodule|autoclass|autofunction|py:data):: (?P<name>[\w.]+)\n"
    r"(?P<text>(?:[ ]{3}.*\n|\n)*)",
    re.MULTILINE,
)


class Entry(NamedTuple):
    """A public name on a page of the API.

    Attributes:
      module: the module that it is listed under.
      name: the name.
      words: what it is, in a sentence.
    """

    module: str
    name: str
    words: str


def entries(page: str) -> list[Entry]:
    """Returns the public names that the text of a page lists, in order."""
    found, module = [], ""
    for one in _DIRECTIVE.finditer(_expanded(page)):
        name = one["name"]
        if one["kind"] == "currentmodule":
            module = name
        elif one["kind"] == "py:data":
            found.append(Entry(module, name, _sentence(_without_options(one["text"]))))
        else:
            documented = getattr(importlib.import_module(module), name)
            found.append(Entry(module, name, _sentence(inspect.getdoc(documented))))
    return found


def with_summary(page: str) -> str:
    """Returns the text of a page with its table, if it has a place for one."""
    rows = "".join(
        f"| {{py:obj}}`{one.name} <{one.module}.{one.name}>` | {one.words} |\n"
        for one in entries(page)
    )
    table = f"| name | what it is |\n| --- | --- |\n{rows}"
    return _expanded(page).replace(PLACE, table)


def _expanded(page: str) -> str:
    alterations = "\n".join(f".. autofunction:: {name}" for name in catalogue.NAMES)
    searches = "\n".join(
        f".. autoclass:: {name}\n   :members:"
        for name in strategies.__all__
        if name != "Strategy" and hasattr(getattr(strategies, name), "ask")
    )
    page = page.replace("<!-- every alteration -->", alterations)
    return page.replace("<!-- every strategy -->", searches)


def _without_options(text: str) -> str:
    return re.sub(r"^\s+:\w+:.*\n", "", text, flags=re.MULTILINE)


def _sentence(text: str | None) -> str:
    """Returns the first sentence, on one line, as a cell of a table."""
    paragraph = " ".join((text or "").strip().split("\n\n")[0].split())
    sentence = re.split(r"(?<=[.?])\s+(?=[A-Z])", paragraph)[0]
    # "::" announces a block of code in a docstring.
    return re.sub(r"::$", ".", sentence).replace("|", "\\|")
