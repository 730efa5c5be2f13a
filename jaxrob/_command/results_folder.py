"""The results folder that a command writes to: whose it is, and for one at a time."""

import contextlib
import os
import pathlib
from collections.abc import Iterator

import jaxrob
from jaxrob import reporting
from jaxrob._command.define import Values
from jaxrob._command.refused import Refused
from jaxrob._command.subject import Subject
from jaxrob._command.writable import check_folders
from jaxrob._devices.hosts import is_first
from jaxrob._files.swap import is_there
from jaxrob.reporting import Results

try:
    import fcntl
except ImportError:  # Windows has none.
    fcntl = None


def checked_folder(values: Values) -> pathlib.Path:
    """The folder that `--output` names.

    Raises:
      Refused: if it is a file, or cannot be written to.
    """
    output = pathlib.Path(values.output)
    if output.exists() and not output.is_dir():
        raise Refused(f"--output={output}: there is a file of that name")
    check_folders(values, "output")
    return output


def earlier(output: pathlib.Path, found: Subject) -> Results:
    """What the folder holds of the same network; nothing if it holds nothing.

    Raises:
      Refused: if it holds results of another network, or of one that may be another.
    """
    nothing = Results(found.name, found.class_names, ())
    if not is_there(output, "results.json"):
        return nothing
    there = reporting.read_results(output)
    few = found.dataset[:1]
    own = jaxrob.provenance(found.classifier, few)["classifier"]
    others = {one.provenance["classifier"] for one in there.assessments}
    if own is not None and others == {own}:
        return there
    # What nothing tells from others is replaced by what goes by the same name, unless
    # there is more than is measured anew.
    alone = there.roma is None and there.attack is None
    if alone and others <= {None} and own is None and there.network == found.name:
        return nothing
    raise Refused(
        f"--output={output}: it holds results of another network, of the same one with "
        "other preprocessing or another image size, or of one that nothing tells from "
        f"others ({there.network or 'without a name'}); choose another folder"
    )


@contextlib.contextmanager
def held(output: pathlib.Path) -> Iterator[None]:
    """The folder, made if need be, for this process alone.

    Raises:
      Refused: if another one is writing there.
    """
    if fcntl is None or not is_first():
        yield
        return
    output.mkdir(parents=True, exist_ok=True)
    folder = os.open(output, os.O_RDONLY)
    try:
        _lock(folder, output)
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                output.rmdir()  # If nothing was written.
    finally:
        os.close(folder)


def _lock(folder: int, output: pathlib.Path) -> None:
    """Locks an open folder. The system lets it go whenever the process ends."""
    assert fcntl is not None
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise Refused(
            f"--output={output}: another run writes there; choose another folder"
        ) from error
    except OSError:  # Some file systems of networks know no locks.
        pass
