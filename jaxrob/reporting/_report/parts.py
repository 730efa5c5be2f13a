"""What a report is made of, and how that is written as HTML and as Markdown."""

import base64
import functools
import pathlib
import re
import string
import tomllib
from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import Any, NamedTuple, TypeVar

from jaxrob._arguments.texts import readable
from jaxrob.reporting._plot import ACCEPTED, LINES, THRESHOLD
from jaxrob.reporting._words import VERSION

T = TypeVar("T")
_MARKS = re.compile(r"(\*\*.+?\*\*|\*.+?\*|`.+?`|~.+?~|\[.+?\]\(#\w+\))")
_LOOKS = {"*": "em", "`": "code", "~": "nobreak"}


class Mark(NamedTuple):
    text: str
    # "strong", "em", "code", "link", "nobreak", or classes of the style sheet
    look: str
    to: str = ""  # the anchor that a link leads to


#: A text, or its parts in order. Writers escape it: no name is ever markup.
Words = str | Mark | Sequence[str | Mark]


class Text(NamedTuple):
    """A paragraph.

    Attributes:
      words: a text, or its parts in order.
      look: "", "soft", "warning" or "said".
    """

    words: Words
    look: str = ""


class Heading(NamedTuple):
    words: str
    level: int = 3


class Bullets(NamedTuple):
    """A list of texts."""

    items: Sequence[Words]


class Facts(NamedTuple):
    rows: Sequence[tuple[str, Words]]


class Table(NamedTuple):
    """A table.

    Attributes:
      heads: the columns' names.
      rows: a text for each column.
      looks: for each column "", "row" (the row's name), "n" (numbers), "n wraps" or
        "name"; by default "".
      caption: a text above it.
      look: its class in the style sheet.
      label: its name for readers of screens.
    """

    heads: Sequence[str]
    rows: Sequence[Sequence[Words]]
    looks: Sequence[str] = ()
    caption: str = ""
    look: str = ""
    label: str = "Table, scrolls sideways"


class Figure(NamedTuple):
    """A figure, left out in Markdown.

    Attributes:
      drawn: an `svg` element as text. The page holds it as it is, unlike other texts.
    """

    drawn: str


class Shown(NamedTuple):
    # Its PNG file, its width and height on the page, and "pixels" or "smooth"; None if
    # it was not kept
    image: tuple[bytes, int, int, str] | None
    level: str  # the level with its unit
    shown_as: str  # why it is shown
    words: str  # the image's number and file, its class and the network's answer
    wrong: bool  # whether the answer is wrong


class Pictures(NamedTuple):
    """Pictures beside each other; not in Markdown."""

    shown: Sequence[Shown]


class Group(NamedTuple):
    """Parts that a page sets into a box: "beside", "sides", "verdict good"."""

    parts: Sequence["Part"]
    look: str = ""


class Article(NamedTuple):
    anchor: str
    title: str
    parts: Sequence["Part"]


Part = Text | Heading | Bullets | Facts | Table | Figure | Pictures | Group | Article


class Section(NamedTuple):
    """A section of a report.

    Attributes:
      title: its heading.
      parts: what it holds, in order.
      anchor: its id in the page; by default one by its place.
      look: its class in the style sheet.
    """

    title: str
    parts: Sequence[Part]
    anchor: str = ""
    look: str = ""


class Document(NamedTuple):
    """A report: its title, a sentence about it, and its sections, the verdict first."""

    title: str
    about: Words
    sections: Sequence[Section]


def appendix(title: str, parts: Sequence[Part], anchor: str) -> Section:
    return Section(f"Appendix: {title}", parts, anchor, "appendix")


def strong(text: object) -> Mark:
    return Mark(str(text), "strong")


def code(text: str) -> Mark:
    return Mark(text, "code")


def table(
    each: Iterable[T],
    *columns: tuple[str, str, Callable[[T], Words]] | None,
    **about: str,
) -> Table:
    """Makes a table of columns: head, look, and what gets a cell; None is left out."""
    kept = [one for one in columns if one is not None]
    rows = [[get(one) for _, _, get in kept] for one in each]
    looks = [how for _, how, _ in kept]
    return Table([head for head, _, _ in kept], rows, looks, **about)


@functools.cache
def sentences() -> dict[str, Any]:
    place = pathlib.Path(__file__).with_name("sentences.toml")
    return tomllib.loads(place.read_text("utf-8"))


def line(name: str, kind: str = "", /, **values: object) -> str:
    return (sentences()[kind] if kind else sentences())[name].format(**values)


