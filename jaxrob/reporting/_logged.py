"""Results as what trackers of experiments log: numbers with names, and files."""

import json
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from jaxrob._arguments.checks import checked_integer, checked_sequence
from jaxrob._assessment.assessment import Assessment
from jaxrob._files.reading import short
from jaxrob.reporting._columns import OF_CORRUPTIONS, Row, rows_of, to_csv
from jaxrob.reporting._escaped import log_name
from jaxrob.reporting._results import Results

# Columns of results that are logged under their own names.
_OF_RESULT = (
    *("robustness", "error_bound", "interval_low", "interval_high"),
    *("dataset_low", "dataset_high", "decided_ratio"),
    *("levels", "images", "evaluations", "warnings"),
)
_OF_LEVEL = ("level", "value", "value_low", "value_high", "decided_ratio")
_OF_ROMA = ("mean_plr", "mean_plr_low", "mean_plr_high", "mean_low", "answered")


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

    A result has names such as "gaussian_blur/robustness", with the step that you give,
    an epoch for instance. Its levels have "gaussian_blur/at_levels/level", and ending
    with "/value", "/value_low", "/value_high" and "/decided_ratio". A step must be an
    integer and a level is none, so **their step is the level's place** among those of
    this result, from 0, ascending: plot "value" over "level", which is in the
    alteration's unit. RoMA has "roma/inputs/mean_plr" and so on. Values are those of
    the columns in `to_frame`; what is not known, NaN there, is left out, because not
    all trackers take it.

    Words of small letters keep their name, with "_" for spaces. Any other name is cut,
    and ends with a digest: so it has the same name in every run, characters that
    MLflow, Weights & Biases and TensorBoard take, and no other name becomes the same.

    Args:
      results: the results of one network.
      step: the step of the results' own numbers, at least 0.

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
        wanted = "jaxrob.Assessment"
        ones = checked_sequence("results", results, Assessment, wanted)
        results = Results(None, None, ones)
    names = [one.alteration for one in results.assessments]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(
                f"results must hold one of each alteration; got {names.count(name)} of "
                f"{short(name)}: log them in runs of their own"
            )
    return Logged(tuple(_metrics(results, step)), tuple(_files(results)))


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
