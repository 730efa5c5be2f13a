"""Writes and reads folders of one network's results."""

import contextlib
import hashlib
import io
import os
import pathlib
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Annotated, Any, NamedTuple, TypeVar

import numpy as np

from jaxrob._arguments.checks import (
    check_type,
    checked_names,
    checked_path,
    checked_sequence,
)
from jaxrob._arguments.texts import warn
from jaxrob._assessment.assessment import Assessment
from jaxrob._codec import Layout, Text, document, from_json, to_json
from jaxrob._files import content_of, damage_of, lock, parsed, read_npz, write_file
from jaxrob.adversarial import Attack
from jaxrob.domains._results import DomainResults
from jaxrob.reporting._gate import beside_assessments
from jaxrob.reporting._requirements import Plan, Required
from jaxrob.reporting._results import (
    Difference,
    Picture,
    Results,
    Runs,
    check_picture,
    with_plan,
)
from jaxrob.roma import RomaResult

# The name of a file in the folder itself, without a path, that ends in its digest.
_File = Text(
    "the name of a file in the folder, with its digest, such as "
    "rotation-0123456789abcdef.json",
    r"\w[^/\\:\0]{0,250}-[0-9a-f]{16}\.(json|npz)",
)


class Entry(NamedTuple):
    """An assessment: its file's name, its range's reason, pictures without images."""

    file: Annotated[str, _File]
    why: Annotated[str | None, Text()]
    pictures: tuple[Picture, ...]


@document("jaxrob results 1")
class Index(NamedTuple):
    """The fields of `Results`, or the names of their files; `images` is the pixels'."""

    network: Annotated[str | None, Text()]
    class_names: tuple[str, ...] | None
    plan: Plan | None
    requirements: tuple[Required, ...]
    regressions: tuple[str, ...]
    differences: tuple[Difference, ...]
    entries: Annotated[tuple[Entry, ...], Layout("assessments")]
    roma: Annotated[str | None, _File]
    attack: Annotated[str | None, _File]
    domain: Annotated[str | None, _File, Layout(may_lack=True)]
    images: Annotated[str | None, _File]


T = TypeVar("T")

INDEX = "results.json"
# Far above the index of a thousand alterations, and answers on a million images.
_MOST_INDEX = 64 << 20
_MOST_BYTES = 1 << 30
_MOST_FILES = 10_000
# Alterations' names may be longer than file names.
_LONGEST = 60
_OURS = re.compile(r".*-[0-9a-f]{16}\.(json|npz)|.*\.(json|npz)\.[0-9a-f]{8}\.part")
# Identifies an assessment's file where there is no index.
_ASSESSMENT = b'"jaxrob assessment '
_OTHER = "it is not what was written under this name"
# Writers that replace the index while a reader reads.
_TRIES = 100


