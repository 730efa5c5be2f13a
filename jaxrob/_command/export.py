"""`jaxrob export folder...`: writes existing results as CSV and LaTeX."""

import functools
import pathlib
from collections.abc import Sequence

from jaxrob import reporting
from jaxrob._command.compare import read
from jaxrob._command.define import Values
from jaxrob._command.refused import Refused, check_distinct, check_file
from jaxrob._files.writing import write_file

_FORMS = {
    "csv": reporting.to_csv,
    "levels_csv": functools.partial(reporting.to_csv, rows="levels"),
    "roma_csv": functools.partial(reporting.to_csv, rows="roma"),
    "latex": reporting.to_latex,
}


def run(values: Values, words: Sequence[str]) -> str:
    """Writes the results of one or more folders to the files that the flags name."""
    given = {name: getattr(values, name) for name in _FORMS}
    wanted: dict[str, str] = {name: path for name, path in given.items() if path}
    if not wanted:
        raise Refused(
            f"expected one of {', '.join(f'--{name}=...' for name in _FORMS)}"
        )
    check_distinct(list(wanted.items()))
    for name, path in wanted.items():
        check_file(name, path)
    results = [read(word) for word in words]
    # Everything is made before anything is written.
    texts = {wanted[name]: _FORMS[name](results) for name in wanted}
    for path, text in texts.items():
        pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
        write_file(path, text.encode())
        print(f"wrote {path}")
    return ""
