"""The flag of the scripts whose assessments resume after a crash."""

import pathlib
import re

from absl import flags

_JOURNAL = flags.DEFINE_string(
    "journal",
    None,
    "Folder that answers are written to at once, in a file for each network; a rerun "
    "with the same flags takes up from there. Times are then those of the last run.",
)


def path(name: str) -> pathlib.Path | None:
    if _JOURNAL.value is None:
        return None
    folder = pathlib.Path(_JOURNAL.value)
    folder.mkdir(parents=True, exist_ok=True)
    return folder / (re.sub(r"[^\w.]+", "-", name) + ".journal")
