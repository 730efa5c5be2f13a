"""Assessments as files: a folder with one for each alteration."""

import os
import pathlib
import re
from collections.abc import Sequence

import jaxrob


def file_name(alteration: str) -> str:
    """The name of the file, without its ending, for the alteration of that name."""
    return re.sub(r"\W+", "_", alteration)


def write(
    folder: str | os.PathLike[str], assessments: Sequence[jaxrob.Assessment]
) -> None:
    """Writes each assessment into a folder that exists."""
    for one in assessments:
        path = pathlib.Path(folder, f"{file_name(one.alteration)}.json")
        path.write_text(one.to_json())


def read(path: str | os.PathLike[str]) -> jaxrob.Assessment:
    """Reads an assessment; what is wrong with a file is said with its path.

    Raises:
      ValueError: if the file is missing, or holds no assessment.
    """
    try:
        return jaxrob.Assessment.from_json(pathlib.Path(path).read_text())
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from error
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path}: {error}") from error
