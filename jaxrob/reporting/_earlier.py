"""Reads earlier assessments, to which new ones are compared."""

import os
import pathlib
from collections.abc import Sequence

from jaxrob._arguments.checks import checked_names, checked_path, checked_sequence
from jaxrob._assessment.assessment import Assessment
from jaxrob.reporting._folder import read_results


def earlier_assessments(
    paths: Sequence[str | os.PathLike[str]], alterations: Sequence[str]
) -> list[Assessment]:
    """Reads the earlier assessments that new ones must not fall below.

    Args:
      paths: results folders with an assessment of each alteration, or JSON files of
        single assessments.
      alterations: the names of the alterations assessed now.

    Returns:
      All that are there: `regressions` names those that are not assessed any more.

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
            found += _in_folder(path, alterations)
            continue
        old = _in_file(path)
        if old.alteration not in alterations:
            raise ValueError(
                f"{path}: it is of {old.alteration}, which is not assessed here; "
                f"{', '.join(alterations)} are"
            )
        found.append(old)
    return found


def _in_folder(path: pathlib.Path, alterations: Sequence[str]) -> list[Assessment]:
    found = [*read_results(path).assessments]
    for name in alterations:
        if name not in [one.alteration for one in found]:
            raise ValueError(f"{path}: it has no assessment of {name}")
    return found


def _in_file(path: pathlib.Path) -> Assessment:
    try:
        return Assessment.from_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ValueError(f"{path}: {error.strerror}") from error
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path}: {error}") from error
