"""The scripts' start, and the flags that all of them have."""

from collections.abc import Sequence

from absl import app, flags, logging

from common import hosts
from jaxrob._command import programs

_COMPILATION_CACHE = flags.DEFINE_string(
    "compilation_cache",
    None,
    "=FOLDER, where compiled programs are kept, so that later runs start faster; "
    "without a name in the user's cache folder, as the quickstart by default.",
)
flags.FLAGS["compilation_cache"].boolean = True


def start(argv: Sequence[str], keep_programs: bool = False) -> None:
    """Rejects arguments that are not flags, and applies the shared flags."""
    if len(argv) > 1:
        raise app.UsageError(f"unknown arguments: {argv[1:]}")
    logging.set_verbosity(logging.WARNING)
    hosts.join()
    if keep_programs or _COMPILATION_CACHE.value is not None:
        programs.keep_programs(_COMPILATION_CACHE.value)
