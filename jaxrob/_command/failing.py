"""The folder of pictures that fail first, which `--failing` names."""

import importlib.util
import pathlib
from collections.abc import Sequence

import jax

import jaxrob
from jaxrob import reporting
from jaxrob._arguments.counted import counted
from jaxrob._arguments.extra import install
from jaxrob._command.define import Values
from jaxrob._command.refused import Refused
from jaxrob._command.subject import Subject
from jaxrob.reporting import Results
from jaxrob.reporting._columns import log_name
from jaxrob.reporting._exports import check_empty


def check(values: Values) -> None:
    """Rejects a folder that cannot be written, before anything is computed."""
    if values.failing is None:
        return
    if values.half_width is not None or values.budget is not None or values.curtail:
        raise Refused(
            "--failing needs the answer on every picture; leave out --half_width, "
            "--budget and --curtail"
        )
    if importlib.util.find_spec("PIL") is None:
        raise Refused(
            f"--failing needs Pillow, which is not installed: {install('command')}"
        )
    try:
        check_empty(pathlib.Path(values.failing))
    except FileExistsError as error:
        raise Refused(
            f"--failing={values.failing}: it must be empty, or not there yet; choose "
            "another folder"
        ) from error


def write(
    values: Values,
    found: Subject,
    altered: Sequence[jaxrob.Alteration],
    results: Results,
) -> None:
    """Writes a folder for each alteration."""
    for assessment, one in zip(results.assessments, altered):
        folder = pathlib.Path(values.failing, log_name(one.name))
        number = reporting.write_failing(
            folder,
            assessment,
            one,
            found.dataset,
            jax.random.key(values.seed),
            class_names=found.class_names,
        )
        fails = "fails" if number == 1 else "fail"
        print(f"wrote {folder}/: {counted(number, 'picture')} that {fails} first")
