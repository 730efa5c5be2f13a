"""`jaxrob rank folder...`: ranks of several networks on the same images."""

import os
import pathlib
from collections.abc import Sequence

import jaxrob
from jaxrob import reporting
from jaxrob._command.compare import read
from jaxrob._command.define import Values
from jaxrob._command.refused import Refused, check_file

_FIGURES = (".png", ".svg", ".pdf")


def run(values: Values, words: Sequence[str]) -> str:
    """Ranks the networks of results folders, and prints a table for each alteration."""
    _check_figure(values.figure)
    networks = _networks(_folders(words))
    found = reporting.ranks(networks, values.confidence_level)
    print("\n\n".join(map(reporting.rank_table, found)))
    if values.figure:
        _draw(values.figure, found)
    return ""


def _draw(path: str, found: Sequence[reporting.Ranks]) -> None:
    from jaxrob.reporting._plot import pyplot

    figure = reporting.rank_figure(found)
    place = pathlib.Path(path)
    place.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(place, dpi=120)
    pyplot().close(figure)
    print(f"wrote {place}")


def _check_figure(path: str | None) -> None:
    if path is None:
        return
    if pathlib.Path(path).suffix.lower() not in _FIGURES:
        raise Refused(f"--figure={path}: it must end with {', '.join(_FIGURES)}")
    if pathlib.Path(path).is_dir():
        raise Refused(f"--figure={path}: there is a folder of that name")
    check_file("figure", path)


def _folders(words: Sequence[str]) -> list[pathlib.Path]:
    """Returns the results folders: those given, or those within the one given."""
    for word in words:
        if not pathlib.Path(word).exists():
            raise Refused(f"{word}: there is no such folder or file")
    if len(words) > 1:
        return [pathlib.Path(word) for word in words]
    place = pathlib.Path(words[0])
    if not place.is_dir():
        raise Refused(f"{place}: expected a folder; got a file")
    if (place / "results.json").exists():
        raise Refused(
            f"{place}: it holds the results of one network, which has no rank; name "
            "the results folders of several, or the folder that they are in"
        )
    inner = sorted(one.parent for one in place.glob("*/results.json"))
    if len(inner) < 2:
        raise Refused(
            f"{place}: expected the results folders of at least two networks in it; "
            f"got {len(inner)}"
        )
    return inner


def _networks(
    folders: Sequence[pathlib.Path],
) -> dict[str, tuple[jaxrob.Assessment, ...]]:
    """Returns the assessments by the network's name, or by the folder's without one."""
    found = [(folder, read(os.fspath(folder))) for folder in folders]
    named = [
        (folder, one.network or folder.resolve().name, one.assessments)
        for folder, one in found
    ]
    networks: dict[str, tuple[jaxrob.Assessment, ...]] = {}
    where: dict[str, pathlib.Path] = {}
    for folder, name, assessments in named:
        if name in networks:
            raise Refused(
                f"{where[name]} and {folder} both hold results of a network called "
                f"{name!r}; assess one of them with another --name"
            )
        if not assessments:
            raise Refused(f"{folder}: it has no assessment under an alteration")
        networks[name], where[name] = assessments, folder
    return networks
