"""Writes and reads folders of one network's results."""

import io
import os
import pathlib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from jaxrob._arguments.checks import check_type, checked_path
from jaxrob._assessment.assessment import Assessment
from jaxrob._codec import from_json, to_json
from jaxrob._files.npz import DAMAGE, read_npz
from jaxrob._files.regular import check_regular, content_of
from jaxrob._files.swap import read_together, write_together
from jaxrob.adversarial import Attack
from jaxrob.reporting._index import Entry, Index, index_of
from jaxrob.reporting._results import Picture, Results, check_picture, with_plan
from jaxrob.reporting._run import Run, Runs
from jaxrob.roma import RomaResult

T = TypeVar("T")

_INDEX, _ROMA, _ATTACK = "results.json", "roma.json", "attack.json"
_PICTURES, _RUNS = "pictures.npz", "runs.json"
# Far above the index of a thousand alterations, and answers on a million images.
_MOST_INDEX = 64 << 20
_MOST_BYTES = 1 << 30
_MOST_FILES = 10_000
# Alterations' names may be longer than file names.
_LONGEST = 60
# Identifies an assessment's file where there is no index.
_ASSESSMENT = b'"jaxrob assessment '


def write_results(folder: str | os.PathLike[str], results: Results) -> None:
    """Writes results into a folder, which is created if it is missing.

    `results.json` is the index. Each assessment is a file of its own, named after its
    alteration, with the plan's digest in its provenance. RoMA's result is `roma.json`,
    the attack's, without its images, `attack.json`, and the pictures are in
    `pictures.npz`. Equal results give equal bytes. Command line and date of the runs
    are in `runs.json` alone, so that two runs of one command differ in this file only.

    Results already in the folder are replaced atomically: whenever a run is killed,
    `read_results` returns either the old results or the new ones. So the disk needs
    space for both.

    Example::

        result = jaxrob.assess(classifier, dataset, blur, key=key)
        shown = reporting.pictures(result, blur, dataset, key)
        results = reporting.Results(
            "my network", dataset.class_names, (result,), pictures=(shown,)
        )
        reporting.write_results("results", results)

    Args:
      folder: the folder.
      results: the results.

    Raises:
      TypeError: if an argument has a wrong type.
      ValueError: if a file could not hold a requirement or the plan.
      OSError: if the folder cannot be written to, or the disk is full. The folder then
        stays unchanged, and the error names the file.
    """
    path = checked_path("folder", folder)
    check_type("results", results, Results, "a jaxrob.reporting.Results")
    names = _names([one.alteration for one in results.assessments])
    roma = None if results.roma is None else _ROMA
    attack = None if results.attack is None else _ATTACK
    index = to_json(index_of(results, names, roma, attack), indent=1)
    from_json(index, Index)  # Rejects a bad index before anything is replaced.
    contents: dict[str, bytes] = {}
    for name, one in zip(names, with_plan(results)):
        contents[name] = one.to_json().encode()
    if results.roma is not None:
        contents[_ROMA] = results.roma.to_json().encode()
    if results.attack is not None:
        contents[_ATTACK] = results.attack.to_json().encode()
    if pictures := _packed(results):
        contents[_PICTURES] = pictures
    if results.runs:
        runs = to_json(Runs(tuple(results.runs)), indent=1)
        from_json(runs, Runs)
        contents[_RUNS] = runs.encode()
    contents[_INDEX] = index.encode()
    gone = {_ROMA, _ATTACK, _PICTURES, _RUNS} - contents.keys()
    path.mkdir(parents=True, exist_ok=True)
    write_together(path, contents, sorted(gone))


def read_results(folder: str | os.PathLike[str]) -> Results:
    """Reads the results that `write_results` wrote.

    From a folder without `results.json` it reads all assessments, sorted by file name,
    without pictures. Nothing is executed or unpickled.

    Args:
      folder: the folder.

    Raises:
      OSError: if a file cannot be read.
      ValueError: if there is no such folder, a file is too large or a link that leads
        out of the folder, or an entry is missing, unknown, outside its range, or
        contradicts others. The message names the file.
    """
    path = checked_path("folder", folder)
    if not path.is_dir():
        raise ValueError(f"folder must be one of results; got {path}, which is none")

    def read(place: Callable[[str], pathlib.Path]) -> Results:
        # A dangling link to the index is rejected when it is read.
        if not os.path.lexists(place(_INDEX)):
            return _without_index(path)
        return _by_index(place)

    return read_together(path, _INDEX, read)


