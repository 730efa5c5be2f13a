"""Draws a report's figures as SVG within the page, and embeds its pictures."""

import math
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import NamedTuple

import numpy as np

from jaxrob._arguments.texts import readable
from jaxrob._curve import ScoreCurve
from jaxrob.reporting._pictures import png
from jaxrob.reporting._plot import LINES, MARGIN, MOST_MARKS
from jaxrob.reporting._report.parts import Shown
from jaxrob.reporting._report.report import Tested
from jaxrob.reporting._results import Picture
from jaxrob.reporting._words import at_level, number, percent, short

# Narrow, so that its letters can be read on a phone and beside a table in print.
_WIDTH, _HEIGHT = 400, 190
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 386, 14, 150  # Of the frame.
# The most base64 bytes of all pictures: every browser reads a page of 5 MB, and the
# rest takes less than 2 MB.
_MOST_BYTES = 2_500_000
# Sides in pixels, tried in turn, to which larger pictures are reduced until all fit.
_SIDES = (128, 96, 64, 48, 32, 24, 16)
_SHOWN = 72  # A picture's longer side on the page, in pixels.


_Place = Callable[[float], float]


class Line(NamedTuple):
    """A curve: arrays `[L]`, NaN where not known, and its band, or None."""

    name: str
    levels: np.ndarray
    values: np.ndarray
    low: np.ndarray | None = None
    high: np.ndarray | None = None


class Estimate(NamedTuple):
    """A share, its interval, and the ends that another error leaves open, if known."""

    value: float
    low: float
    high: float
    left_open: tuple[float, float] | None = None


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
    listed: Mapping[float, str] | None = None,
) -> str:
    lower, upper = bounds
    margin = (_RIGHT - _LEFT) * MARGIN

    def x(level: float) -> float:
        share = (level - lower) / (upper - lower)
        return _LEFT + margin + (_RIGHT - _LEFT - 2 * margin) * share

    others: dict[str, str] = {}
    parts = [
        _shape("rect", "ok", x=x(a), y=_TOP, width=x(b) - x(a), height=_BOTTOM - _TOP)
        for a, b in accepted
    ]
    for share in (0, 0.2, 0.4, 0.6, 0.8, 1):
        parts.append(_segment("grid", _LEFT, _y(share), _RIGHT, _y(share)))
        parts.append(_text(_LEFT - 6, _y(share) + 4, _percent(share), "end"))
    ticks = listed or {one: number(one) for one in _ticks(lower, upper)}
    for tick, text in ticks.items():
        parts.append(_text(x(tick), _BOTTOM + 15, short(text, 12)))
        parts.append(_segment("tick", x(tick), _BOTTOM, x(tick), _BOTTOM + 4))
    parts += _labels(x_label, y_label, _HEIGHT)
    if any(line.low is not None for line in lines):
        band = _shape("rect", "band k0", width=26, height=12)
        others[f"{level} band, level by level"] = band
    if threshold is not None:
        parts.append(_segment("threshold", _LEFT, _y(threshold), _RIGHT, _y(threshold)))
        others["threshold"] = _segment("threshold", 0, 6, 26, 6)
    if identity is not None:
        parts.append(_segment("identity", x(identity), _TOP, x(identity), _BOTTOM))
        others["unaltered"] = _segment("identity", 13, 0, 13, 12)
    if accepted:
        others["accepted"] = _shape("rect", "ok", width=26, height=12)
    is_joined, of = listed is None, len(lines)
    parts += [_band(line, index, x, is_joined) for index, line in enumerate(lines)]
    parts += [_drawn(line, x, at, of, is_joined) for at, line in enumerate(lines)]
    return _figure(parts, _HEIGHT, alt) + _legend([one.name for one in lines], others)


def estimates(
    rows: Mapping[str, Sequence[Estimate | None]],
    names: Sequence[str],
    *,
    level: str,
    required: Sequence[float],
    opened_by: str,
) -> str:
    """Draws robustnesses in rows, a mark for each network."""
    left, pitch = 148, max(20, 12 * len(names) + 6)
    height = 12 + pitch * len(rows) + 36
    bottom = height - 36

    def x(share: float) -> float:
        return left + (_WIDTH - left - 26) * share

    parts = []
    for share in (0, 0.25, 0.5, 0.75, 1):
        parts.append(_segment("grid", x(share), 6, x(share), bottom))
        parts.append(_text(x(share), bottom + 15, _percent(share)))
    words = "robustness, the share of the range that is good enough"
    parts.append(_text(_WIDTH / 2, height - 6, words))
    parts += [_segment("threshold", x(one), 6, x(one), bottom) for one in required]
    for index, (name, row) in enumerate(rows.items()):
        middle = 12 + pitch * (index + 0.5)
        parts.append(_text(left - 10, middle + 4, short(name, 25), "end"))
        for which, one in enumerate(row):
            at = middle + 12 * (which - (len(names) - 1) / 2)
            parts.append(_estimate(one, which, at, x))
    kind = "line any" if len(names) > 1 else "line k0"
    others = {f"{level} interval (images)": _segment(kind, 0, 6, 26, 6)}
    if any(one and one.left_open for row in rows.values() for one in row):
        words = f"what {opened_by} leave open on the data set"
        others[words] = _segment("levels", 0, 6, 26, 6)
    if required:
        others["required"] = _segment("threshold", 13, 0, 13, 12)
    alt = "the robustness to each alteration, with its interval"
    return _figure(parts, height, alt) + _legend(names, others)


