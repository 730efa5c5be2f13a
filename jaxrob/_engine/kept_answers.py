"""The answers in a journal, found by alteration, level and images."""

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from jax.sharding import Mesh

from jaxrob._classifier import Classifier
from jaxrob._engine.answers import Answers, HostAnswers
from jaxrob._engine.journal import Journal, JournalOfFirstProcess, decoded, opened
from jaxrob.alterations import Alteration


class KeptAnswers:
    """The answers that a journal holds, and the way to add new ones.

    The levels of all alterations and strategies share one journal: an answer depends on
    the classifier, the data and the key, which the header tells, and on the alteration,
    the level and the image.
    """

    def __init__(self, journal: Journal | JournalOfFirstProcess) -> None:
        """The answers that this journal holds."""
        self._journal = journal
        # By alteration and level: the first image and the answers of each piece, in
        # the images' order.
        self._pieces: dict[tuple[str, float], list[tuple[int, HostAnswers]]] = {}
        for record in journal.records:
            answers = Answers(*(decoded(record[name]) for name in Answers._fields))
            levels = decoded(record["levels"])
            self._add(record["alteration"], levels, record["start"], answers)

    def find(
        self, alteration: Alteration, level: float, start: int, stop: int
    ) -> HostAnswers | None:
        """The answers at a level on the images from `start` to before `stop`.

        Returns:
          Answers `[stop - start]`, or None unless the journal holds them all.
        """
        parts, position = [], start
        pieces = self._pieces.get((alteration.description, float(level)), ())
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
    ) -> None:
        """Writes answers `[l, n]` at `[l]` levels on the images from `start` on."""
        name = alteration.description
        parts = dict(zip(Answers._fields, answers))
        levels = np.asarray(levels, np.float64)
        self._journal.append(
            {"alteration": name, "levels": levels, "start": start, **parts}
        )
        self._add(name, levels, start, answers)

    def _add(
        self, name: str, levels: np.ndarray, start: int, answers: HostAnswers
    ) -> None:
        for position, level in enumerate(levels.tolist()):
            row = Answers(*(part[position] for part in answers))
            pieces = self._pieces.setdefault((name, level), [])
            pieces.append((start, row))
            pieces.sort(key=lambda piece: piece[0])


@contextlib.contextmanager
def kept_in(
    path: str | os.PathLike | None,
    classifier: Classifier,
    source: Callable[[], dict[str, Any]],
    mesh: Mesh,
) -> Iterator[KeptAnswers | None]:
    """The answers of a classifier on a data set that a journal keeps; None without one.

    Args:
      path: the journal's path, or None.
      classifier: the classifier.
      source: returns `provenance` of the classifier, the data and the key.
      mesh: the devices; of all processes only the first one opens the file.

    Raises:
      ValueError: as `Journal`.
      OSError: likewise.
    """
    with opened(path, "answers", classifier, source, mesh) as journal:
        yield None if journal is None else KeptAnswers(journal)
