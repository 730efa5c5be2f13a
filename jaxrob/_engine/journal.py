"""A file that records every result at once, so that a killed run can resume.

Each line is a CRC-32 and a JSON object. The first object, the header, identifies the
run; a run with another header rejects the file. Each line is synced to the disk before
the run goes on, so that only the last line can be torn.

One run writes at a time: the file is locked, and the system drops the lock of a run
that was killed, on another host too. Where a file system has no locks, or each host has
its own, a run notices lines that are not its own, and stops.
"""

import base64
import contextlib
import errno
import json
import math
import os
import pathlib
import re
import weakref
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np

from jaxrob._arguments.texts import warn
from jaxrob._classifiers.classifier import Classifier
from jaxrob._devices.blocks import joined, taken
from jaxrob._devices.mesh import ImageMesh, from_first, is_first
from jaxrob._domain import AnyAlteration, Level, levels_of
from jaxrob._engine.provenance import alteration_fingerprint
from jaxrob._files import check_regular, lock, sync
from jaxrob._identity.identity import name_of

T = TypeVar("T")

# NumPy's names of booleans, numbers and strings; never objects.
_DTYPE = re.compile(r"\|[bui]1|<[uif][248]|<U[0-9]{1,6}")


def malformed(path: pathlib.Path, number: int, what: str) -> ValueError:
    name = f"record {number}" if number else "the header"
    return ValueError(f"{path}: {name} is wrong: {what}; move it away to start anew")


def read_records(
    path: pathlib.Path,
    records: list[dict[str, Any]],
    read: Callable[[dict[str, Any]], T],
) -> Iterator[tuple[int, T]]:
    """Yields each record's number, from 1, and the result of `read` on it."""
    for number, record in enumerate(records, 1):
        try:
            found = read(record)
        except ValueError as error:
            raise malformed(path, number, str(error)) from error
        yield number, found


def entry(record: dict[str, Any], name: str, kind: type[T]) -> T:
    if name not in record:
        raise ValueError(f"{name!r} is missing")
    value = record[name]
    if type(value) is not kind:
        raise ValueError(
            f"{name!r} must be of type {kind.__name__}; got {type(value).__name__}"
        )
    return value


def array_entry(
    record: dict[str, Any], name: str, kinds: str, shape: tuple[int | None, ...] | None
) -> np.ndarray:
    try:
        array = decoded(entry(record, name, dict))
    except ValueError as error:
        raise ValueError(f"{name!r}: {error}") from error
    fits = (
        shape is None
        or len(array.shape) == len(shape)
        and all(wanted in (None, length) for length, wanted in zip(array.shape, shape))
    )
    if array.dtype.kind not in kinds or not fits:
        raise ValueError(
            f"{name!r} is an array of {array.dtype} of the shape {array.shape}; "
            f"expected the shape {shape} and a type of the kind {kinds!r}"
        )
    return array


def decoded(value: dict[str, Any]) -> np.ndarray:
    dtype, text = entry(value, "dtype", str), entry(value, "data", str)
    shape = entry(value, "shape", list)
    if not _DTYPE.fullmatch(dtype):
        raise ValueError(f"dtype {dtype!r} is none of booleans, numbers or strings")
    if any(type(axis) is not int or axis < 0 for axis in shape):
        raise ValueError(f"shape must hold whole numbers from 0; got {shape}")
    data = base64.b64decode(text, validate=True)
    size = math.prod(shape) * np.dtype(dtype).itemsize
    if len(data) != size:
        raise ValueError(f"{len(data)} bytes where the shape {shape} needs {size}")
    return np.frombuffer(data, dtype).reshape(shape)


# 2: answers have the rank of the right class.
_FORMAT = "jaxrob journal 2"


