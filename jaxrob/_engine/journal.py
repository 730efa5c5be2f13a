"""A file that what was computed goes into at once, so that a killed run resumes.

Each line is a CRC-32 and a JSON object. The first object tells what the results are
of; a run of anything else refuses the file. Each line is written whole and synced to
the disk before the run goes on, so that only the last one can be torn.
"""

import base64
import contextlib
import json
import os
import pathlib
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from jax.sharding import Mesh

from jaxrob._classifier import Classifier
from jaxrob._engine.provenance import classifier_name
from jaxrob._runtime.hosts import from_first, is_first

_FORMAT = "jaxrob journal 1"


class Journal:
    """Results of an interrupted run, and where those of this one go.

    Attributes:
      path: the file.
      records: the records read from it, in the order they were written.
    """

    def __init__(self, path: str | os.PathLike, header: dict[str, Any]):
        """Opens a journal, or starts one where there is none.

        A last line that is torn is dropped.

        Args:
          path: the file; its folder must exist.
          header: what the results are of, as values that JSON can hold.

        Raises:
          ValueError: if the file is no journal, is damaged before its end, or has
            another header; the message says what differs.
          OSError: if it cannot be read or written.
        """
        self.path = pathlib.Path(path)
        header = json.loads(json.dumps({"format": _FORMAT} | header))
        known, length = _read(self.path)
        if known:
            _check_header(self.path, known[0], header)
        self.records = known[1:]
        self._length = length
        # Reading on in append mode: another process's lines stay whole.
        self._file = open(self.path, "ab", buffering=0)
        if self._file.tell() != length:
            os.truncate(self.path, length)
        if not known:
            self._write(header)
            _sync_folder(self.path.parent)

    def append(self, record: dict[str, Any]) -> None:
        """Writes a record, arrays included, and waits until it is on the disk.

        Raises:
          OSError: if it cannot be written, as on a full disk; what was written before
            stays good.
        """
        self._write(record)

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def __enter__(self) -> "Journal":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _write(self, record):
        text = json.dumps(record, default=_encoded).encode()
        line = memoryview(b"%08x %s\n" % (zlib.crc32(text), text))
        written = 0
        try:
            while written < len(line):
                written += self._file.write(line[written:])
            os.fsync(self._file.fileno())
        except OSError as error:
            os.truncate(self.path, self._length)
            raise OSError(
                error.errno,
                f"the journal cannot be written ({error.strerror}); what it holds is "
                "good, and a rerun goes on from there",
                str(self.path),
            ) from error
        self._length += len(line)


@contextlib.contextmanager
def opened(
    path: str | os.PathLike | None,
    kind: str,
    classifier: Classifier,
    source: Callable[[], dict[str, Any]],
    mesh: Mesh,
    settings: dict[str, Any] | None = None,
) -> Iterator[Journal | None]:
    """The journal of what is computed of a classifier; None without a path.

    Args:
      path: the file, or None.
      kind: what it keeps.
      classifier: the classifier.
      source: returns `provenance` of the classifier, the data and the key.
      mesh: the devices; of all processes only the first one opens the file.
      settings: further arguments that the results depend on.

    Raises:
      ValueError: as `Journal`.
      OSError: likewise.
    """
    if path is None:
        yield None
        return
    header = {"kind": kind, "function": classifier_name(classifier), **source()}
    # Any number of devices gives the same results.
    header["devices"] = {**header["devices"], "count": None}
    header |= {"settings": settings}
    if not mesh.is_multi_process:
        with Journal(path, header) as journal:
            yield journal
        return
    # All must go on from the same records, or fail alike.
    journal, failure, records = None, None, None
    if is_first():
        try:
            journal = Journal(path, header)
            records = journal.records
        except (OSError, ValueError) as error:
            failure = error
    told = failure and [isinstance(failure, OSError), str(failure)]
    told, records = from_first([told, records], mesh)
    if told:
        raise failure or (OSError if told[0] else ValueError)(told[1])
    with journal or _Told(records) as journal:
        yield journal


class _Told:
    """What the first process's journal held; what is added is for that one to write."""

    def __init__(self, records):
        self.records = records

    def append(self, record):
        del record

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        pass


def decoded(value: dict[str, Any]) -> np.ndarray:
    """An array as a record holds it."""
    content = np.frombuffer(base64.b64decode(value["data"]), value["dtype"])
    return content.reshape(value["shape"])


def _encoded(value):
    value = np.ascontiguousarray(value)
    if value.dtype.kind not in "biufU":
        raise TypeError(f"a journal holds numbers and strings; got {value.dtype}")
    # Little-endian, whatever machine reads it.
    value = value.astype(value.dtype.newbyteorder("<"), copy=False)
    return {
        "dtype": value.dtype.str,
        "shape": value.shape,
        "data": base64.b64encode(value.tobytes()).decode(),
    }


def _read(path):
    """The records of a file, and the length of what is whole."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return [], 0
    records, start = [], 0
    while start < len(content):
        end = content.find(b"\n", start)
        record = None if end < 0 else _parsed(content[start:end])
        if record is None:
            if 0 <= end < len(content) - 1 or (not records and len(content) > 4096):
                raise ValueError(
                    f"{path} is no journal, or is damaged at byte {start}: a checksum "
                    "does not fit; move it away to start anew"
                )
            break
        records.append(record)
        start = end + 1
    if not records and content and not _may_be_torn_header(content):
        raise ValueError(f"{path} is no journal; it was not touched")
    return records, start


def _parsed(line):
    checksum, _, text = line.partition(b" ")
    try:
        if int(checksum, 16) != zlib.crc32(text) or len(checksum) != 8:
            return None
        return json.loads(text)
    except ValueError:
        return None


def _may_be_torn_header(content):
    """Whether a file without a whole line is the beginning of a journal."""
    beginning = b'{"format": "jaxrob journal'
    checksum, text = content[:8], content[9:]
    is_hexadecimal = all(byte in b"0123456789abcdef" for byte in checksum)
    return is_hexadecimal and text[: len(beginning)] == beginning[: len(text)]


def _check_header(path, known, header):
    differing = _differences(known, header)
    if differing:
        raise ValueError(
            f"{path} is the journal of another run: {'; '.join(differing)}. Give "
            "another path, or the same arguments"
        )


def _differences(known, wanted, name=""):
    if isinstance(known, dict) and isinstance(wanted, dict):
        found = []
        for key in {**known, **wanted}:
            part = f"{name}.{key}" if name else key
            found += _differences(known.get(key), wanted.get(key), part)
        return found
    return [] if known == wanted else [f"{name} was {known!r}, is {wanted!r}"]


def _sync_folder(folder):
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
