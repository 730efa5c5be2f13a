"""Results for other programs: numbers for trackers, pictures that fail first."""

import contextlib
import json
import os
import pathlib
import urllib.parse
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxrob._arguments.checks import (
    checked_integer,
    checked_names,
    checked_path,
    checked_sequence,
)
from jaxrob._assessment.assessment import Assessment
from jaxrob._dataset import BatchedDataset, Dataset
from jaxrob._files import not_written, short, write_new
from jaxrob.alterations import Alteration
from jaxrob.reporting._columns import (
    OF_CORRUPTIONS,
    Row,
    csv_text,
    escaped,
    log_name,
    plain,
    rows_of,
    to_csv,
)
from jaxrob.reporting._pictures import failing_pictures, png
from jaxrob.reporting._results import Picture, Results


class Metric(NamedTuple):
    """A number to log.

    Attributes:
      name: of a-z, 0-9, "_" and "/", at most 250 characters, distinct.
      value: a finite number.
      step: an integer from 0.
    """

    name: str
    value: float
    step: int


class LoggedFile(NamedTuple):
    """A file to log.

    Attributes:
      name: of a-z, 0-9, "_" and an ending, distinct.
      content: its text.
    """

    name: str
    content: str


class Logged(NamedTuple):
    """What a tracker of experiments logs of one network's results.

    Attributes:
      metrics: numbers with names and steps.
      files: texts with file names.
    """

    metrics: tuple[Metric, ...]
    files: tuple[LoggedFile, ...]


def logged(
    results: Results | Assessment | Sequence[Assessment], step: int = 0
) -> Logged:
    """Returns one network's results as numbers and files that a tracker logs.

    Example::

        found = reporting.logged(results)
        with mlflow.start_run():
            for name, value, step in found.metrics:
                mlflow.log_metric(name, value, step=step)
            for name, content in found.files:
                mlflow.log_text(content, name)

    A result has names such as "gaussian_blur/robustness". Its levels have
    "gaussian_blur/at_levels/level", and ending with "/value", "/value_low",
    "/value_high" and "/decided_ratio"; **their step is the level's place** from 0,
    ascending: plot "value" over "level". RoMA has "roma/inputs/mean_plr" and so on.
    Values are those of the columns in `to_frame`; what is not known is left out.

    Words of small letters keep their name, with "_" for spaces. Any other name is cut,
    and ends with a digest, so that it is the same in every run, and that of no other.

    Args:
      results: the results of one network.
      step: the step of the results' own numbers, at least 0, such as an epoch.

    Returns:
      `Logged`: the metrics; and as files `results.csv`, `levels.csv`, `roma.csv`, and
      for each alteration its assessment as JSON without the single answers.

    Raises:
      TypeError: if an argument has a wrong type.
      ValueError: if there is no result, they are of several networks, or two have the
        same alteration: log these in runs of their own.
    """
    step = checked_integer("step", step, at_least=0)
    if isinstance(results, Assessment):
        results = (results,)
    if not isinstance(results, Results):
        ones = checked_sequence("results", results, Assessment, "jaxrob.Assessment")
        results = Results(None, None, ones)
    names = [one.alteration for one in results.assessments]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(
                f"results must hold one of each alteration; got {names.count(name)} of "
                f"{short(name)}: log them in runs of their own"
            )
    return Logged(tuple(_metrics(results, step)), tuple(_files(results)))


