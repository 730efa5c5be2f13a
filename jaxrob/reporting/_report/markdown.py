"""Writes a report as GitHub-flavoured Markdown, without figures and pictures."""

import re
from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import Any

from jaxrob._arguments.texts import readable
from jaxrob.reporting._report import parts

# Characters with a meaning in Markdown. "<", ">" and "&" become entities instead.
_SIGNS = re.compile(r"([\\`*_{}\[\]|~$#!]|(?<=[a-zA-Z]):(?=//)|(?<=[wW]{3})\.)")
_BOLD = ("strong", "said", "state unmet", "state unshown")
_AROUND = {"em": "*"} | {look: "**" for look in _BOLD}
_NOT_HERE = " Figures and pictures are in the report's HTML form."


def markdown(document: parts.Document) -> str:
    about = f"{words(document.about)}{_NOT_HERE}"
    sections = "".join(map(section, document.sections))
    return f"# {_escaped(document.title)}\n\n{about}\n\n{sections}".rstrip() + "\n"


def section(one: parts.Section) -> str:
    return f"## {_escaped(one.title)}\n\n{_parts(one.parts)}"


def words(one: parts.Words) -> str:
    """Returns a text, in which no name is Markdown or HTML."""
    if isinstance(one, parts.Mark):
        around = _AROUND.get(one.look, "")
        return f"{around}{_escaped(one.text)}{around}"
    return _escaped(one) if isinstance(one, str) else "".join(map(words, one))


def _escaped(text: str) -> str:
    # "@" in a name must not notify anyone.
    found = escape(_SIGNS.sub(r"\\\1", readable(text)))
    return found.replace("@", "&#64;").replace("&#x27;", "'")


def _parts(some: Iterable[parts.Part]) -> str:
    return "".join(_WRITE[type(one)](one) for one in some)


def _rows(heads: Sequence[parts.Words], rows: Iterable[Sequence[parts.Words]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"|{''.join(map(_cell, one))}\n" for one in lines)


def _cell(one: parts.Words) -> str:
    return f" {text} |" if (text := words(one)) else " |"


def _text(one: parts.Text) -> str:
    around = _AROUND.get(one.look, "")
    return f"{around}{words(one.words)}{around}\n\n"


def _table(one: parts.Table) -> str:
    caption = f"{_escaped(one.caption)}:\n\n" if one.caption else ""
    return f"{caption}{_rows(one.heads, one.rows)}\n"


def _bullets(one: parts.Bullets) -> str:
    return "".join(f"* {words(item)}\n" for item in one.items) + "\n"


_WRITE: dict[type[Any], Callable[[Any], str]] = {
    parts.Text: _text,
    parts.Heading: lambda one: f"{'#' * one.level} {_escaped(one.words)}\n\n",
    parts.Bullets: _bullets,
    parts.Facts: lambda one: f"{_rows(('', ''), one.rows)}\n",
    parts.Table: _table,
    parts.Figure: lambda one: "",
    parts.Pictures: lambda one: "",
    parts.Group: lambda one: _parts(one.parts),
    parts.Article: lambda one: f"### {_escaped(one.title)}\n\n{_parts(one.parts)}",
}