class Journal:
    """Reads the `records` of earlier runs from a file, and appends new ones."""

    def __init__(
        self,
        path: str | os.PathLike,
        header: dict[str, Any] | None,
        records: Sequence[dict[str, Any]] = (),
    ) -> None:
        """Opens a journal, or starts one if there is none."""
        # Without a header, as another process than the first, it writes nothing. A torn
        # last line is dropped. If it is the header, nothing is left: a warning says so.
        self.path, self.records = pathlib.Path(path), [*records]
        self._file: Any = None
        if header is None:
            return
        with contextlib.suppress(FileNotFoundError):
            check_regular(self.path)  # A named pipe would wait.
        # In append mode, another process's lines stay whole.
        self._file = open(self.path, "ab", buffering=0)
        try:
            self.records = self._begin(header)
        except BaseException:
            self.close()
            raise
        _open.add(self)

    def _begin(self, header: dict[str, Any]) -> list[dict[str, Any]]:
        if lock(self._file.fileno()) is False:
            raise _busy(self.path)
        header = json.loads(json.dumps({"format": _FORMAT} | header))
        known, length, self._length = _read_file(self.path)
        if known:
            _check_header(self.path, known[0], header)
        self._check_own()
        if self._length != length:
            os.truncate(self.path, length)
            self._length = length
        if not known:
            self.append(header)
            sync(self.path.parent)
        return known[1:]

    def append(self, record: dict[str, Any]) -> None:
        """Writes a record, which may hold arrays, and waits until it is on the disk."""
        if self._file is None:
            return
        text = json.dumps(record, default=_encoded).encode()
        line = memoryview(b"%08x %s\n" % (zlib.crc32(text), text))
        written = 0
        self._check_own()
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

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def __enter__(self) -> "Journal":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _check_own(self) -> None:
        if os.fstat(self._file.fileno()).st_size != self._length:
            raise _busy(self.path)


# Those of this process. Without a file, a process that is forked from it, such as a
# loader's worker that outlives it, does not keep the lock.
_open: weakref.WeakSet[Journal] = weakref.WeakSet()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: [one.close() for one in _open])


@contextlib.contextmanager
def opened(
    path: str | os.PathLike | None,
    kind: str,
    classifier: Classifier,
    source: Callable[[], dict[str, Any]],
    mesh: ImageMesh,
    settings: dict[str, Any] | None = None,
) -> Iterator[Journal | None]:
    """Opens the journal of a classifier's results; yields None without a path."""
    if path is None:
        yield None
        return
    header = {"kind": kind, "function": name_of(classifier.apply_fn), **source()}
    if header["classifier"] is None:
        raise ValueError(
            "journal must tell the classifier from others, and a function on the host "
            "cannot be looked into: give Classifier.from_host a name and a version, "
            'such as name="detector", version="2024-05", and another version whenever '
            "its answers may change"
        )
    # Results do not depend on the number of devices.
    header["devices"] = {**header["devices"], "count": None}
    header["settings"] = settings
    journal = (
        _opened_by_first(path, header, mesh)
        if mesh.is_multi_process
        else Journal(path, header)
    )
    with contextlib.closing(journal):
        yield journal


def _opened_by_first(
    path: str | os.PathLike, header: dict[str, Any], mesh: ImageMesh
) -> Journal:
    """Opens the journal in the first process and shares its records, or its error."""
    journal, records, failure = None, [], None
    if is_first():
        try:
            journal = Journal(path, header)
            records = journal.records
        except (OSError, ValueError) as error:
            failure = error
    shared = [failure and str(failure), isinstance(failure, OSError), records]
    message, is_os_error, records = from_first(shared, mesh)
    if failure is not None:
        raise failure
    if message is not None:
        raise OSError(message) if is_os_error else ValueError(message)
    return journal or Journal(path, None, records)