def write_failing(
    folder: str | os.PathLike[str],
    assessment: Assessment,
    alteration: Alteration,
    dataset: Dataset | BatchedDataset,
    key: jax.Array | None = None,
    most: int = 100,
    class_names: Sequence[str] | None = None,
) -> int:
    """Writes the pictures that fail first into a folder, with the answers to them.

    A picture fails at the level nearest to the identity at which its answer is wrong;
    those misclassified unaltered are left out. The folder then holds:

    * `data/`: PNG files, each picture unaltered and at that level, the first failures
      first. Their names hold numbers alone.
    * `failing.csv`: for each picture its files, the name of the file that it was read
      from (of `jaxrob.data.image_folder` and `tar_shards`), its index, class, answers
      with their confidence, the level and its unit. Texts are made harmless for
      spreadsheets, as by `to_csv`.
    * `labels.json`: all of `data/` as a `FiftyOneImageClassificationDataset` of
      FiftyOne, each picture labelled with the network's answer.
    * `tasks.json`: the altered pictures as tasks of Label Studio, the network's answer
      as prediction. Its local storage must be the folder that this folder is in.

    Args:
      folder: the folder; it is created, or is empty.
      assessment: the assessment, with single answers (not reduced, of a score, or from
        few images).
      alteration: its alteration.
      dataset: its images, `[N, H, W, C]` with 1, 3 or 4 channels.
      key: its random key, needed if the alteration is stochastic.
      most: the most pictures.
      class_names: the names of the classes; by default the data set's, or "class 3".

    Returns:
      The number of pictures that were written, 0 if none fails.

    Raises:
      FileExistsError: if the folder holds something.
      ImportError: if Pillow is missing.
      OSError: if a file cannot be written. Those written before are then removed.
      TypeError: if an argument has a wrong type.
      ValueError: if the assessment has no single answers, is of another alteration, key
        or number of images, or an argument is out of range.
    """
    path = checked_path("folder", folder)
    check_empty(path)
    most = checked_integer("most", most, at_least=1)
    pairs = failing_pictures(assessment, alteration, dataset, key, most)
    names = _class_names(assessment, dataset, class_names)
    rows = [_row(assessment, names, *pair) for pair in pairs]
    contents: dict[str, bytes] = {}
    for row, pair in zip(rows, pairs):
        for name, picture in zip((row["unaltered"], row["altered"]), pair):
            assert picture.image is not None
            contents[name] = png(picture.image)
    lines = [[row[name] for name in _COLUMNS] for row in rows]
    contents["failing.csv"] = csv_text(_COLUMNS, lines).encode()
    # With invisible characters spelt out, as in the CSV.
    legible = [
        {
            name: escaped(one) if isinstance(one, str) else one
            for name, one in row.items()
        }
        for row in rows
    ]
    contents["labels.json"] = _in_json(_fiftyone(legible))
    contents["tasks.json"] = _in_json(_label_studio(legible, path.absolute().name))
    _write(path, contents)
    return len(rows)


def check_empty(path: pathlib.Path) -> None:
    """Refuses a folder that holds something, so that nothing is lost or mixed."""
    if not os.path.lexists(path) or (path.is_dir() and not any(path.iterdir())):
        return
    raise FileExistsError(
        17, "folder must be empty, or not there yet; choose another", str(path)
    )


def _row(
    one: Assessment, names: Sequence[str], before: Picture, after: Picture
) -> dict[str, Any]:
    stem = f"{_DATA}/{after.index:07}"
    # Of a level that was not looked at no answer is known.
    answers = [
        None if each.predicted is None else names[each.predicted]
        for each in (before, after)
    ]
    assert after.label is not None
    return {
        "unaltered": f"{stem}_unaltered.png",
        "altered": f"{stem}_altered.png",
        "source": after.file,
        "index": after.index,
        "right": names[after.label],
        "labels": (one.provenance.get("dataset") or {}).get("labels"),
        "answer_unaltered": answers[0],
        "confidence_unaltered": _confidence(one, before),
        "answer": answers[1],
        "confidence": _confidence(one, after),
        "alteration": one.alteration,
        "level": after.level,
        "unit": one.unit,
        "network": (one.provenance.get("network") or {}).get("name"),
    }


def _confidence(one: Assessment, picture: Picture) -> float | None:
    confidence = one._answers("write_failing").confidence
    at = np.flatnonzero(one.levels == picture.level)
    if confidence is None or not len(at):
        return None
    return plain(confidence[at[0], picture.index])


def _class_names(
    one: Assessment, dataset: Dataset | BatchedDataset, given: Sequence[str] | None
) -> tuple[str, ...]:
    number = one.curve.num_classes
    names = dataset.class_names
    if given is not None:
        names = checked_names("class_names", given)
    if names is None:
        names = tuple(f"class {index}" for index in range(number))
    if len(names) != number or len(set(names)) < number:
        raise ValueError(
            f"class_names must be {number} distinct names, one for each class; got "
            f"{len(names)}, of which {len(set(names))} are distinct"
        )
    unknown = "unknown"
    while unknown in names:
        unknown = f"({unknown})"
    return (*names, unknown)


