"""What a report is made of, and how that is written as HTML and as Markdown."""

import base64
import functools
import pathlib
import re
import tomllib
from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import Any, NamedTuple, TypeVar

from jaxrob._arguments.readable import readable
from jaxrob.reporting._plot import ACCEPTED, LINES, THRESHOLD
from jaxrob.reporting._words import VERSION

T = TypeVar("T")
_MARKS = re.compile(r"(\*\*.+?\*\*|\*.+?\*|`.+?`|~.+?~|\[.+?\]\(#\w+\))")
_LOOKS = {"*": "em", "`": "code", "~": "nobreak"}


class Mark(NamedTuple):
    """A part of a text that looks different."""

    text: str  # the text
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
    """A heading within a section, of the level 3 or 4."""

    words: str
    level: int = 3


class Bullets(NamedTuple):
    """A list.

    Attributes:
      items: a text each.
      look: "", or "columns" of short items.
    """

    items: Sequence[Words]
    look: str = ""


class Facts(NamedTuple):
    """Pairs of a name and a text."""

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
    """A picture with its words."""

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
    """Parts under a heading of level 3, to which links lead."""

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
    """A text that stands out."""
    return Mark(str(text), "strong")


def code(text: str) -> Mark:
    """A text as it is typed."""
    return Mark(text, "code")


def table(
    each: Iterable[T],
    *columns: tuple[str, str, Callable[[T], Words]] | None,
    caption: str = "",
    look: str = "",
    label: str = Table._field_defaults["label"],
) -> Table:
    """Makes a table of columns: head, look, and what gets a cell; None is left out."""
    kept = [one for one in columns if one is not None]
    rows = [[get(one) for _, _, get in kept] for one in each]
    looks = [how for _, how, _ in kept]
    return Table([head for head, _, _ in kept], rows, looks, caption, look, label)


@functools.cache
def sentences() -> dict[str, Any]:
    """The report's prose by name: `sentences.toml`."""
    place = pathlib.Path(__file__).with_name("sentences.toml")
    return tomllib.loads(place.read_text("utf-8"))


def line(name: str, **values: object) -> str:
    """A sentence without marks, with its values."""
    return sentences()[name].format(**values)


def say(name: str, **values: object) -> list[str | Mark]:
    """A sentence in its parts; what its values hold is never read as a mark."""
    parts: list[str | Mark] = []
    for part in _MARKS.split(sentences()[name]):
        inner, _, to = part.strip("*`~[)").partition("](#")
        marked = _MARKS.fullmatch(part)
        look = "strong" if part.startswith("**") else _LOOKS.get(part[:1], "link")
        text = (inner if marked else part).format(**values)
        parts.append(Mark(text, look, to) if marked else text)
    return parts


_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
_HTML_MARKS = {"strong": "<b>{}</b>", "em": "<em>{}</em>", "code": "<code>{}</code>"}
_HTML_MARKS["whole"] = '<code class="whole">{}</code>'


