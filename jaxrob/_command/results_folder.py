"""The results folder of a command: checked for its network, and locked."""

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
except ImportError:  # Missing on Windows.
    fcntl = None


def checked_folder(values: Values) -> pathlib.Path:
    """Returns the folder that `--output` names.

    Raises:
      Refused: if it is a file, or cannot be written to.
    """
    output = pathlib.Path(values.output)
    if output.exists() and not output.is_dir():
        raise Refused(f"--output={output}: there is a file of that name")
    check_folders(values, "output")
    return output


def earlier(output: pathlib.Path, found: Subject) -> Results:
    """Returns the folder's results of the same network, or empty results.

    Raises:
      Refused: if it holds results of a different, or possibly different, network.
    """
    nothing = Results(found.name, found.class_names, ())
    if not is_there(output, "results.json"):
        return nothing
    there = reporting.read_results(output)
    few = found.dataset[:1]
    source = jaxrob.provenance(found.classifier, few)
    own, network = source["classifier"], source["network"]
    others = {one.provenance["classifier"] for one in there.assessments}
    if own is not None and others == {own}:
        return there
    # Results of an unidentifiable network are replaced by those of one with the same
    # name, unless they include parts that are not measured again.
    alone = there.roma is None and there.attack is None
    if alone and others <= {None} and own is None and there.network == found.name:
        return nothing
    which = there.network or "without a name"
    networks = [one.provenance.get("network") for one in there.assessments]
    if network.get("version") and network in networks:
        raise Refused(
            f"--output={output}: it holds results of {which}, from the same file or "
            "weights, but with other --outputs, another preprocessing or another image "
            "size; choose another folder"
        )
    raise Refused(
        f"--output={output}: it holds results of another network, of the same one with "
        "other --outputs, another preprocessing or image size, or of one that nothing "
        f"tells from others ({which}); choose another folder"
    )


@contextlib.contextmanager
def held(output: pathlib.Path) -> Iterator[None]:
    """Locks the folder for this process, and creates it if necessary.

    Raises:
      Refused: if another process is writing there.
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
    """Locks an open folder. The system releases the lock when the process ends."""
    assert fcntl is not None
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise Refused(
            f"--output={output}: another run writes there; choose another folder"
        ) from error
    except OSError:  # Some network file systems have no locks.
        pass
