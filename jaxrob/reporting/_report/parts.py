"""What a report is made of: sections of texts, tables, figures and pictures."""

import functools
import pathlib
import re
import tomllib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

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