def html(document: Document, data: str) -> str:
    title = _escaped(document.title)
    first, *others = document.sections
    contents = "\n".join(
        f'<li><a href="#{one.anchor}">{_escaped(one.title)}</a></li>' for one in others
    )
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="jaxrob {VERSION}">
<title>{title}</title>
<style>
{_style_sheet(document.title)}</style>
</head>
<body>
<a class="skip" href="#results">Skip to the results</a>
<header>
<h1>{title}</h1>
<p class="soft">{_html_words(document.about)}</p>
</header>
<main>
{_html_section(first)}
<nav id="contents" aria-labelledby="contents-title">
<h2 id="contents-title">Contents</h2>
<ol>
{contents}
</ol>
</nav>
{"".join(map(_html_section, others))}</main>
{data}
</body>
</html>
"""


def _style_sheet(title: str) -> str:
    texts = {"TITLE": _css(title), "VERSION": _css(VERSION)}
    texts |= {"REQUIRED": THRESHOLD, "ACCEPTED": ACCEPTED}
    sheet = pathlib.Path(__file__).with_name("report.css").read_text("utf-8")
    for name, text in texts.items():
        sheet = sheet.replace(f"${name}", text)
    lines = []
    for index, line in enumerate(LINES):
        kind = f"k{index}"
        dashes = f" stroke-dasharray: {line.dashes};" if line.dashes else ""
        # Half white: on a dark page the same hues, lighter.
        light = f"color-mix(in srgb, {line.colour}, #fff 50%)"
        lines += [
            f":root {{ --{kind}: {line.colour}; }}",
            "@media screen and (prefers-color-scheme: dark) "
            f"{{ :root {{ --{kind}: {light}; }} }}",
            f"svg .line.{kind} {{ stroke: var(--{kind});{dashes} }}",
            f"svg .mark.{kind}, svg .band.{kind} {{ fill: var(--{kind}); }}",
        ]
    return sheet + "\n".join(lines) + "\n"


def _css(text: str) -> str:
    return "".join(
        one if one.isascii() and one.isalnum() or one == " " else f"\\{ord(one):x} "
        for one in readable(text)
    )


def _escaped(text: str) -> str:
    # All attributes stand in double quotation marks.
    return escape(readable(text)).replace("&#x27;", "'")


def _html_words(words: Words) -> str:
    if isinstance(words, Mark):
        return _mark(words)
    return (
        _escaped(words) if isinstance(words, str) else "".join(map(_html_words, words))
    )


def _mark(one: Mark) -> str:
    text = _escaped(one.text)
    if one.look == "link":
        return f'<a href="#{one.to}">{text}</a>'
    if one.look == "nobreak":
        return text.replace(" %", "&nbsp;%")
    return _HTML_MARKS.get(one.look, f'<span class="{one.look}">{{}}</span>').format(
        text
    )


def _class(look: str) -> str:
    return f' class="{look}"' if look else ""


def _html_parts(some: Iterable[Part]) -> str:
    return "".join(_HTML[type(one)](one) for one in some)


def _html_section(one: Section) -> str:
    return (
        f'<section id="{one.anchor}"{_class(one.look)}>\n<h2>{_escaped(one.title)}'
        f"</h2>\n{_html_parts(one.parts)}</section>\n\n"
    )


def _article(one: Article) -> str:
    title = f"{one.anchor}-title"
    return (
        f'<article id="{one.anchor}" aria-labelledby="{title}">\n'
        f'<h3 id="{title}">{_escaped(one.title)}</h3>\n{_html_parts(one.parts)}'
        "</article>\n"
    )


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


def _facts(one: Facts) -> str:
    rows = "".join(
        f'<tr><th scope="row">{_escaped(name)}</th><td class="name">'
        + (f"<code>{_html_words(text)}</code>" if _is_code(name) else _html_words(text))
        + "</td></tr>\n"
        for name, text in one.rows
    )
    whole = f'<table class="facts"><tbody>\n{rows}</tbody></table>'
    return _scrolling(whole, Table._field_defaults["label"])


def _is_code(name: str) -> bool:
    return "digest" in name or "key" in name


def _scrolling(table: str, label: str) -> str:
    return (
        f'<div class="table" role="group" tabindex="0" aria-label="{_escaped(label)}">'
        f"{table}</div>\n"
    )


def _html_bullets(one: Bullets) -> str:
    items = "".join(f"<li>{_html_words(item)}</li>\n" for item in one.items)
    return f"<ul{_class(one.look)}>\n{items}</ul>\n"


def _pictures(one: Pictures) -> str:
    shown = "".join(map(_picture, one.shown))
    return f'<ul class="pictures">\n{shown}</ul>\n'


def _picture(one: Shown) -> str:
    drawn = "(not kept) "
    if one.image is not None:
        content, width, height, kind = one.image
        drawn = (
            f'<img class="{kind}" width="{width}" height="{height}" '
            f'alt="{_escaped(f"{one.words}, at {one.level}")}" '
            f'src="data:image/png;base64,{base64.b64encode(content).decode()}">'
        )
    return (
        f"<li{_class('wrong' * one.wrong)}>{drawn}<b>{_escaped(one.shown_as)}</b>, "
        f"{_escaped(one.level)}<br>{_escaped(one.words)}{' (wrong)' * one.wrong}</li>\n"
    )


_HTML: dict[type[Any], Callable[[Any], str]] = {
    Text: lambda one: f"<p{_class(one.look)}>{_html_words(one.words)}</p>\n",
    Heading: lambda one: f"<h{one.level}>{_escaped(one.words)}</h{one.level}>\n",
    Bullets: _html_bullets,
    Facts: _facts,
    Table: _html_table,
    Figure: lambda one: f"<figure>{one.drawn}</figure>\n" if one.drawn else "",
    Pictures: _pictures,
    Group: lambda one: f"<div{_class(one.look)}>\n{_html_parts(one.parts)}</div>\n",
    Article: _article,
}


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
    return f"## {_md_escaped(one.title)}\n\n{_md_parts(one.parts)}"


def _md_words(one: Words) -> str:
    """Returns a text, in which no name is Markdown or HTML."""
    if isinstance(one, Mark):
        around = _AROUND.get(one.look, "")
        return f"{around}{_md_escaped(one.text)}{around}"
    return _md_escaped(one) if isinstance(one, str) else "".join(map(_md_words, one))


def _md_escaped(text: str) -> str:
    # "@" in a name must not notify anyone.
    found = escape(_SIGNS.sub(r"\\\1", readable(text)))
    return found.replace("@", "&#64;").replace("&#x27;", "'")


def _md_parts(some: Iterable[Part]) -> str:
    return "".join(_MARKDOWN[type(one)](one) for one in some)


def _rows(heads: Sequence[Words], rows: Iterable[Sequence[Words]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"|{''.join(map(_md_cell, one))}\n" for one in lines)


def _md_cell(one: Words) -> str:
    return f" {text} |" if (text := _md_words(one)) else " |"


def _md_text(one: Text) -> str:
    around = _AROUND.get(one.look, "")
    return f"{around}{_md_words(one.words)}{around}\n\n"


def _md_table(one: Table) -> str:
    caption = f"{_md_escaped(one.caption)}:\n\n" if one.caption else ""
    return f"{caption}{_rows(one.heads, one.rows)}\n"


def _md_bullets(one: Bullets) -> str:
    return "".join(f"* {_md_words(item)}\n" for item in one.items) + "\n"


_MARKDOWN: dict[type[Any], Callable[[Any], str]] = {
    Text: _md_text,
    Heading: lambda one: f"{'#' * one.level} {_md_escaped(one.words)}\n\n",
    Bullets: _md_bullets,
    Facts: lambda one: f"{_rows(('', ''), one.rows)}\n",
    Table: _md_table,
    Figure: lambda one: "",
    Pictures: lambda one: "",
    Group: lambda one: _md_parts(one.parts),
    Article: lambda one: f"### {_md_escaped(one.title)}\n\n{_md_parts(one.parts)}",
}