def _estimate(one: Estimate | None, which: int, y: float, x: _Place) -> str:
    if one is None:
        return _text(x(0) + 4, y + 4, "not assessed", "start")
    parts = ""
    if not (math.isnan(one.low) or math.isnan(one.high)):
        parts += _segment(f"line {_kind(which)}", x(one.low), y, x(one.high), y)
    if math.isnan(one.value):
        return parts + _text(x(0) + 4, y + 4, "not known", "start")
    if one.left_open is not None:
        low, high = map(x, one.left_open)
        parts += _segment("levels", low, y + 4.5, high, y + 4.5)
    return parts + _mark(which, x(one.value), y)


def _drawn(line: Line, x: _Place, index: int, number: int, is_joined: bool) -> str:
    """Draws a line and its marks. Lines below are wider: those above hide none."""
    known, below = ~np.isnan(line.values), number - 1 - index
    points = [(x(a), _y(b)) for a, b in zip(line.levels[known], line.values[known])]
    width = 1.8 + min(2.4, 9 / max(number - 1, 1)) * below
    # White between a line and a wider one beneath it.
    looks = [("under", width + 0.6)] * bool(index) + [(f"line {_kind(index)}", width)]
    drawn = "".join(
        _shape(
            "polyline", kind, style=f"stroke-width:{_at(wide)}", points=_path(points)
        )
        for kind, wide in looks * is_joined
    )
    if len(points) <= MOST_MARKS:
        # Of coinciding lines the marks below look out beneath those above.
        drawn += "".join(_mark(index, a, b, 1 + 0.55 * below) for a, b in points)
    return drawn


def _band(line: Line, index: int, x: _Place, is_joined: bool) -> str:
    if line.low is None or line.high is None:
        return ""
    if not is_joined:
        ends = zip(line.levels, line.low, line.high)
        places = ((x(at), _y(low), _y(high)) for at, low, high in ends)
        kind = f"line {_kind(index)}"
        return "".join(_segment(kind, at, low, at, high) for at, low, high in places)
    there = [(x(a), _y(b)) for a, b in zip(line.levels, line.high)]
    back = [(x(a), _y(b)) for a, b in zip(line.levels, line.low)][::-1]
    return _shape("polygon", f"band {_kind(index)}", points=_path(there + back))


def _path(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{_at(a)},{_at(b)}" for a, b in points)


def _mark(index: int, x: float, y: float, size: float = 1) -> str:
    corners = (
        None,
        ((-3, -3), (3, -3), (3, 3), (-3, 3)),
        ((0, -4), (4, 3), (-4, 3)),
        ((0, -4), (4, 0), (0, 4), (-4, 0)),
    )[index % 4]
    if corners is None:
        return _shape("circle", f"mark {_kind(index)}", cx=x, cy=y, r=2.8 * size)
    path = _path([(x + size * a, y + size * b) for a, b in corners])
    return _shape("polygon", f"mark {_kind(index)}", points=path)


def _kind(index: int) -> str:
    return f"k{index % len(LINES)}"


def _legend(names: Sequence[str], others: Mapping[str, str]) -> str:
    samples = [
        (34, _segment(f"line {_kind(at)}", 1, 6, 33, 6) + _mark(at, 17, 6), name)
        for at, name in enumerate(names if len(names) > 1 else ())
    ]
    samples += [(26, drawn, words) for words, drawn in others.items()]
    keys = [
        f'<span class="key"><svg aria-hidden="true" width="{width}" height="12">{drawn}'
        f"</svg> {escape(readable(words))}</span>"
        for width, drawn, words in samples
    ]
    return f'<p class="legend">{" ".join(keys)}</p>' if keys else ""


def _labels(x_label: str, y_label: str, height: float) -> list[str]:
    x_text = _text((_LEFT + _RIGHT) / 2, height - 6, x_label)
    return [x_text, _text(_LEFT - 40, 9, y_label, "start")]


def _percent(share: float) -> str:
    return f"{share:.0%}".replace("%", " %")


def _y(share: float) -> float:
    return _TOP + 6 + (_BOTTOM - _TOP - 6) * (1 - share)


def _ticks(lower: float, upper: float) -> list[float]:
    """From three to seven round numbers within the range."""
    step = 10.0 ** math.floor(math.log10((upper - lower) / 4))
    steps = (step * times for times in (1, 2, 2.5, 5, 10))
    step = next(one for one in steps if (upper - lower) / one < 6)
    first, last = math.ceil(lower / step - 1e-9), math.floor(upper / step + 1e-9)
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


def _text(x: float, y: float, text: str, anchor: str = "middle") -> str:
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


def shown(picture: Picture, tested: Tested, side: int | None) -> Shown:
    curve, names = tested.one.curve, tested.classes
    label, answer = picture.label, picture.predicted
    is_unknown = answer == len(names)
    words = f"image {picture.index}"
    if picture.file is not None:
        words += f" ({short(picture.file, 60)})"
    if isinstance(curve, ScoreCurve):
        at = np.flatnonzero(curve.levels == picture.level)
        # The strategy may have skipped this level, or this image there.
        value = curve.scores[at[0], picture.index] if len(at) else np.nan
        words += f", {short(curve.score, 40)} {percent(float(value))}"
    else:
        words += f" of {_class_of(label, names)}"
        if answer is not None:
            known = "unknown" if is_unknown else _class_of(answer, names)
            words += f", answered {known}"
    return Shown(
        None if picture.image is None else embedded(picture.image, side),
        at_level(tested.one, picture.level),
        picture.shown_as.replace("first failure", "first failure seen"),
        words,
        not (label is None or answer in (None, label) or is_unknown),
    )


def embedded(image: np.ndarray, side: int | None) -> tuple[bytes, int, int, str]:
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