def _fiftyone(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    labels = {}
    for row in rows:
        shared = {name: row[name] for name in _SHARED}
        ends = ("unaltered", "_unaltered", None), ("altered", "", row["level"])
        for file, end, level in ends:
            labels[pathlib.PurePosixPath(row[file]).stem] = {
                "label": row[f"answer{end}"],
                "confidence": row[f"confidence{end}"],
                "attributes": shared | {"level": level},
            }
    return {"classes": None, "labels": labels}


def _label_studio(rows: Sequence[dict[str, Any]], folder: str) -> list[dict[str, Any]]:
    def url(file: str) -> str:
        where = urllib.parse.quote(f"{folder}/{file}", errors="surrogateescape")
        return f"/data/local-files/?d={where}"

    def task(row: dict[str, Any]) -> dict[str, Any]:
        choice = {"from_name": "class", "to_name": "image", "type": "choices"}
        prediction = {
            "model_version": row["network"] or "network",
            "score": row["confidence"],
            "result": [choice | {"value": {"choices": [row["answer"]]}}],
        }
        urls = {"image": url(row["altered"]), "unaltered": url(row["unaltered"])}
        names = (*_SHARED, "answer_unaltered", "level")
        return {
            "data": urls | {name: row[name] for name in names},
            "predictions": [prediction],
        }

    return list(map(task, rows))


def _in_json(value: Any) -> bytes:
    return (json.dumps(value, indent=1, allow_nan=False) + "\n").encode()


def _write(path: pathlib.Path, contents: dict[str, bytes]) -> None:
    """Writes new files into an empty folder, all of them or none."""
    made: list[pathlib.Path] = []
    try:
        (path / _DATA).mkdir(parents=True)
        for name, content in contents.items():
            made.append(path / name)
            write_new(path / name, content)
    except BaseException as error:
        for file in made:
            with contextlib.suppress(OSError):
                file.unlink()
        with contextlib.suppress(OSError):
            (path / _DATA).rmdir()
        if isinstance(error, OSError):
            raise not_written(error.filename or path, error) from error
        raise


_DATA = "data"

# Of `failing.csv`; what is not known is None. The level is the nearest to the identity
# at which the picture fails, the labels "given", or "own answers" of the network.
_COLUMNS = (
    *("unaltered", "altered", "source", "index", "right", "labels"),
    *("answer_unaltered", "confidence_unaltered", "answer", "confidence"),
    *("alteration", "level", "unit", "network"),
)
_SHARED = ("right", "alteration", "unit", "source", "index")


# Columns of results that are logged under their own names.
_OF_RESULT = (
    *("robustness", "error_bound", "interval_low", "interval_high"),
    *("dataset_low", "dataset_high", "decided_ratio"),
    *("levels", "images", "evaluations", "warnings"),
)
_OF_LEVEL = ("level", "value", "value_low", "value_high", "decided_ratio")
_OF_ROMA = ("mean_plr", "mean_plr_low", "mean_plr_high", "mean_low", "answered")


def _metrics(results: Results, step: int) -> Iterator[Metric]:
    if results.assessments:
        for row in rows_of(results.assessments, "results", OF_CORRUPTIONS):
            yield from _of_row(row, _OF_RESULT, log_name(row["alteration"]), step)
    for one in results.assessments:
        for place, row in enumerate(rows_of(one, "levels")):
            prefix = f"{log_name(one.alteration)}/at_levels"
            yield from _of_row(row, _OF_LEVEL, prefix, place)
    if results.roma is not None:
        (row,) = rows_of(results.roma, "roma")
        # With a "/" that no alteration's name has.
        yield from _of_row(row, _OF_ROMA, "roma/inputs", step)


def _of_row(
    row: Row, columns: Sequence[str], prefix: str, step: int
) -> Iterator[Metric]:
    for column in columns:
        value = row[column]
        if value is not None:
            yield Metric(f"{prefix}/{column}", float(value), step)


def _files(results: Results) -> Iterator[LoggedFile]:
    if results.assessments:
        for rows in ("results", "levels"):
            yield LoggedFile(f"{rows}.csv", to_csv(results, rows))
    if results.roma is not None:
        yield LoggedFile("roma.csv", to_csv(results, "roma"))
    for one in results.assessments:
        content = json.dumps(one.to_dict(), allow_nan=False)
        yield LoggedFile(f"{log_name(one.alteration)}.json", content)