def say(name: str, /, **values: object) -> tuple[str | Mark, ...]:
    """A sentence in its parts; what its values hold is never read as a mark."""
    parts: list[str | Mark] = []
    for part in _MARKS.split(sentences()[name]):
        inner, _, to = part.strip("*`~[)").partition("](#")
        marked = _MARKS.fullmatch(part)
        look = "strong" if part.startswith("**") else _LOOKS.get(part[:1], "link")
        text = (inner if marked else part).format(**values)
        parts.append(Mark(text, look, to) if marked else text)
    return tuple(parts)


def explained(kind: str, /, *names: str, **values: object) -> list[tuple[str, str]]:
    return [(name, line(name, kind, **values)) for name in names]


def html(document: Document, data: str) -> str:
    first, *others = document.sections
    contents = [
        f'<li><a href="#{one.anchor}">{_escaped(one.title)}</a></li>' for one in others
    ]
    return _filled(
        "report.html",
        version=VERSION,
        title=_escaped(document.title),
        style=_style_sheet(document.title),
        about=_html_words(document.about),
        first=_html_section(first),
        contents="\n".join(contents),
        others="".join(map(_html_section, others)),
        data=data,
    )


def _filled(name: str, **texts: str) -> str:
    template = pathlib.Path(__file__).with_name(name).read_text("utf-8")
    return string.Template(template).substitute(texts)


def _style_sheet(title: str) -> str:
    sheet = _filled(
        "report.css",
        TITLE=_css(title),
        VERSION=_css(VERSION),
        REQUIRED=THRESHOLD,
        ACCEPTED=ACCEPTED,
    )
    for index, line in enumerate(LINES):
        dashes = f" stroke-dasharray: {line.dashes};" if line.dashes else ""
        # Half white: on a dark page the same hues, lighter.
        sheet += f""":root {{ --k{index}: {line.colour}; }}
@media screen and (prefers-color-scheme: dark) \
{{ :root {{ --k{index}: color-mix(in srgb, {line.colour}, #fff 50%); }} }}
svg .line.k{index} {{ stroke: var(--k{index});{dashes} }}
svg .mark.k{index}, svg .band.k{index} {{ fill: var(--k{index}); }}
"""
    return sheet


def _css(text: str) -> str:
    return "".join(
        one if one.isascii() and one.isalnum() or one == " " else f"\\{ord(one):x} "
        for one in readable(text)
    )


def _escaped(text: str) -> str:
    # All attributes stand in double quotation marks.
    return escape(readable(text)).replace("&#x27;", "'")


def _html_words(words: Words) -> str:
    if isinstance(words, str):
        return _escaped(words)
    if not isinstance(words, Mark):
        return "".join(map(_html_words, words))
    text = _escaped(words.text)
    match words.look:
        case "link":
            return f'<a href="#{words.to}">{text}</a>'
        case "nobreak":
            return text.replace(" %", "&nbsp;%")
        case "whole":
            return f'<code class="whole">{text}</code>'
        case "strong" | "em" | "code":
            tag = words.look.replace("strong", "b")
            return f"<{tag}>{text}</{tag}>"
    return f'<span class="{words.look}">{text}</span>'


def _class(look: str) -> str:
    return f' class="{look}"' if look else ""


def _html_section(one: Section) -> str:
    return (
        f'<section id="{one.anchor}"{_class(one.look)}>\n<h2>{_escaped(one.title)}'
        f"</h2>\n{_html(one.parts)}</section>\n\n"
    )


def _html(parts: Iterable[Part]) -> str:
    return "".join(map(_html_part, parts))


def _html_part(part: Part) -> str:
    match part:
        case Text(words, look):
            return f"<p{_class(look)}>{_html_words(words)}</p>\n"
        case Heading(words, level):
            return f"<h{level}>{_escaped(words)}</h{level}>\n"
        case Bullets(items):
            inner = "".join(f"<li>{_html_words(item)}</li>\n" for item in items)
            return f"<ul>\n{inner}</ul>\n"
        case Facts(rows):
            inner = "".join(map(_html_fact, rows))
            whole = f'<table class="facts"><tbody>\n{inner}</tbody></table>'
            return _scrolling(whole, Table._field_defaults["label"])
        case Table():
            return _html_table(part)
        case Figure(drawn):
            return f"<figure>{drawn}</figure>\n" if drawn else ""
        case Pictures(shown):
            inner = "".join(map(_html_picture, shown))
            return f'<ul class="pictures">\n{inner}</ul>\n'
        case Group(parts, look):
            return f"<div{_class(look)}>\n{_html(parts)}</div>\n"
        case Article(anchor, title, parts):
            return (
                f'<article id="{anchor}" aria-labelledby="{anchor}-title">\n'
                f'<h3 id="{anchor}-title">{_escaped(title)}</h3>\n'
                f"{_html(parts)}</article>\n"
            )


