"""Writes a report as one page of HTML, which loads nothing and runs nothing."""

import base64
import pathlib
from collections.abc import Callable, Iterable
from html import escape
from typing import Any

from jaxrob._arguments.texts import readable
from jaxrob.reporting import _style as style
from jaxrob.reporting._report import parts
from jaxrob.reporting._words import VERSION

_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
_MARKS = {"strong": "<b>{}</b>", "em": "<em>{}</em>", "code": "<code>{}</code>"}
_MARKS["whole"] = '<code class="whole">{}</code>'


def html(document: parts.Document, data: str) -> str:
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
<p class="soft">{_words(document.about)}</p>
</header>
<main>
{_section(first)}
<nav id="contents" aria-labelledby="contents-title">
<h2 id="contents-title">Contents</h2>
<ol>
{contents}
</ol>
</nav>
{"".join(map(_section, others))}</main>
{data}
</body>
</html>
"""


def _style_sheet(title: str) -> str:
    texts = {"TITLE": _css(title), "VERSION": _css(VERSION)}
    texts |= {"REQUIRED": style.THRESHOLD, "ACCEPTED": style.ACCEPTED}
    sheet = pathlib.Path(__file__).with_name("report.css").read_text("utf-8")
    for name, text in texts.items():
        sheet = sheet.replace(f"${name}", text)
    lines = []
    for index, line in enumerate(style.LINES):
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


def _words(words: parts.Words) -> str:
    if isinstance(words, parts.Mark):
        return _mark(words)
    return _escaped(words) if isinstance(words, str) else "".join(map(_words, words))


def _mark(one: parts.Mark) -> str:
    text = _escaped(one.text)
    if one.look == "link":
        return f'<a href="#{one.to}">{text}</a>'
    if one.look == "nobreak":
        return text.replace(" %", "&nbsp;%")
    return _MARKS.get(one.look, f'<span class="{one.look}">{{}}</span>').format(text)


def _class(look: str) -> str:
    return f' class="{look}"' if look else ""


def _parts(some: Iterable[parts.Part]) -> str:
    return "".join(_WRITE[type(one)](one) for one in some)


def _section(one: parts.Section) -> str:
    return (
        f'<section id="{one.anchor}"{_class(one.look)}>\n<h2>{_escaped(one.title)}'
        f"</h2>\n{_parts(one.parts)}</section>\n\n"
    )


def _article(one: parts.Article) -> str:
    title = f"{one.anchor}-title"
    return (
        f'<article id="{one.anchor}" aria-labelledby="{title}">\n'
        f'<h3 id="{title}">{_escaped(one.title)}</h3>\n{_parts(one.parts)}</article>\n'
    )


def _table(one: parts.Table) -> str:
    looks = [*one.looks, *[""] * (len(one.heads) - len(one.looks))]
    heads = "".join(
        f'<th scope="col"{_class("n" * ("n" in how.split()))}>{_escaped(head)}</th>'
        for head, how in zip(one.heads, looks)
    )
    rows = "".join(f"<tr>{''.join(map(_cell, row, looks))}</tr>\n" for row in one.rows)
    caption = f"<caption>{_escaped(one.caption)}</caption>\n" if one.caption else ""
    return _scrolling(
        f"<table{_class(one.look)}>\n{caption}<thead><tr>{heads}</tr></thead>\n"
        f"<tbody>\n{rows}</tbody></table>",
        one.label,
    )


def _cell(words: parts.Words, look: str) -> str:
    if look == "row":
        return f'<th scope="row" class="name">{_words(words)}</th>'
    return f"<td{_class(look)}>{_words(words) or '&nbsp;'}</td>"


def _facts(one: parts.Facts) -> str:
    rows = "".join(
        f'<tr><th scope="row">{_escaped(name)}</th><td class="name">'
        + (f"<code>{_words(text)}</code>" if _is_code(name) else _words(text))
        + "</td></tr>\n"
        for name, text in one.rows
    )
    whole = f'<table class="facts"><tbody>\n{rows}</tbody></table>'
    return _scrolling(whole, parts.Table._field_defaults["label"])


def _is_code(name: str) -> bool:
    return "digest" in name or "key" in name


def _scrolling(table: str, label: str) -> str:
    return (
        f'<div class="table" role="group" tabindex="0" aria-label="{_escaped(label)}">'
        f"{table}</div>\n"
    )


def _bullets(one: parts.Bullets) -> str:
    items = "".join(f"<li>{_words(item)}</li>\n" for item in one.items)
    return f"<ul{_class(one.look)}>\n{items}</ul>\n"


def _pictures(one: parts.Pictures) -> str:
    shown = "".join(map(_picture, one.shown))
    return f'<ul class="pictures">\n{shown}</ul>\n'


def _picture(one: parts.Shown) -> str:
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


_WRITE: dict[type[Any], Callable[[Any], str]] = {
    parts.Text: lambda one: f"<p{_class(one.look)}>{_words(one.words)}</p>\n",
    parts.Heading: lambda one: f"<h{one.level}>{_escaped(one.words)}</h{one.level}>\n",
    parts.Bullets: _bullets,
    parts.Facts: _facts,
    parts.Table: _table,
    parts.Figure: lambda one: f"<figure>{one.drawn}</figure>\n" if one.drawn else "",
    parts.Pictures: _pictures,
    parts.Group: lambda one: f"<div{_class(one.look)}>\n{_parts(one.parts)}</div>\n",
    parts.Article: _article,
}
