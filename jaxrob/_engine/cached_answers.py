"""A journal's answers, looked up by alteration, level and images."""

import contextlib
import functools
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxrob._classifier import Classifier
from jaxrob._devices.mesh import ImageMesh
from jaxrob._engine.answers import INVALID, Answers, HostAnswers
from jaxrob._engine.journal import Journal, JournalOfFirstProcess, opened
from jaxrob._engine.provenance import alteration_fingerprint
from jaxrob._engine.records import array_entry, entry, malformed, read_records
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
        self, journal: Journal | JournalOfFirstProcess, has_probabilities: bool
    ) -> None:
        """Indexes the journal's answers.

        Args:
          journal: the journal.
          has_probabilities: whether an answer has a confidence.

        Raises:
          ValueError: if a record holds anything but answers; the message names it.
        """
        self._journal = journal
        # Each piece's first position and its answers, sorted by position. The keys are
        # alteration, level, and whether the order is random.
        self._pieces: dict[tuple[str, float, bool], list[tuple[int, HostAnswers]]] = {}
        # The records read but not yet checked, by alteration.
        self._unchecked: dict[str, list[tuple[int, _Record]]] = {}
        read = functools.partial(_read, has_probabilities=has_probabilities)
        # The most images of a block, if a trial chose it.
        self.rows: int | None = None
        for number, record in read_records(journal.path, journal.records, read):
            if isinstance(record, int):
                self.rows = record
                continue
            self._unchecked.setdefault(record.alteration, []).append((number, record))
            self._add(*record)

    def check(
        self, alteration: Alteration, num_classes: int, num_images: int | None
    ) -> None:
        """Rejects answers that no run can have given.

        Args:
          alteration: the alteration; its answers are checked once.
          num_classes: the classifier's number of classes.
          num_images: the number of images, None if unknown.

        Raises:
          ValueError: if a level lies outside the alteration's range, an answer or rank
            is of no class, or there are answers on more images; the message names the
            record.
        """
        for number, record in self._unchecked.pop(alteration.description, ()):
            _, levels, start, answers, _ = record
            low, high = levels.min(), levels.max()
            stop = start + answers.predicted.shape[1]
            if low < alteration.lower or high > alteration.upper:
                what = f"levels from {low:g} to {high:g}, outside the range of "
                what += f"{alteration.name}"
            elif (largest := answers.predicted.max()) >= num_classes:
                what = f"the class {largest} of a classifier of {num_classes}"
            elif (largest := answers.rank.max()) >= num_classes:
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
    ) -> HostAnswers | None:
        """Returns the answers at a level on the images `start` to `stop`.

        Args:
          alteration: the alteration.
          level: the level, canonical.
          start: the position of the first image.
          stop: the position after the last image.
          in_random_order: whether these are positions in the key's random order, not in
            the data set.

        Returns:
          Answers `[stop - start]`, or None unless the journal holds all of them.
        """
        parts, position = [], start
        name = alteration.description, float(level), in_random_order
        pieces = self._pieces.get(name, ())
        for first, answers in pieces:
            last = first + len(answers.predicted)
            if first <= position < last:
                wanted = slice(position - first, min(last, stop) - first)
                parts.append(Answers(*(part[wanted] for part in answers)))
                position = min(last, stop)
            if position == stop:
                return Answers(*map(np.concatenate, zip(*parts)))
        return None

    def add(
        self,
        alteration: Alteration,
        levels: np.ndarray,
        start: int,
        answers: HostAnswers,
        in_random_order: bool = False,
    ) -> None:
        """Journals answers `[l, n]` at `[l]` levels on the images from `start` on.

        See `find` for the arguments.
        """
        name = alteration.description
        parts = dict(zip(Answers._fields, answers))
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
        answers: HostAnswers,
        in_random_order: bool,
    ) -> None:
        for position, level in enumerate(levels.tolist()):
            row = Answers(*(part[position] for part in answers))
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
) -> Iterator[CachedAnswers | None]:
    """Opens a journal and yields its cached answers; None without a path.

    Args:
      path: the journal's path, or None.
      classifier: the classifier, fingerprinted.
      alterations: the alterations to be evaluated, fingerprinted.
      source: returns `provenance` of the classifier, the data and the key.
      mesh: the devices; only the first process opens the file.

    Raises:
      ValueError: as `Journal`, or if the classifier or an alteration is not
        identifiable.
      OSError: as `Journal`.
    """
    for alteration in () if path is None else alterations:
        if alteration_fingerprint(alteration) is None:
            raise ValueError(
                "journal must tell alterations from others, and a function on the host "
                f"cannot be looked into; {alteration.name} calls one"
            )
    with opened(path, "answers", classifier, source, mesh) as journal:
        has_probabilities = classifier.outputs != "scores"
        yield None if journal is None else CachedAnswers(journal, has_probabilities)


class _Record(NamedTuple):
    """Answers `[l, n]` at `[l]` levels on the images from `start` on."""

    alteration: str
    levels: np.ndarray
    start: int
    answers: HostAnswers
    in_random_order: bool


def _read(record: dict[str, Any], has_probabilities: bool) -> _Record | int:
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
    predicted = array_entry(record, "predicted", "i", (len(levels), None))
    if not predicted.size or predicted.min() < 0:
        raise ValueError("'predicted' must hold classes, from 0, at least one")
    answers = {"predicted": predicted}
    for field in ("confidence", "uncertainty"):
        answers[field] = found = array_entry(record, field, "f", predicted.shape)
        # Rounding may carry a probability beyond 1. NaN fails both comparisons.
        fits = (found >= 0) & (found <= 1 + 1e-5)
        if not (fits if has_probabilities else np.isnan(found)).all():
            wanted = "in [0, 1]" if has_probabilities else "NaN, of scores"
            raise ValueError(f"{field!r} must be {wanted}")
    answers["rank"] = rank = array_entry(record, "rank", "i", predicted.shape)
    # The classes' number is not known here.
    if not (rank >= 0 if has_probabilities else rank == INVALID).all():
        wanted = "at least 0" if has_probabilities else f"{INVALID}, of scores"
        raise ValueError(f"'rank' must be {wanted}")
    return _Record(name, levels, start, Answers(**answers), in_random_order)
