"""Reports, written to the files that `--report` names."""

import importlib.util
import pathlib
from collections.abc import Sequence

from jaxrob import reporting
from jaxrob._arguments.texts import install
from jaxrob._command.refused import Refused, check_file
from jaxrob._files.writing import write_file
from jaxrob.reporting import Results

_FORMS = {".html": "to_html", ".htm": "to_html", ".md": "to_markdown"}


def check(paths: Sequence[str]) -> None:
    """Rejects files that are not reports, before anything is computed."""
    for path in paths:
        if pathlib.Path(path).suffix.lower() not in _FORMS:
            raise Refused(f"--report={path}: it must end with .html or .md")
        if pathlib.Path(path).is_dir():
            raise Refused(f"--report={path}: there is a folder of that name")
        check_file("report", path)
    if paths and importlib.util.find_spec("PIL") is None:
        raise Refused(
            f"--report needs Pillow, which is not installed: {install('command')}"
        )


def write(
    paths: Sequence[str], results: Sequence[Results], earlier: Sequence[Results] = ()
) -> None:
    """Writes the report of results to each of the files."""
    for path in map(pathlib.Path, paths):
        make = getattr(reporting, _FORMS[path.suffix.lower()])
        text = make(results, earlier)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, text.encode())
        print(f"wrote {path}")