def write_results(folder: str | os.PathLike[str], results: Results) -> None:
    """Writes results into a folder, which is created if it is missing.

    `results.json` is the index, which names the other files: each assessment, named
    after its alteration, with the plan's digest in its provenance; RoMA's result; the
    attack's, without its images; and the pictures. Each name ends in the digest of what
    the file says, seconds aside, so that exact repetitions have equal names. Command
    line and date of the runs are in `runs-DIGEST.json` alone, by the index's digest.

    The index is replaced last, and atomically: whenever a run is killed, `read_results`
    returns either the old results or the new ones. So the disk needs space for both.
    Then files that no index names any more are removed.

    Raises:
      TypeError: if an argument has a wrong type.
      ValueError: if a file could not hold a requirement or the plan.
      OSError: if the folder cannot be written to, or the disk is full. The folder then
        holds what it held, and the error names the file.
    """
    path = checked_path("folder", folder)
    check_type("results", results, Results, "a jaxrob.reporting.Results")
    files: dict[str, bytes] = {}

    def named(stem: str, text: str) -> str:
        name = f"{stem}-{parsed(text)['digest']}.json"
        files[name] = text.encode()
        return name

    assessments = [
        named(re.sub(r"\W+", "_", one.alteration)[:_LONGEST] or "_", one.to_json())
        for one in with_plan(results)
    ]
    images = None
    if pixels := _packed(results):
        images = f"pictures-{_digest(pixels)}.npz"
        files[images] = pixels
    index = Index(
        network=results.network,
        class_names=results.class_names,
        plan=results.plan,
        requirements=results.requirements,
        regressions=results.regressions,
        differences=results.differences,
        entries=tuple(map(Entry, assessments, results.reasons, results.pictures)),
        roma=results.roma and named("roma", results.roma.to_json()),
        attack=results.attack and named("attack", results.attack.to_json()),
        domain=results.domain and named("domain", results.domain.to_json()),
        images=images,
    )
    text = to_json(index, indent=1)
    from_json(text, Index)  # Rejects a bad index before anything is replaced.
    if results.runs:
        runs = to_json(Runs(tuple(results.runs)), indent=1)
        from_json(runs, Runs)
        files[_runs_name(text)] = runs.encode()
    path.mkdir(parents=True, exist_ok=True)
    with open(path / ".lock", "wb") as file:
        # Another writer would lose files that its index does not name yet.
        lock(file.fileno(), wait=True)
        before = set(os.listdir(path))
        try:
            for name, content in files.items():
                write_file(path / name, content)
            write_file(path / INDEX, text.encode())
        except BaseException:
            _remove(path, files.keys() - before)
            raise
        there = {name for name in os.listdir(path) if _OURS.fullmatch(name)}
        _remove(path, there - files.keys())


def read_results(folder: str | os.PathLike[str]) -> Results:
    """Reads the results that `write_results` wrote.

    From a folder without `results.json` it reads all assessments, sorted by file name,
    without pictures. Nothing is executed or unpickled.

    Raises:
      OSError: if a file cannot be read.
      ValueError: if there is no such folder, a file is too large or a link that leads
        out of the folder, or an entry is missing, unknown, outside its range, or was
        changed. The message names the file.
    """
    path = checked_path("folder", folder)
    if not path.is_dir():
        raise ValueError(f"folder must be one of results; got {path}, which is none")
    # A dangling link to the index is rejected when it is read.
    if not os.path.lexists(path / INDEX):
        return _without_index(path)
    for _ in range(_TRIES):
        text = _content(path / INDEX, _MOST_INDEX)
        try:
            return _by_index(path, text)
        except FileNotFoundError:
            # A writer has replaced the index, and removed what only the old one names.
            if _content(path / INDEX, _MOST_INDEX) == text:
                raise
    raise OSError(f"{path}: its results were replaced {_TRIES} times while it was read")


def earlier_assessments(
    paths: Sequence[str | os.PathLike[str]], alterations: Sequence[str]
) -> list[Assessment]:
    """Reads the earlier assessments that new ones must not fall below.

    Warns of what else a folder holds: no RoMA and no domain is compared.

    Args:
      paths: results folders with an assessment of each alteration, or JSON files of
        single assessments.
      alterations: the names of the alterations assessed now.

    Raises:
      TypeError: if an argument has a wrong type.
      ValueError: if a file is missing, or holds no assessment of one of the
        alterations, or a folder lacks one of them; the message begins with the path.
      OSError: if a file cannot be read.
    """
    wanted = str | os.PathLike
    paths = checked_sequence("paths", paths, wanted, "paths", min_length=0)
    alterations = checked_names("alterations", alterations)
    found = []
    for path in (checked_path("paths", one) for one in paths):
        if path.is_dir():
            there = read_results(path)
            lacking = {*alterations} - {one.alteration for one in there.assessments}
            if lacking:
                raise ValueError(f"{path}: it has no assessment of {min(lacking)}")
            for name in beside_assessments(there):
                warn(f"{path}: {name} is not compared")
            found += there.assessments
            continue
        if not path.exists():
            raise ValueError(f"{path}: No such file or folder")
        # Named by the user, who means the file behind a link.
        content = path.read_bytes()
        with damage_of(path):
            old = Assessment.from_json(content)
        if old.alteration not in alterations:
            raise ValueError(
                f"{path}: it is of {old.alteration}, which is not assessed here; "
                f"{', '.join(alterations)} are"
            )
        found.append(old)
    return found


