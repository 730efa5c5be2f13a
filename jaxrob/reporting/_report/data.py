"""A report's numbers as data within its page, and whether a page is of its results."""

import hashlib
import html
import importlib.metadata
import json
import os
import pathlib
import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from jaxrob._arguments.checks import checked_path
from jaxrob._assessment.assessment import Assessment
from jaxrob._files.regular import content_of
from jaxrob._files.strict_json import parsed
from jaxrob.reporting._results import Results, with_plan
from jaxrob.reporting._run import Run
from jaxrob.reporting._warned import by_cause

FORM = "jaxrob report 1"
#: Stands in the page for the digest until this is known.
NO_DIGEST = "0" * 64
_OPEN = '<script type="application/json" id="jaxrob-results">'
_DATA = re.compile(re.escape(_OPEN) + r"(.*?)</script>", re.DOTALL)
_DIGEST = re.compile(r'"digest":"([0-9a-f]{64})"')
_MOST_BYTES = 64 << 20
_PACKAGES = ("jaxrob", "jinja2", "markupsafe", "numpy", "pillow")


def element(results: Sequence[Results], earlier: Sequence[Results]) -> str:
    """Returns the page's element of data: JSON that no browser runs.

    Args:
      results: the results of each network.
      earlier: the earlier results.
    """
    data = {
        "format": FORM,
        "digest": NO_DIGEST,
        "versions": _versions(),
        "networks": [_network(one) for one in results],
        "earlier": [_network(one) for one in earlier],
    }
    text = json.dumps(_finite(data), separators=(",", ":"), allow_nan=False)
    # Nothing in a name can end the element, or open a comment in it.
    for letter in "<>&":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return f"{_OPEN}{text}</script>"


def with_digest(page: str) -> str:
    """Writes the digest of the whole page into its data."""
    return page.replace(f'"digest":"{NO_DIGEST}"', f'"digest":"{_digest(page)}"', 1)


