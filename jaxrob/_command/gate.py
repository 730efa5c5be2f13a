"""Requirements of the command line, and the files that say whether they are met."""

import contextlib
import os
import pathlib
from collections.abc import Sequence

from jaxrob import reporting
from jaxrob._command.define import Values
from jaxrob._command.refused import Refused, check_distinct, check_file, did_you_mean
from jaxrob._devices.hosts import is_first
from jaxrob._files.writing import not_written, write_file
from jaxrob.metrics import ALEXNET
from jaxrob.reporting import Requirement, Results


def required(texts: Sequence[str], quantities: Sequence[str]) -> list[Requirement]:
    """Parses the requirements of `--require`."""
    try:
        return [reporting.requirement(text, quantities) for text in texts]
    except ValueError as error:
        raise Refused(f"--require: {str(error).removeprefix('text: ')}") from error


def check_names(
    said_by: str,
    requirements: Sequence[Requirement],
    names: Sequence[str],
    has_earlier: bool,
) -> None:
    """Rejects requirements that nothing assessed could meet."""
    for one in requirements:
        if not any(map(one.is_of, names)):
            raise Refused(
                f"{said_by}: {one.alteration!r} is not assessed."
                f"{did_you_mean(one.alteration or '', names)} There are: "
                f"{', '.join(names)}"
            )
        if one.quantity == "difference" and not has_earlier:
            raise Refused(
                f"{said_by}: difference is to an earlier result; name its folder with "
                "--earlier"
            )
        if one.quantity == "mce" and (lacking := sorted(ALEXNET.keys() - set(names))):
            raise Refused(
                f"{said_by}: mce is of all corruptions of imagenet_c; not assessed: "
                f"{', '.join(lacking)}"
            )


def check_files(values: Values) -> None:
    """Rejects files of the outcomes that cannot be written, before the work."""
    named = [("report", path) for path in dict.fromkeys(values.report)]
    named += [(one, values[one].value) for one in ("junit", "summary")]
    check_distinct([(flag, path) for flag, path in named if path is not None])
    for flag in ("junit", "summary"):
        path = values[flag].value
        if path is None:
            continue
        if pathlib.Path(path).is_dir():
            raise Refused(f"--{flag}={path}: there is a folder of that name")
        check_file(flag, path)


def write(values: Values, results: Results) -> None:
    """Writes the outcomes to the files that `--junit` and `--summary` name."""
    if not is_first():
        return
    if values.junit is not None:
        path = pathlib.Path(values.junit)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, reporting.to_junit(results).encode())
        print(f"wrote {path}")
    if values.summary is not None:
        path = pathlib.Path(values.summary)
        path.parent.mkdir(parents=True, exist_ok=True)
        where = values.report[0] if values.report else None
        _append(path, reporting.to_summary(results, where).encode())
        print(f"wrote {path}")


def _append(path: pathlib.Path, content: bytes) -> None:
    """Appends to a file, completely or not at all: other steps write there too."""
    with open(path, "ab", buffering=0) as file:
        # A pipe has no end.
        before = file.seek(0, os.SEEK_END) if file.seekable() else 0
        # A heading begins after an empty line.
        left = memoryview(b"\n" * bool(before) + content)
        try:
            while left:
                left = left[file.write(left) :]
        except BaseException as error:
            with contextlib.suppress(OSError):
                file.truncate(before)
            if isinstance(error, OSError):
                raise not_written(path, error) from error
            raise
