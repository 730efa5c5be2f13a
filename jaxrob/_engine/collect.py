"""Collects the answers at the levels of one alteration into a curve."""

from typing import Any, Protocol

import jax
import numpy as np

from jaxrob._curve import AnyCurve, ReducedCurve
from jaxrob._engine.answers import HostAnswers, Kind
from jaxrob._engine.blocks import Block
from jaxrob.metrics._counts import Counts, count, counts_of


class Collector(Protocol):
    """Takes answers block by block, as they arrive."""

    def add(self, block: Block, rows: list[int], answers: Any) -> None:
        """Adds answers `[l, n]` on a block of images; `rows` index the levels."""
        ...


class CurveCollector(Collector, Protocol):
    """Collects answers into a curve."""

    def curve(self) -> AnyCurve:
        """Returns the curve, once every answer was added."""
        ...


class AnswerCollector:
    """Keeps every answer, in a `Curve`, or every score, in a `ScoreCurve`."""

    def __init__(self, levels: np.ndarray, length: int | None, kind: Kind) -> None:
        """Starts without answers."""
        self._levels = levels
        self._kind = kind
        # Allocated at full size if the number of images is known.
        self._whole = None if length is None else self._room(length)
        # Each block's labels and its answers at all levels, by its first image.
        self._labels: dict[int, np.ndarray] = {}
        self._blocks: dict[int, Any] = {}

    def add(self, block: Block, rows: list[int], answers: Any) -> None:
        if block.start not in self._blocks:
            self._labels[block.start] = block.labels
            self._blocks[block.start] = self._room_for(block)
        for whole, part in zip(self._blocks[block.start], answers):
            for row, values in zip(rows, part):
                whole[row] = values

    def curve(self) -> AnyCurve:
        starts = sorted(self._blocks)
        if self._whole is not None:
            whole = self._whole
        elif len(starts) == 1:
            (whole,) = self._blocks.values()
        else:
            blocks = [self._blocks[start] for start in starts]
            whole = jax.tree.map(lambda *some: np.concatenate(some, axis=1), *blocks)
        labels = np.concatenate([self._labels[start] for start in starts])
        return self._kind.curve(self._levels, whole, labels)

    def _room_for(self, block: Block) -> Any:
        if self._whole is None:
            return self._room(len(block.labels))
        return jax.tree.map(lambda part: part[:, block.start : block.stop], self._whole)

    def _room(self, length: int) -> Any:
        return self._kind.empty((len(self._levels), length))


class CountCollector:
    """Keeps only counts by class, in a `ReducedCurve`."""

    def __init__(
        self, levels: np.ndarray, num_classes: int, has_probabilities: bool
    ) -> None:
        """Starts without counts."""
        self._levels = levels
        self._num_classes = num_classes
        self._has_ranks = has_probabilities
        # The parts of the counts that others do not follow from, by name.
        self._sums: dict[str, np.ndarray] = {}

    def add(self, block: Block, rows: list[int], answers: HostAnswers) -> None:
        rank = answers.rank if self._has_ranks else None
        counted = count(answers.predicted, block.labels, self._num_classes, rank)
        names = Counts._fields if counted.confusion is None else ("confusion", "ranks")
        for name in names:
            part = getattr(counted, name)
            if part is not None:
                shape = len(self._levels), *part.shape[1:]
                whole = self._sums.setdefault(name, np.zeros(shape, np.int64))
                whole[rows] += part

    def curve(self) -> ReducedCurve:
        sums = dict(self._sums)
        if "confusion" in sums:
            counts = counts_of(sums.pop("confusion"))._replace(**sums)
        else:
            counts = Counts(**sums)
        return ReducedCurve(self._levels, counts)
