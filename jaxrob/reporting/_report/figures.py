"""Draws a report's figures as SVG within the page, and embeds its pictures."""

import math
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

import numpy as np

from jaxrob._arguments.readable import readable
from jaxrob.reporting._pictures import png
from jaxrob.reporting._report.parts import Shown
from jaxrob.reporting._results import Picture
from jaxrob.reporting._style import LINES, MARGIN, MOST_MARKS
from jaxrob.reporting._words import number, short, with_unit

_WIDTH, _HEIGHT = 640, 250
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 20, 14, 40


class Line(NamedTuple):
    """A curve over the level.

    Attributes:
      name: its name in the legend.
      levels: `[L]`, ascending.
      values: `[L]` in [0, 1]; NaN where not known.
      low: `[L]`, its band's lower end; None without a band.
      high: `[L]`, the upper end.
    """

    name: str
    levels: np.ndarray
    values: np.ndarray
    low: np.ndarray | None = None
    high: np.ndarray | None = None


class Estimate(NamedTuple):
    """A row of `estimates`.

    Attributes:
      name: the text before the row.
      values: a share for each network; NaN where not known, None where not assessed.
      low: the lower ends of their intervals.
      high: the upper ends.
      open: the ends that another error leaves open; None where they are not known.
    """

    name: str
    values: tuple[float | None, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    open: tuple[tuple[float, float] | None, ...] = ()


def curves(
    lines: Sequence[Line],
    bounds: tuple[float, float],
    *,
    alt: str,
    x_label: str,
    y_label: str,
    threshold: float | None = None,
    identity: float | None = None,
    accepted: Sequence[tuple[float, float]] = (),
    level: str = "",
) -> str:
    lower, upper = bounds
    span = (_WIDTH - _LEFT - _RIGHT) * (1 - 2 * MARGIN)
    start = _LEFT + (_WIDTH - _LEFT - _RIGHT) * MARGIN

    def x(level: float) -> float:
        return start + span * (level - lower) / (upper - lower)

    tall = _HEIGHT - _TOP - _BOTTOM
    parts = [
        _shape("rect", "ok", x=x(left), y=_TOP, width=x(right) - x(left), height=tall)
        for left, right in accepted
    ]
    parts += _share_axis() + [
        _text(x(tick), _HEIGHT - _BOTTOM + 15, number(tick), "middle")
        + _segment("tick", x(tick), _HEIGHT - _BOTTOM, x(tick), _HEIGHT - _BOTTOM + 4)
        for tick in _ticks(lower, upper)
    ]
    parts.append(_text((_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - 6, x_label, "middle"))
    parts.append(_text(_LEFT - 40, 9, y_label, "start"))
    if identity is not None:
        at = x(identity)
        parts.append(_segment("identity", at, _TOP, at, _HEIGHT - _BOTTOM))
    if threshold is not None:
        parts.append(
            _segment("threshold", _LEFT, _y(threshold), _WIDTH - _RIGHT, _y(threshold))
        )
    parts += [_band(line, index, x) for index, line in enumerate(lines)]
    parts += [_drawn(line, x, index, len(lines)) for index, line in enumerate(lines)]
    return _figure(parts, _HEIGHT, alt) + _legend(
        [line.name for line in lines] if len(lines) > 1 else [],
        (
            (
                any(line.low is not None for line in lines),
                '<rect class="band k0" width="26" height="12"/>',
                f"{level} band, level by level",
            ),
            (
                threshold is not None,
                _segment("threshold", 0, 6, 26, 6),
                "threshold",
            ),
            (
                identity is not None,
                _segment("identity", 13, 0, 13, 12),
                "unaltered",
            ),
            (bool(accepted), '<rect class="ok" width="26" height="12"/>', "accepted"),
        ),
    )


def estimates(
    rows: Sequence[Estimate],
    names: Sequence[str],
    *,
    alt: str,
    x_label: str,
    level: str,
    required: Sequence[float] = (),
    opened_by: str = "levels",
) -> str:
    """Draws shares and intervals: rows of estimates, with a mark for each network."""
    left, pitch = 190, max(20, 12 * len(names) + 6)
    height = 12 + pitch * len(rows) + 36
    bottom = height - 36

    def x(share: float) -> float:
        return left + (_WIDTH - left - 26) * share

    parts = [
        _segment("grid", x(share), 6, x(share), bottom)
        + _text(x(share), bottom + 15, f"{share:.0%}".replace("%", " %"), "middle")
        for share in (0, 0.25, 0.5, 0.75, 1)
    ]
    parts.append(_text((left + _WIDTH - 26) / 2, height - 6, x_label, "middle"))
    parts += [_segment("threshold", x(one), 6, x(one), bottom) for one in required]
    for index, row in enumerate(rows):
        middle = 12 + pitch * (index + 0.5)
        parts.append(_text(left - 10, middle + 4, short(row.name, 25), "end"))
        parts += [
            _estimate(row, which, middle + 12 * (which - (len(names) - 1) / 2), x)
            for which in range(len(names))
        ]
    opened = [one for row in rows for one in row.open]
    # RoMA's categories have no legend: the axis says it all.
    kind = "any" if len(names) > 1 else "k0"
    sample = _segment(f"line {kind}", 0, 6, 26, 6)
    samples = [(True, sample, f"{level} interval (images)")]
    samples.append(
        (
            any(one is not None for one in opened),
            _segment("levels", 0, 6, 26, 6),
            f"what {opened_by} leave open on the data set",
        )
    )
    sample = _segment("threshold", 13, 0, 13, 12)
    samples.append((bool(required), sample, "required"))
    many = list(names) if len(names) > 1 else []
    return _figure(parts, height, alt) + _legend(many, samples if opened else ())


def bars(counts: Sequence[int], *, alt: str, x_label: str, y_label: str) -> str:
    most = max(max(counts), 1)
    width = (_WIDTH - _LEFT - _RIGHT) / len(counts)
    height = 150
    floor = height - _BOTTOM
    parts = []
    for index, count in enumerate(counts):
        tall = (floor - 26) * count / most
        left, top = _LEFT + index * width + 1, floor - tall
        parts.append(_shape("rect", "bar", x=left, y=top, width=width - 2, height=tall))
        if count:
            middle = _LEFT + (index + 0.5) * width
            parts.append(_text(middle, floor - tall - 4, f"{count:,}", "middle"))
    parts += [
        _text(_LEFT + share * width * len(counts), floor + 15, f"{share:.0%}", "middle")
        for share in (0, 0.25, 0.5, 0.75, 1)
    ]
    parts.append(_segment("tick", _LEFT, floor, _WIDTH - _RIGHT, floor))
    parts.append(_text((_LEFT + _WIDTH - _RIGHT) / 2, height - 6, x_label, "middle"))
    parts.append(_text(_LEFT - 40, 9, y_label, "start"))
    return _figure(parts, height, alt)


def _estimate(row: Estimate, which: int, y: float, x) -> str:
    value, low, high = row.values[which], row.low[which], row.high[which]
    parts = ""
    if value is None:
        return _text(x(0) + 4, y + 4, "not assessed", "start")
    if not (math.isnan(low) or math.isnan(high)):
        parts += _segment(f"line {_kind(which)}", x(low), y, x(high), y)
    if math.isnan(value):
        return parts + _text(x(0) + 4, y + 4, "not known", "start")
    opened = row.open[which] if row.open else None
    if opened is not None:
        parts += _segment("levels", x(opened[0]), y + 4.5, x(opened[1]), y + 4.5)
    return parts + _mark(which, x(value), y)


def _drawn(line: Line, x, index: int, number: int) -> str:
    """Draws a line and its marks. Lines below are wider: those above hide none."""
    known = ~np.isnan(line.values)
    points = [(x(a), _y(b)) for a, b in zip(line.levels[known], line.values[known])]
    width = 1.8 + min(2.4, 9 / max(number - 1, 1)) * (number - 1 - index)
    path = " ".join(f"{_at(a)},{_at(b)}" for a, b in points)
    drawn = ""
    if index:
        # White between a line and a wider one beneath it.
        drawn += _polyline("under", width + 0.6, path)
    drawn += _polyline(f"line {_kind(index)}", width, path)
    if len(points) > MOST_MARKS:
        return drawn
    # Of coinciding lines the marks below look out beneath those above.
    size = 1 + 0.55 * (number - 1 - index)
    marks = [_mark(index, a, b, size) for a, b in points]
    return drawn + "".join(marks)


def _polyline(kind: str, width: float, path: str) -> str:
    return _shape("polyline", kind, style=f"stroke-width:{_at(width)}", points=path)


def _band(line: Line, index: int, x) -> str:
    if line.low is None or line.high is None:
        return ""
    there = [(x(a), _y(b)) for a, b in zip(line.levels, line.high)]
    back = [(x(a), _y(b)) for a, b in zip(line.levels, line.low)][::-1]
    path = " ".join(f"{_at(a)},{_at(b)}" for a, b in there + back)
    return _shape("polygon", f"band {_kind(index)}", points=path)


def _mark(index: int, x: float, y: float, size: float = 1) -> str:
    corners = (
        None,
        ((-3, -3), (3, -3), (3, 3), (-3, 3)),
        ((0, -4), (4, 3), (-4, 3)),
        ((0, -4), (4, 0), (0, 4), (-4, 0)),
    )[index % 4]
    if corners is None:
        return _shape("circle", f"mark {_kind(index)}", cx=x, cy=y, r=2.8 * size)
    path = " ".join(f"{_at(x + size * a)},{_at(y + size * b)}" for a, b in corners)
    return _shape("polygon", f"mark {_kind(index)}", points=path)


def _kind(index: int) -> str:
    return f"k{index % len(LINES)}"


def _legend(names: list[str], others: Sequence[tuple[bool, str, str]]) -> str:
    samples = [
        _key(
            34,
            _segment(f"line {_kind(index)}", 1, 6, 33, 6) + _mark(index, 17, 6),
            name,
        )
        for index, name in enumerate(names)
    ]
    samples += [_key(26, drawn, words) for is_there, drawn, words in others if is_there]
    return f'<p class="legend">{" ".join(samples)}</p>' if samples else ""


def _key(width: int, drawn: str, words: str) -> str:
    return (
        f'<span class="key"><svg aria-hidden="true" width="{width}" height="12">{drawn}'
        f"</svg> {escape(readable(words))}</span>"
    )


def _share_axis() -> list[str]:
    return [
        _segment("grid", _LEFT, _y(share), _WIDTH - _RIGHT, _y(share))
        + _text(_LEFT - 6, _y(share) + 4, f"{share:.0%}".replace("%", " %"), "end")
        for share in (0, 0.2, 0.4, 0.6, 0.8, 1)
    ]


def _y(share: float) -> float:
    return _TOP + 6 + (_HEIGHT - _TOP - 6 - _BOTTOM) * (1 - share)


def _ticks(lower: float, upper: float) -> list[float]:
    """From four to nine round numbers within the range."""
    step = 10.0 ** math.floor(math.log10((upper - lower) / 4))
    step = next(
        step * times
        for times in (1, 2, 2.5, 5, 10)
        if (upper - lower) / step / times < 9
    )
    first = math.ceil(lower / step - 1e-9)
    last = math.floor(upper / step + 1e-9)
    return [step * index for index in range(first, last + 1)]


def _segment(kind: str, x1: float, y1: float, x2: float, y2: float) -> str:
    return _shape("line", kind, x1=x1, y1=y1, x2=x2, y2=y2)


def _shape(tag: str, kind: str, **attributes: float | str) -> str:
    """Returns an element; none of its texts is foreign."""
    said = "".join(
        f' {name}="{one if isinstance(one, str) else _at(one)}"'
        for name, one in attributes.items()
    )
    return f'<{tag} class="{kind}"{said}/>'


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return (
        f'<text x="{_at(x)}" y="{_at(y)}" text-anchor="{anchor}">'
        f"{escape(readable(text))}</text>"
    )


def _figure(parts: Sequence[str], height: float, alt: str) -> str:
    return (
        f'<svg class="chart" viewBox="0 0 {_WIDTH} {_at(height)}" role="img" '
        f'aria-label="{escape(readable(alt))}">{"".join(parts)}</svg>'
    )


def _at(place: float) -> str:
    """A place in the figure; a tenth of a unit is less than can be seen."""
    return f"{place:.1f}".removesuffix(".0")


# The most base64 bytes of all pictures: every browser reads a page of 5 MB, and the
# rest takes less than 2 MB.
_MOST_BYTES = 2_500_000
# Sides in pixels, tried in turn, to which larger pictures are reduced until all fit.
_SIDES = (128, 96, 64, 48, 32, 24, 16)
_SHOWN = 72  # A picture's longer side on the page, in pixels.


def side_of(pictures: Sequence[Picture]) -> int | None:
    """Returns the side in pixels at which all pictures fit; None if unreduced."""
    kept = {one.digest: one.image for one in pictures if one.image is not None}
    side = _SIDES[-1]
    for side in _SIDES:
        sizes = [len(png(image, side)) * 4 // 3 for image in kept.values()]
        if sum(sizes) <= _MOST_BYTES:
            break
    reduced = any(max(image.shape[:2]) > side for image in kept.values())
    return side if reduced else None


def shown(
    picture: Picture,
    names: Sequence[str],
    unit: str,
    side: int | None,
    score: str | None = None,
) -> Shown:
    label = _class_of(picture.label, names)
    answer = _class_of(picture.predicted, names)
    undecided = picture.predicted == len(names)
    wrong = picture.label != picture.predicted and not undecided
    answer = "unknown" if undecided else answer
    image = f"image {picture.index}"
    if picture.file is not None:
        image += f" ({short(picture.file, 60)})"
    words = f"{image} of {label}"
    if picture.predicted is not None:
        words += f", answered {answer}"
    if score is not None:
        words = f"{image}, {score}"
    level = with_unit(picture.level, unit)
    drawn = None if picture.image is None else _embedded(picture.image, side)
    wrong = wrong and picture.label is not None and picture.predicted is not None
    seen = picture.shown_as.replace("first failure", "first failure seen")
    return Shown(drawn, level, seen, words, wrong)


def _embedded(image: np.ndarray, side: int | None) -> tuple[bytes, int, int, str]:
    height, width = image.shape[:2]
    scale = _SHOWN / max(height, width)
    # Small pictures show their pixels, because smoothing would look like blur.
    kind = "pixels" if scale > 1 else "smooth"
    size = max(1, round(width * scale)), max(1, round(height * scale))
    return png(image, side), *size, kind


def _class_of(number: int | None, names: Sequence[str]) -> str:
    if number is None:
        return "class not known"
    return f"“{short(names[number], 40)}”" if number < len(names) else f"class {number}"