def _by_index(place: Callable[[str], pathlib.Path]) -> Results:
    """Reads the results listed in the index; `place` returns a file's path."""
    index = _read(place(_INDEX), lambda text: from_json(text, Index), _MOST_INDEX)
    assessments = tuple(
        _read(place(entry.file), Assessment.from_json) for entry in index.entries
    )
    roma = index.roma and _read(place(index.roma), RomaResult.from_json)
    attack = index.attack and _read(place(index.attack), Attack.from_json)
    if index.plan is not None:
        for entry, one in zip(index.entries, assessments):
            if one.provenance.get("plan") != index.plan.digest:
                raise ValueError(
                    f"{place(entry.file)}: it was not assessed by the plan that "
                    f"{_INDEX} holds"
                )
    pictures = _with_images(place(_PICTURES), index.entries)
    runs: tuple[Run, ...] = ()
    if os.path.lexists(place(_RUNS)):
        runs = _read(place(_RUNS), lambda text: from_json(text, Runs)).runs
    try:
        return Results(
            runs=runs,
            network=index.network,
            class_names=index.class_names,
            assessments=assessments,
            reasons=tuple(entry.why for entry in index.entries),
            pictures=pictures,
            roma=roma or None,
            attack=attack or None,
            requirements=index.requirements,
            regressions=index.regressions,
            differences=index.differences,
            plan=index.plan,
        )
    except (TypeError, ValueError) as error:
        raise ValueError(f"{place(_INDEX)}: {error}") from error


def _names(alterations: Sequence[str]) -> list[str]:
    """Returns a file name for each alteration, distinct even if case is ignored."""
    names: list[str] = []
    taken = {name.casefold() for name in (_INDEX, _ROMA, _ATTACK, _RUNS)}
    for alteration in alterations:
        stem = re.sub(r"\W+", "_", alteration)[:_LONGEST] or "_"
        number, name = 1, f"{stem}.json"
        while name.casefold() in taken:
            number += 1
            name = f"{stem}_{number}.json"
        taken.add(name.casefold())
        names.append(name)
    return names


def _without_index(path: pathlib.Path) -> Results:
    files = sorted(path.glob("*.json"))
    if len(files) > _MOST_FILES:
        raise ValueError(f"{path}: at most {_MOST_FILES} files are read")
    found = [_read(file, _assessment_or_none) for file in files]
    assessments = tuple(one for one in found if one is not None)
    if not assessments:
        raise ValueError(
            f"{path}: it holds neither {_INDEX} nor a file with an assessment"
        )
    networks = [one.provenance.get("network", {}) for one in assessments]
    names = [one.get("class_names") for one in networks]
    network, names = (
        one[0] if all(each == one[0] for each in one) else None
        for one in ([one.get("name") for one in networks], names)
    )
    try:
        return Results(
            network=network or None,
            class_names=tuple(names) if names else None,
            assessments=assessments,
        )
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path}: {error}") from error


def _assessment_or_none(content: bytes) -> Assessment | None:
    return Assessment.from_json(content) if _ASSESSMENT in content else None


def _read(path: pathlib.Path, made: Callable[[bytes], T], most: int = _MOST_BYTES) -> T:
    """Applies a function to a file's bytes, and names the file in its errors."""
    _check_inside(path)
    content = content_of(path, most)
    try:
        return made(content)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path}: {error}") from error


def _check_inside(path: pathlib.Path) -> None:
    """Rejects a link that leads out of its folder, before anything is read.

    Somebody else's folder could otherwise show files outside it.
    """
    if not path.is_symlink():
        return
    folder, target = os.path.realpath(path.parent), os.path.realpath(path)
    if os.path.commonpath([folder, target]) != folder:
        raise ValueError(
            f"{path}: a link that leads out of the folder, which is not followed; put "
            "the file itself there"
        )


def _packed(results: Results) -> bytes:
    """Returns the images as an npz file; empty if there are no images."""
    images: dict[str, Any] = {
        one.digest: one.image
        for some in results.pictures
        for one in some
        if one.image is not None
    }
    if not images:
        return b""
    stream = io.BytesIO()
    np.savez_compressed(stream, **dict(sorted(images.items())))
    return stream.getvalue()


def _with_images(
    path: pathlib.Path, entries: Sequence[Entry]
) -> tuple[tuple[Picture, ...], ...]:
    """Returns the pictures with their images, where these were kept."""
    wanted = {one.digest for entry in entries for one in entry.pictures}
    images: Mapping[str, np.ndarray] = {}
    if wanted and os.path.lexists(path):
        images = _images(path)
    return tuple(
        tuple(one._replace(image=images.get(one.digest)) for one in entry.pictures)
        for entry in entries
    )


def _images(path: pathlib.Path) -> Mapping[str, np.ndarray]:
    _check_inside(path)
    check_regular(path)
    if path.stat().st_size > _MOST_BYTES:
        raise ValueError(f"{path}: it has more than the {_MOST_BYTES} bytes read")
    try:
        images = read_npz(path, may_be_compressed=True)
        for name, image in images.items():
            check_picture(repr(name), image)
    except FileNotFoundError:
        raise
    except DAMAGE as error:
        raise ValueError(f"{path}: {error}") from error
    return images