def _encoded(value: Any) -> dict[str, Any]:
    array = np.ascontiguousarray(value)
    if array.dtype.kind not in "biufU":
        raise TypeError(f"a journal holds numbers and strings; got {array.dtype}")
    # Little-endian on every machine.
    array = array.astype(array.dtype.newbyteorder("<"), copy=False)
    return {
        "dtype": array.dtype.str,
        "shape": array.shape,
        "data": base64.b64encode(array.tobytes()).decode(),
    }


def _busy(path: pathlib.Path) -> OSError:
    return OSError(
        errno.EBUSY,
        "another run writes this journal; wait until it ends, or give another path",
        str(path),
    )


def _read_file(path: pathlib.Path) -> tuple[list[dict[str, Any]], int, int]:
    """Returns a file's records, the bytes up to the last whole one, and all bytes."""
    content = path.read_bytes()
    records, start = [], 0
    while start < len(content):
        end = content.find(b"\n", start)
        text = None if end < 0 else _checked_line(content[start:end])
        if text is None:
            if 0 <= end < len(content) - 1:
                raise ValueError(
                    f"{path} is no journal, or is damaged at byte {start}: a checksum "
                    "does not fit; move it away to start anew"
                )
            break
        records.append(_parsed(path, len(records), text))
        if "format" in records[-1] and len(records) > 1:
            raise malformed(path, len(records) - 1, "another journal begins there")
        start = end + 1
    if not records and content and not _may_be_torn_header(content):
        raise ValueError(f"{path} is no journal; it was not touched")
    if not records and content:
        warn(
            f"the journal {path} was damaged: its {len(content)} bytes end within the "
            "first line. Nothing in it could be used, and all is computed anew; if "
            "there were results in it, look for a copy"
        )
    return records, start, len(content)


def _checked_line(line: bytes) -> bytes | None:
    checksum, _, text = line.partition(b" ")
    try:
        fits = int(checksum, 16) == zlib.crc32(text) and len(checksum) == 8
    except ValueError:
        return None
    return text if fits else None


def _parsed(path: pathlib.Path, number: int, text: bytes) -> dict[str, Any]:
    try:
        record = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise malformed(path, number, f"no JSON: {error}") from error
    if not isinstance(record, dict):
        raise malformed(path, number, f"a {type(record).__name__}, not an object")
    return record


def _may_be_torn_header(content: bytes) -> bool:
    """Whether content without a whole line may be the beginning of a journal."""
    beginning = b'{"format": "jaxrob journal'
    checksum, text = content[:8], content[9:]
    is_hexadecimal = all(byte in b"0123456789abcdef" for byte in checksum)
    return is_hexadecimal and text[: len(beginning)] == beginning[: len(text)]


def _check_header(
    path: pathlib.Path, known: dict[str, Any], header: dict[str, Any]
) -> None:
    if (other := known.get("format")) != _FORMAT:
        raise ValueError(
            f"{path} is a journal of the format {other!r}, from another version of "
            f"jaxrob; this one continues {_FORMAT!r}, whose answers have the rank of "
            "the right class. Give another path, or go on with that version"
        )
    differing = _differences(known, header)
    if differing:
        raise ValueError(
            f"{path} is the journal of another run: {'; '.join(differing)}. Give "
            "another path, or the same arguments"
        )


def _differences(known: Any, wanted: Any, name: str = "") -> list[str]:
    if isinstance(known, dict) and isinstance(wanted, dict):
        found = []
        for key in {**known, **wanted}:
            part = f"{name}.{key}" if name else key
            found += _differences(known.get(key), wanted.get(key), part)
        return found
    return [] if known == wanted else [f"{name} was {known!r}, is {wanted!r}"]


# A record's name for the random order of the images.
_RANDOM = "random"


