"""Writes a report as GitHub-flavoured Markdown, without figures and pictures."""

import re
from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import Any

from jaxrob._arguments.readable import readable
from jaxrob.reporting._report.parts import (
    Article,
    Bullets,
    Document,
    Facts,
    Figure,
    Group,
    Heading,
    Mark,
    Part,
    Pictures,
    Section,
    Table,
    Text,
    Words,
)

# Characters with a meaning in Markdown. "<", ">" and "&" become entities instead.
_SIGNS = re.compile(r"([\\`*_{}\[\]|~$#!]|(?<=[a-zA-Z]):(?=//)|(?<=[wW]{3})\.)")
_BOLD = ("strong", "said", "state unmet", "state unshown")
_AROUND = {"em": "*"} | {look: "**" for look in _BOLD}
_NOT_HERE = " Figures and pictures are in the report's HTML form."


def markdown(document: Document) -> str:
    about = f"{words(document.about)}{_NOT_HERE}"
    sections = "".join(map(section, document.sections))
    return f"# {_escaped(document.title)}\n\n{about}\n\n{sections}".rstrip() + "\n"


def section(one: Section) -> str:
    return f"## {_escaped(one.title)}\n\n{_parts(one.parts)}"


def words(one: Words) -> str:
    """Returns a text, in which no name is Markdown or HTML."""
    if isinstance(one, Mark):
        around = _AROUND.get(one.look, "")
        return f"{around}{_escaped(one.text)}{around}"
    return _escaped(one) if isinstance(one, str) else "".join(map(words, one))


def _escaped(text: str) -> str:
    # "@" in a name must not notify anyone.
    found = escape(_SIGNS.sub(r"\\\1", readable(text)))
    return found.replace("@", "&#64;").replace("&#x27;", "'")


def _parts(parts: Iterable[Part]) -> str:
    return "".join(_WRITE[type(one)](one) for one in parts)


def _rows(heads: Sequence[Words], rows: Iterable[Sequence[Words]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"|{''.join(map(_cell, one))}\n" for one in lines)


def _cell(one: Words) -> str:
    return f" {text} |" if (text := words(one)) else " |"


def _text(one: Text) -> str:
    around = _AROUND.get(one.look, "")
    return f"{around}{words(one.words)}{around}\n\n"


def _table(one: Table) -> str:
    caption = f"{_escaped(one.caption)}:\n\n" if one.caption else ""
    return f"{caption}{_rows(one.heads, one.rows)}\n"


def _bullets(one: Bullets) -> str:
    return "".join(f"* {words(item)}\n" for item in one.items) + "\n"


_WRITE: dict[type[Any], Callable[[Any], str]] = {
    Text: _text,
    Heading: lambda one: f"{'#' * one.level} {_escaped(one.words)}\n\n",
    Bullets: _bullets,
    Facts: lambda one: f"{_rows(('', ''), one.rows)}\n",
    Table: _table,
    Figure: lambda one: "",
    Pictures: lambda one: "",
    Group: lambda one: _parts(one.parts),
    Article: lambda one: f"### {_escaped(one.title)}\n\n{_parts(one.parts)}",
}