def _by_index(path: pathlib.Path, text: bytes) -> Results:
    with damage_of(path / INDEX):
        index = from_json(text, Index)
    assessments = tuple(
        _read(path / entry.file, Assessment.from_json) for entry in index.entries
    )
    roma = _read(path / index.roma, RomaResult.from_json) if index.roma else None
    attack = _read(path / index.attack, Attack.from_json) if index.attack else None
    domain = index.domain and _read(path / index.domain, DomainResults.from_json)
    images = _images(path / index.images) if index.images else {}
    runs = path / _runs_name(text)
    some_runs = Runs(())
    if os.path.lexists(runs):
        some_runs = _read(runs, lambda text: from_json(text, Runs), has_digest=False)
    pictures = [
        [one._replace(image=images.get(one.digest)) for one in entry.pictures]
        for entry in index.entries
    ]
    with damage_of(path / INDEX):
        return Results(
            network=index.network,
            class_names=index.class_names,
            assessments=assessments,
            reasons=tuple(entry.why for entry in index.entries),
            pictures=tuple(map(tuple, pictures)),
            roma=roma,
            attack=attack,
            requirements=index.requirements,
            regressions=index.regressions,
            plan=index.plan,
            differences=index.differences,
            runs=some_runs.runs,
            domain=domain or None,
        )


def _without_index(path: pathlib.Path) -> Results:
    files = sorted(path.glob("*.json"))
    if len(files) > _MOST_FILES:
        raise ValueError(f"{path}: at most {_MOST_FILES} files are read")

    def assessment(content: bytes) -> Assessment | None:
        return Assessment.from_json(content) if _ASSESSMENT in content else None

    parts = [_read(file, assessment, has_digest=False) for file in files]
    assessments = tuple(one for one in parts if one is not None)
    if not assessments:
        raise ValueError(
            f"{path}: it holds neither {INDEX} nor a file with an assessment"
        )
    networks = [one.provenance.get("network") or {} for one in assessments]
    names = {one.get("name") for one in networks}
    classes = {tuple(one.get("class_names") or ()) for one in networks}
    with damage_of(path):
        return Results(
            network=names.pop() or None if len(names) == 1 else None,
            class_names=classes.pop() or None if len(classes) == 1 else None,
            assessments=assessments,
        )


def _runs_name(index: str | bytes) -> str:
    return f"runs-{parsed(index)['digest']}.json"


def _read(
    path: pathlib.Path, parse: Callable[[bytes], T], has_digest: bool = True
) -> T:
    content = _content(path, _MOST_BYTES)
    with damage_of(path):
        # The digest of a document is within it.
        if has_digest and path.stem[-16:].encode() not in content:
            raise ValueError(_OTHER)
        return parse(content)


def _images(path: pathlib.Path) -> Mapping[str, np.ndarray]:
    content = _content(path, _MOST_BYTES)
    with damage_of(path):
        if _digest(content) != path.stem[-16:]:
            raise ValueError(_OTHER)
        images = read_npz(path, may_be_compressed=True)
        for name, image in images.items():
            check_picture(repr(name), image)
    return images


def _content(path: pathlib.Path, most: int) -> bytes:
    # Somebody else's folder could otherwise show files outside it.
    if path.is_symlink():
        folder, target = os.path.realpath(path.parent), os.path.realpath(path)
        if os.path.commonpath([folder, target]) != folder:
            raise ValueError(
                f"{path}: a link that leads out of the folder, which is not followed; "
                "put the file itself there"
            )
    return content_of(path, most)


def _remove(path: pathlib.Path, names: Collection[str]) -> None:
    for name in names:
        with contextlib.suppress(OSError):
            os.unlink(path / name)


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=8).hexdigest()


def _packed(results: Results) -> bytes:
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
