"""A journal's answers, looked up by alteration, level and images."""

import contextlib
import functools
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxrob._classifier import Classifier
from jaxrob._devices.blocks import joined, taken
from jaxrob._devices.mesh import ImageMesh
from jaxrob._engine.answers import Kind
from jaxrob._engine.journal import (
    Journal,
    JournalOfFirstProcess,
    array_entry,
    entry,
    malformed,
    opened,
    read_records,
)
from jaxrob._engine.provenance import alteration_fingerprint
from jaxrob.alterations import Alteration

# A record's name for the random order of the images.
_RANDOM = "random"
# As many images in a block as a trial may choose on a thousand devices.
_MOST_ROWS = 2**24


class CachedAnswers:
    """Looks up a journal's answers and adds new ones.

    All alterations and strategies share one journal: an answer depends on the
    classifier, the data and the key, which the header holds, and on the alteration, the
    level and the image.
    """

    def __init__(
        self,
        journal: Journal | JournalOfFirstProcess,
        read_answers: Callable[[dict[str, Any], int], Any],
    ) -> None:
        """Indexes the journal's answers."""
        self._journal = journal
        # Each piece's first position and its answers, sorted by position. The keys are
        # alteration, level, and whether the order is random.
        self._pieces: dict[tuple[str, float, bool], list[tuple[int, Any]]] = {}
        # The records read but not yet checked, by alteration.
        self._unchecked: dict[str, list[tuple[int, _Record]]] = {}
        read = functools.partial(_read, read_answers=read_answers)
        # The most images of a block, if a trial chose it.
        self.rows: int | None = None
        for number, record in read_records(journal.path, journal.records, read):
            if isinstance(record, int):
                self.rows = record
                continue
            self._unchecked.setdefault(record.alteration, []).append((number, record))
            self._add(*record)

    def check(
        self, alteration: Alteration, num_classes: int | None, num_images: int | None
    ) -> None:
        """Rejects answers that no run can have given."""
        for number, record in self._unchecked.pop(alteration.description, ()):
            _, levels, start, answers, _ = record
            low, high = levels.min(), levels.max()
            stop = start + answers[0].shape[1]
            if low < alteration.lower or high > alteration.upper:
                what = f"levels from {low:g} to {high:g}, outside the range of "
                what += f"{alteration.name}"
            elif num_classes and (largest := answers.predicted.max()) >= num_classes:
                what = f"the class {largest} of a classifier of {num_classes}"
            elif num_classes and (largest := answers.rank.max()) >= num_classes:
                what = f"the rank {largest} among {num_classes} classes"
            elif num_images is not None and stop > num_images:
                what = f"answers on {stop} images, where there are {num_images}"
            else:
                continue
            raise malformed(self._journal.path, number, what)

    def find(
        self,
        alteration: Alteration,
        level: float,
        start: int,
        stop: int,
        in_random_order: bool = False,
    ) -> Any:
        """Returns the answers at a level on the images `start` to `stop`."""
        parts, position = [], start
        name = alteration.description, float(level), in_random_order
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
        alteration: Alteration,
        levels: np.ndarray,
        start: int,
        answers: Any,
        in_random_order: bool = False,
    ) -> None:
        """Journals answers `[l, n]` at `[l]` levels on the images from `start` on."""
        # See `find` for the arguments.
        name = alteration.description
        parts = answers._asdict()
        levels = np.asarray(levels, np.float64)
        order = {"order": _RANDOM} if in_random_order else {}
        self._journal.append(
            {"alteration": name, **order, "levels": levels, "start": start, **parts}
        )
        self._add(name, levels, start, answers, in_random_order)

    def add_rows(self, rows: int) -> None:
        """Journals the most images of a block, so that a resumed run keeps to it."""
        self._journal.append({"rows": rows})
        self.rows = rows

    def _add(
        self,
        name: str,
        levels: np.ndarray,
        start: int,
        answers: Any,
        in_random_order: bool,
    ) -> None:
        for position, level in enumerate(levels.tolist()):
            row = taken(answers, position)
            pieces = self._pieces.setdefault((name, level, in_random_order), [])
            pieces.append((start, row))
            pieces.sort(key=lambda piece: piece[0])


@contextlib.contextmanager
def cached_answers_in(
    path: str | os.PathLike | None,
    classifier: Classifier,
    alterations: Sequence[Alteration],
    source: Callable[[], dict[str, Any]],
    mesh: ImageMesh,
    kind: Kind,
) -> Iterator[CachedAnswers | None]:
    """Opens a journal and yields its cached answers; None without a path."""
    for alteration in () if path is None else alterations:
        if alteration_fingerprint(alteration) is None:
            raise ValueError(
                "journal must tell alterations from others, and a function on the host "
                f"cannot be looked into; {alteration.name} calls one"
            )
    with opened(path, "answers", classifier, source, mesh) as journal:
        yield None if journal is None else CachedAnswers(journal, kind.read)


class _Record(NamedTuple):
    """Answers `[l, n]` at `[l]` levels on the images from `start` on."""

    alteration: str
    levels: np.ndarray
    start: int
    answers: Any
    in_random_order: bool


def _read(
    record: dict[str, Any], read_answers: Callable[[dict[str, Any], int], Any]
) -> _Record | int:
    """Reads answers, or the most images of a block."""
    if "rows" in record:
        rows = entry(record, "rows", int)
        if not 1 <= rows <= _MOST_ROWS:
            raise ValueError(f"'rows' must lie in [1, {_MOST_ROWS}]; got {rows}")
        return rows
    name, start = entry(record, "alteration", str), entry(record, "start", int)
    # Records without an order are in the data set's order.
    in_random_order = "order" in record
    if in_random_order and record["order"] != _RANDOM:
        raise ValueError(f"'order' must be {_RANDOM!r}; got {record['order']!r}")
    if start < 0:
        raise ValueError(f"'start' is negative: {start}")
    levels = array_entry(record, "levels", "f", (None,))
    if not len(levels) or not np.isfinite(levels).all():
        raise ValueError("'levels' must be finite, at least one")
    answers = read_answers(record, len(levels))
    return _Record(name, levels, start, answers, in_random_order)