def read_report(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Reads the numbers that a report, an HTML page, holds as data.

    Nothing is executed. Numbers that are not known are None.

    Example::

        (network,) = reporting.read_report("report.html")["networks"]
        print([one["robustness"] for one in network["assessments"]])

    Args:
      path: the page.

    Returns:
      "versions" of the packages that made the page, "digest" of the page, and
      "networks", for each its name, requirements, runs and "assessments": for each the
      alteration, its range, the robustness with both errors, and the curve.

    Raises:
      OSError: if the page cannot be read.
      ValueError: if it is no page of `to_html`.
    """
    place = checked_path("path", path)
    return _data(_text(place), str(place))


def check_report(
    path: str | os.PathLike[str],
    results: Sequence[Results] = (),
    earlier: Sequence[Results] = (),
) -> tuple[str, ...]:
    """Compares a report, an HTML page, with the results that it was made from.

    The page is made again and compared letter by letter, visible text and data. Who
    tested is taken from the page, because it may have been said when the page was
    written. Without results only the digest in the page is checked. It finds damage by
    accident, and no forgery: who changes the page can change the digest too.

    Args:
      path: the page.
      results: the results of each network, in the page's order.
      earlier: the earlier results that it compares with.

    Returns:
      What differs, a sentence each; empty if nothing does.

    Raises:
      OSError: if the page cannot be read.
      ValueError: if it is no page of `to_html`, or its data agree with the results but
        its text cannot be compared, because other versions made it.
    """
    place = checked_path("path", path)
    page = _text(place)
    data = _data(page, str(place))
    found = _DIGEST.search(page)
    assert found is not None  # `_data` has read it.
    blank = page.replace(found[0], f'"digest":"{NO_DIGEST}"', 1)
    damaged = (
        ()
        if _digest(blank) == found[1]
        else ("the page is not as it was written: its digest is another",)
    )
    if not results:
        return damaged
    from jaxrob.reporting._report import to_html

    again = to_html(_as_said(results, data), earlier)
    if again == page:
        return ()
    stored = _data(again, "the results")
    differences = [
        f"{where}: the page has {_said(there)}, the results {_said(here)}"
        for where, there, here in _unequal(data, stored)
        if not where.startswith(("digest", "versions"))
    ]
    if data["versions"] == stored["versions"]:
        return (*damaged, *differences, *_unequal_text(page, again))
    if not differences and not damaged:
        raise ValueError(
            f"{place}: its data are those of the results, but its text cannot be "
            f"compared: it was made by {data['versions']}, here are "
            f"{stored['versions']}"
        )
    return (*damaged, *differences)


def _text(place: pathlib.Path) -> str:
    return content_of(place, _MOST_BYTES).decode("utf-8", "replace")


def _data(page: str, name: str) -> dict[str, Any]:
    found = _DATA.findall(page)
    if len(found) != 1 or not _DIGEST.search(found[0]):
        raise ValueError(f"{name} must be a page of jaxrob's report; it has no data")
    try:
        data = parsed(found[0])
    except ValueError as error:
        raise ValueError(f"{name}: its data are damaged: {error}") from error
    if not isinstance(data, dict) or data.get("format") != FORM:
        raise ValueError(f"{name}: its data must be of the format {FORM!r}")
    return data


def _as_said(results: Sequence[Results], data: dict[str, Any]) -> list[Results]:
    """Returns the results with the testers that the page names."""
    found = list(results)
    for place, (one, network) in enumerate(zip(results, data.get("networks", []))):
        runs = network.get("runs") or []
        if len(runs) == max(len(one.runs), 1):
            found[place] = with_tester(
                one, *(runs[-1].get(key) for key in ("tester", "organisation"))
            )
    return found


def with_tester(
    results: Results, tester: str | None, organisation: str | None
) -> Results:
    """Returns results whose runs name who tested, and for whom, where that is given."""
    import dataclasses

    if not tester and not organisation:
        return results
    runs = results.runs or (Run("", "", ""),)
    return dataclasses.replace(
        results,
        runs=tuple(
            one._replace(
                tester=tester or one.tester,
                organisation=organisation or one.organisation,
            )
            for one in runs
        ),
    )


def _network(one: Results) -> dict[str, Any]:
    return {
        "name": one.network,
        "class_names": one.class_names,
        "requirements": [each._asdict() for each in one.requirements],
        "regressions": one.regressions,
        "plan": one.plan and one.plan.digest,
        "runs": [
            run._asdict() | {"files": [each._asdict() for each in run.files]}
            for run in one.runs
        ],
        "assessments": [_assessment(each) for each in with_plan(one)],
        "roma": one.roma
        and {
            "sha256": hashlib.sha256(one.roma.to_json().encode()).hexdigest(),
            "mean_plr": one.roma.mean_plr,
            "mean_plr_interval": one.roma.mean_plr_interval,
        },
    }


def _assessment(one: Assessment) -> dict[str, Any]:
    return {
        "alteration": one.alteration,
        "unit": one.unit,
        "lower": one.lower,
        "upper": one.upper,
        "identity": one.identity,
        "threshold": one.threshold,
        "measure": one.measure,
        "strategy": one.strategy,
        "rule": one.rule,
        "robustness": one.robustness,
        "error_bound": one.error_bound,
        "confidence_level": one.confidence_level,
        "confidence_interval": one.confidence_interval,
        "levels": one.levels,
        "values": one.values,
        "decided_ratio": one.decided_ratio,
        "accepted": one.accepted,
        "warnings": [each.text for each in by_cause([one])],
        "provenance": one.provenance,
        # Of all answers, most of which are not on the page.
        "sha256": hashlib.sha256(one.to_json().encode()).hexdigest(),
    }


def _finite(value: Any) -> Any:
    """Returns a value that JSON can hold: NaN becomes None."""
    if isinstance(value, dict):
        return {str(key): _finite(each) for key, each in value.items()}
    if isinstance(value, np.ndarray | list | tuple):
        return [_finite(each) for each in value]
    if isinstance(value, float | np.floating):
        return float(value) if np.isfinite(value) else None
    return value.item() if isinstance(value, np.generic) else value


def _versions() -> dict[str, str | None]:
    return {name: _version(name) for name in _PACKAGES}


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _digest(page: str) -> str:
    return hashlib.sha256(page.encode("utf-8", "replace")).hexdigest()


def _unequal(page: Any, results: Any, at: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yields the path and both values of each difference between two JSON values."""
    if isinstance(page, dict) and isinstance(results, dict):
        for key in {**page, **results}:
            where = f"{at}.{key}" if at else str(key)
            yield from _unequal(page.get(key), results.get(key), where)
    elif (
        isinstance(page, list)
        and isinstance(results, list)
        and len(page) == len(results)
    ):
        for place, pair in enumerate(zip(page, results)):
            yield from _unequal(*pair, f"{at}[{place}]")
    elif page != results:
        yield at, page, results


def _unequal_text(page: str, again: str) -> Iterator[str]:
    """Yields the lines of the page's text that differ from those made again."""
    here, there = (_DATA.sub("", one).splitlines() for one in (page, again))
    if len(here) != len(there):
        yield f"the page has {len(here)} lines, one of the results {len(there)}"
    for place, (one, other) in enumerate(zip(here, there)):
        if one != other:
            yield (
                f"line {place + 1}: the page has {_said(_read(one))}, one of the "
                f"results {_said(_read(other))}"
            )


def _read(line: str) -> str:
    """Returns a line as it is read, or with its markup where that is all."""
    text = html.unescape(re.sub(r"<[^>]*>", " ", line))
    return " ".join(text.split()) or line


def _said(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=True)
    return text if len(text) <= 120 else f"{text[:60]}...{text[-57:]}"