class CachedAnswers:
    """Answers by alteration, level and image; the header holds all else they need."""

    def __init__(
        self, journal: Journal, read_answers: Callable[[dict[str, Any], int], Any]
    ) -> None:
        """Indexes the journal's answers."""
        self._journal = journal
        self._read_answers = read_answers
        # Each piece's first position and its answers, sorted by position. The keys are
        # alteration, level, and whether the order is random.
        self._pieces: dict[tuple[str, Level, bool], list[tuple[int, Any]]] = {}
        # The most images of a block, if a trial chose it.
        self.rows: int | None = None
        for _ in read_records(journal.path, journal.records, self._read):
            pass

    def find(
        self,
        alteration: AnyAlteration,
        level: Level,
        start: int,
        stop: int,
        in_random_order: bool = False,
    ) -> Any:
        """Returns the answers at a level on the images `start` to `stop`."""
        parts, position = [], start
        name = alteration.description, level, in_random_order
        pieces = self._pieces.get(name, ())
        for first, answers in pieces:
            last = first + len(answers[0])
            if first <= position < last:
                wanted = slice(position - first, min(last, stop) - first)
                parts.append(taken(answers, wanted))
                position = min(last, stop)
            if position == stop:
                return joined(parts)
        return None

    def add(
        self,
        alteration: AnyAlteration,
        levels: np.ndarray,
        start: int,
        answers: Any,
        in_random_order: bool = False,
    ) -> None:
        """Journals answers `[l, n]` at levels on the images from `start` on."""
        # See `find` for the arguments.
        name, levels = alteration.description, np.asarray(levels, np.float64)
        order = {"order": _RANDOM} if in_random_order else {}
        where = {"alteration": name, **order, "levels": levels, "start": start}
        self._journal.append(where | answers._asdict())
        self._add(name, levels, start, answers, in_random_order)

    def add_rows(self, rows: int) -> None:
        """Journals the most images of a block, so that a resumed run keeps to it."""
        self._journal.append({"rows": rows})
        self.rows = rows

    def _read(self, record: dict[str, Any]) -> None:
        if "rows" in record:
            self.rows = entry(record, "rows", int)
            if self.rows < 1:
                raise ValueError(f"'rows' must be at least 1; got {self.rows}")
            return
        name, start = entry(record, "alteration", str), entry(record, "start", int)
        # Records without an order are in the data set's order.
        in_random_order = "order" in record
        if in_random_order and record["order"] != _RANDOM:
            raise ValueError(f"'order' must be {_RANDOM!r}; got {record['order']!r}")
        if start < 0:
            raise ValueError(f"'start' is negative: {start}")
        levels = array_entry(record, "levels", "f", None)
        if (
            levels.ndim not in (1, 2)
            or not levels.size
            or not np.isfinite(levels).all()
        ):
            raise ValueError("'levels' must be finite, at least one")
        answers = self._read_answers(record, len(levels))
        self._add(name, levels, start, answers, in_random_order)

    def _add(
        self,
        name: str,
        levels: np.ndarray,
        start: int,
        answers: Any,
        in_random_order: bool,
    ) -> None:
        for position, level in enumerate(levels_of(levels)):
            row = taken(answers, position)
            pieces = self._pieces.setdefault((name, level, in_random_order), [])
            pieces.append((start, row))
            pieces.sort(key=lambda piece: piece[0])


@contextlib.contextmanager
def cached_answers_in(
    path: str | os.PathLike | None,
    classifier: Classifier,
    alterations: Sequence[AnyAlteration],
    source: Callable[[], dict[str, Any]],
    mesh: ImageMesh,
    read_answers: Callable[[dict[str, Any], int], Any],
    settings: dict[str, Any] | None,
) -> Iterator[CachedAnswers | None]:
    """Opens a journal and yields its cached answers; None without a path."""
    for alteration in () if path is None else alterations:
        if alteration_fingerprint(alteration) is None:
            raise ValueError(
                "journal must tell alterations from others, and a function on the host "
                f"cannot be looked into; {alteration.name} calls one"
            )
    with opened(path, "answers", classifier, source, mesh, settings) as journal:
        yield None if journal is None else CachedAnswers(journal, read_answers)