def _html_fact(row: tuple[str, Words]) -> str:
    name, text = _escaped(row[0]), _html_words(row[1])
    if "digest" in row[0] or "key" in row[0]:
        text = f"<code>{text}</code>"
    return f'<tr><th scope="row">{name}</th><td class="name">{text}</td></tr>\n'


def _html_table(one: Table) -> str:
    looks = [*one.looks, *[""] * (len(one.heads) - len(one.looks))]
    heads = "".join(
        f'<th scope="col"{_class("n" * ("n" in how.split()))}>{_escaped(head)}</th>'
        for head, how in zip(one.heads, looks)
    )
    rows = "".join(
        f"<tr>{''.join(map(_html_cell, row, looks))}</tr>\n" for row in one.rows
    )
    caption = f"<caption>{_escaped(one.caption)}</caption>\n" if one.caption else ""
    return _scrolling(
        f"<table{_class(one.look)}>\n{caption}<thead><tr>{heads}</tr></thead>\n"
        f"<tbody>\n{rows}</tbody></table>",
        one.label,
    )


def _html_cell(words: Words, look: str) -> str:
    if look == "row":
        return f'<th scope="row" class="name">{_html_words(words)}</th>'
    return f"<td{_class(look)}>{_html_words(words) or '&nbsp;'}</td>"


def _scrolling(table: str, label: str) -> str:
    return (
        f'<div class="table" role="group" tabindex="0" aria-label="{_escaped(label)}">'
        f"{table}</div>\n"
    )


def _html_picture(one: Shown) -> str:
    drawn, words, level = "(not kept) ", _escaped(one.words), _escaped(one.level)
    if one.image is not None:
        content, width, height, kind = one.image
        drawn = (
            f'<img class="{kind}" width="{width}" height="{height}" '
            f'alt="{words}, at {level}" '
            f'src="data:image/png;base64,{base64.b64encode(content).decode()}">'
        )
    return (
        f"<li{_class('wrong' * one.wrong)}>{drawn}<b>{_escaped(one.shown_as)}</b>, "
        f"{level}<br>{words}{' (wrong)' * one.wrong}</li>\n"
    )


# Characters with a meaning in Markdown. "<", ">" and "&" become entities instead.
_SIGNS = re.compile(r"([\\`*_{}\[\]|~$#!]|(?<=[a-zA-Z]):(?=//)|(?<=[wW]{3})\.)")
_BOLD = ("strong", "said", "state unmet", "state unshown")
_AROUND = {"em": "*"} | {look: "**" for look in _BOLD}
_NOT_HERE = " Figures and pictures are in the report's HTML form."


def markdown(document: Document) -> str:
    about = f"{_md_words(document.about)}{_NOT_HERE}"
    sections = "".join(map(markdown_section, document.sections))
    return f"# {_md_escaped(document.title)}\n\n{about}\n\n{sections}".rstrip() + "\n"


def markdown_section(one: Section) -> str:
    return f"## {_md_escaped(one.title)}\n\n{_md(one.parts)}"


def _md_words(words: Words, look: str = "") -> str:
    """Returns a text, in which no name is Markdown or HTML."""
    if isinstance(words, Mark):
        return _md_words(words.text, words.look)
    around = _AROUND.get(look, "")
    inner = _md_escaped(words) if isinstance(words, str) else map(_md_words, words)
    return f"{around}{''.join(inner)}{around}"


def _md_escaped(text: str) -> str:
    # "@" in a name must not notify anyone.
    found = escape(_SIGNS.sub(r"\\\1", readable(text)))
    return found.replace("@", "&#64;").replace("&#x27;", "'")


def _md(parts: Iterable[Part]) -> str:
    return "".join(map(_md_part, parts))


def _md_part(part: Part) -> str:
    match part:
        case Text(words, look):
            return f"{_md_words(words, look)}\n\n"
        case Heading(words, level):
            return f"{'#' * level} {_md_escaped(words)}\n\n"
        case Bullets(items):
            return "".join(f"* {_md_words(item)}\n" for item in items) + "\n"
        case Facts(rows):
            return f"{_md_rows(('', ''), rows)}\n"
        case Table(heads, rows, _, caption):
            above = f"{_md_escaped(caption)}:\n\n" if caption else ""
            return f"{above}{_md_rows(heads, rows)}\n"
        case Figure() | Pictures():
            return ""
        case Group(parts):
            return _md(parts)
        case Article(_, title, parts):
            return f"### {_md_escaped(title)}\n\n{_md(parts)}"


def _md_rows(heads: Sequence[Words], rows: Iterable[Sequence[Words]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"|{''.join(map(_md_cell, one))}\n" for one in lines)


def _md_cell(one: Words) -> str:
    return f" {text} |" if (text := _md_words(one)) else " |"
