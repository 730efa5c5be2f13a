"""Differences between the kept results of two runs."""

import difflib
import fnmatch
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

_NOTHING = object()


class Difference(NamedTuple):
    """A difference."""

    case: str
    # The place in the case's result: names, and places in lists, joined by dots.
    path: str
    before: str  # the kept value, as text
    now: str  # the present value


class Intended(NamedTuple):
    """Differences that a change of the library intends."""

    case: str  # a pattern of case names, as `fnmatch` takes it
    path: str  # a pattern of paths
    reason: str

    def _covers(self, difference: Difference) -> bool:
        return fnmatch.fnmatchcase(difference.case, self.case) and fnmatch.fnmatchcase(
            difference.path, self.path
        )


class Verdict(NamedTuple):
    """The outcome of a comparison."""

    found: list[Difference]  # all differences that are not intended
    # For each entry of the list, the number of differences it covers.
    intended: dict[Intended, int]
    unused: list[Intended]  # entries that cover nothing, of cases that were run


def compared(
    before: dict[str, Any], now: dict[str, Any], intended: Sequence[Intended]
) -> Verdict:
    """Compares kept results of the same cases, by their names."""
    found, counts = [], dict.fromkeys(intended, 0)
    cases = {**before, **now}
    for case in cases:
        old, new = before.get(case, _NOTHING), now.get(case, _NOTHING)
        for one in _walked(case, (), old, new):
            covering = [entry for entry in intended if entry._covers(one)]
            for entry in covering:
                counts[entry] += 1
            if not covering:
                found.append(one)
    unused = [
        entry
        for entry, count in counts.items()
        if not count and fnmatch.filter(cases, entry.case)
    ]
    return Verdict(found, counts, unused)


def _walked(
    case: str, path: tuple[str, ...], old: Any, new: Any
) -> Iterator[Difference]:
    if isinstance(old, dict) and isinstance(new, dict):
        for name in {**old, **new}:
            pair = old.get(name, _NOTHING), new.get(name, _NOTHING)
            yield from _walked(case, (*path, name), *pair)
    elif isinstance(old, list) and isinstance(new, list):
        for place in range(max(len(old), len(new))):
            pair = (one[place] if place < len(one) else _NOTHING for one in (old, new))
            yield from _walked(case, (*path, str(place)), *pair)
    elif _is_page(old) and _is_page(new):
        yield from _of_lines(case, path, old.splitlines(), new.splitlines())
    elif not _is_same(old, new):
        yield Difference(case, ".".join(path), _text(old), _text(new))


def _of_lines(
    case: str, path: tuple[str, ...], old: list[str], new: list[str]
) -> Iterator[Difference]:
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    for kind, first, last, start, end in matcher.get_opcodes():
        if kind != "equal":
            where = ".".join((*path, f"line {first + 1}"))
            pair = "\n".join(old[first:last]), "\n".join(new[start:end])
            yield Difference(case, where, *map(_text, pair))


def _is_same(one: Any, other: Any) -> bool:
    """Whether leaves are equal: NaN equals NaN, and -0.0 differs from 0.0."""
    if isinstance(one, float) and isinstance(other, float):
        return one.hex() == other.hex() or math.isnan(one) and math.isnan(other)
    return type(one) is type(other) and one == other


def _is_page(value: Any) -> bool:
    return isinstance(value, str) and "\n" in value


def _text(value: Any) -> str:
    return "nothing" if value is _NOTHING else repr(value)


def _in_words(difference: Difference, width: int = 70) -> str:
    """Formats a difference; of long texts only around the first difference."""
    before, now = difference.before, difference.now
    alike = next(
        (i for i, (a, b) in enumerate(zip(before, now)) if a != b),
        min(len(before), len(now)),
    )
    start = max(0, alike - width // 2)

    def shown(text: str) -> str:
        part = text[start : start + width]
        return f"{'...' if start else ''}{part}{'...' * (start + width < len(text))}"

    where = f"  {difference.path or 'all of it'}"
    return f"{where}\n    was {shown(before)}\n    is  {shown(now)}"


def report(verdict: Verdict, most: int) -> str:
    """Formats a comparison, with at most this many differences of each case."""
    lines, by_case = [], {}
    for one in verdict.found:
        by_case.setdefault(one.case, []).append(one)
    for case, some in by_case.items():
        lines.append(f"{case}: {len(some)} differences")
        lines += [_in_words(one) for one in some[:most]]
        if len(some) > most:
            lines.append(f"  and {len(some) - most} more")
    for entry, count in verdict.intended.items():
        if count:
            lines.append(f"intended: {entry.reason}: {count} differences")
    lines += [
        f"INTENDED holds an entry that nothing differs for: {entry.case}, {entry.path}"
        for entry in verdict.unused
    ]
    lines.append(
        f"{len(verdict.found)} differences in {len(by_case)} cases, "
        f"{sum(verdict.intended.values())} intended"
    )
    return "\n".join(lines)
