"""Images in files that are read when they are needed."""

import collections
import dataclasses
import hashlib
import os
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from jaxrob._identity.identity import digest

_DIGEST_BYTES = 16
# Images read ahead of the one awaited, as their bytes.
_AHEAD_BYTES = 1 << 27
# A task's images: small ones are read in less time than switching threads takes.
_MOST_AT_ONCE = 64
_BYTES_AT_ONCE = 1 << 20
# So many images form an array whatever their size: checks look at a few.
_ALWAYS_IN_ARRAY = 20
_Index = slice | np.ndarray


class Unreadable(ValueError):
    """A file that is no readable image. The message names it."""


class Failed(NamedTuple):
    place: int
    why: str


@dataclasses.dataclass(frozen=True, eq=False)
class Store:
    """Where images come from, shared by all parts of a data set."""

    names: Sequence[str]
    where: Callable[[int], str]
    image_shape: tuple[int, ...]
    dtype: np.dtype
    contents: Callable[[int], bytes]
    decode: Callable[[int, bytes], tuple[np.ndarray, Any]]
    preparation: str
    warn_of: Callable[[dict[int, Any], int], None]
    most_bytes: int
    _digests: np.ndarray = dataclasses.field(init=False, repr=False)
    _is_digested: np.ndarray = dataclasses.field(init=False, repr=False)
    # `[2, N]`, of each image the lowest and the highest value; NaN before it is read.
    _ends: np.ndarray = dataclasses.field(init=False, repr=False)
    _odd: dict[int, Any] = dataclasses.field(
        default_factory=dict, init=False, repr=False
    )

    def __post_init__(self) -> None:
        number = len(self.names)
        digests = np.zeros((number, _DIGEST_BYTES), np.uint8)
        object.__setattr__(self, "_digests", digests)
        object.__setattr__(self, "_is_digested", np.zeros(number, bool))
        object.__setattr__(self, "_ends", np.full((2, number), np.nan, np.float32))

    def image(self, index: int) -> np.ndarray:
        try:
            data = self.contents(index)
        except ValueError as error:
            raise Unreadable(str(error)) from error
        self._check_same(index, data)
        image, odd = self.decode(index, data)
        self._ends[:, index] = image.min(), image.max()
        if odd is not None:
            self._odd[index] = odd
        return image

    def digests(self, indices: np.ndarray) -> np.ndarray:
        """Returns digests of the files' bytes, uint8 `[n, 16]`."""
        # Only files that were not read before are read; nothing is decoded.
        missing = indices[~self._is_digested[indices]]

        def read(some: np.ndarray) -> None:
            for index in some.tolist():
                self._check_same(index, self.contents(index))

        firsts = range(0, len(missing), _MOST_AT_ONCE)
        parts = [missing[first : first + _MOST_AT_ONCE] for first in firsts]
        with ThreadPoolExecutor(_num_threads(), "jaxrob-digests") as pool:
            try:
                list(pool.map(read, parts))
            finally:
                pool.shutdown(cancel_futures=True)
        return self._digests[indices]

    def _check_same(self, index: int, data: bytes) -> None:
        """Keeps a file's digest when it is first read, and compares it later."""
        file_digest = hashlib.blake2b(data, digest_size=_DIGEST_BYTES).digest()
        if not self._is_digested[index]:
            self._digests[index] = np.frombuffer(file_digest, np.uint8)
            self._is_digested[index] = True
        elif self._digests[index].tobytes() != file_digest:
            raise ValueError(
                f"{self.where(index)}: the file has changed since it was first read. "
                "Load the data set again"
            )


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class StoredImages:
    """Images `[N, ...]` in files, of which each is read when it is needed.

    A slice, an index array or booleans give other such images without reading any; an
    integer reads one image, and `np.asarray` all.
    """

    store: Store
    indices: np.ndarray

    @property
    def shape(self) -> tuple[int, ...]:
        return len(self.indices), *self.store.image_shape

    @property
    def dtype(self) -> np.dtype:
        return self.store.dtype

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    def __repr__(self) -> str:
        return f"StoredImages(shape={self.shape})"

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, int | np.integer):
            return self.store.image(int(self.indices[index]))
        indices = self.indices[index]
        if indices.ndim != 1:
            raise IndexError(
                "images in files take a slice, an integer, or one array of integers or "
                f"booleans; got {index!r}"
            )
        return dataclasses.replace(self, indices=indices)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise ValueError("images in files are read into a new array")
        if len(self) > _ALWAYS_IN_ARRAY and self.nbytes > self.store.most_bytes:
            raise ValueError(
                f"images must fit into one array here; {len(self)} take {self.nbytes} "
                f"bytes, more than max_bytes={self.store.most_bytes}. Take fewer, such "
                "as dataset[::100], or load them with a larger max_bytes"
            )
        (array,) = self.read([slice(None)])
        return array if dtype is None else array.astype(dtype)

    def read(
        self, parts: Iterable[_Index], stopped: threading.Event | None = None
    ) -> Generator[np.ndarray, None, None]:
        """Yields the images of each part in order, while threads read ahead."""
        # They read ahead across parts, up to 128 MiB, so that no thread idles while a
        # part is used.
        for images, failed in self._read(parts, stopped, False):
            assert not failed
            yield images

    def readable(self) -> tuple[np.ndarray | None, list[Failed]]:
        """Reads all images once, and returns those that cannot be."""
        fit, failures, array = self.nbytes <= self.store.most_bytes, [], None
        each = len(self) if fit else self._num_at_once()
        parts = (slice(at, at + each) for at in range(0, len(self), each))
        for images, failed in self._read(parts, None, True):
            failures += failed
            array = images if fit else None
        return array, failures

    def fingerprint(self) -> str:
        """Returns a digest of names, files' bytes and preparation, without decoding."""
        # Files not read before are read, at most once.
        names = "\0".join(self.store.names[int(index)] for index in self.indices)
        texts = self.store.preparation, names.encode("utf-8", "surrogateescape").hex()
        return digest([*texts, self.store.digests(self.indices)])

    def warn_of_odd(self) -> None:
        number = int(np.isfinite(self.store._ends[0, self.indices]).sum())
        self.store.warn_of(self.odd(), number)

    def value_range(self) -> list[Any]:
        """Returns the range of the images read so far, see `_numbers.note_values`."""
        low, high = self.store._ends[:, self.indices]
        if np.isnan(low).all():
            return []
        kind = "bytes" if self.store.dtype == np.uint8 else "images"
        return [float(np.nanmin(low)), float(np.nanmax(high)), kind]

    def odd(self) -> dict[int, Any]:
        """Returns what is odd about images read so far, by their index in the store."""
        known = self.store._odd
        own = {*known} and {*known} & {*self.indices.tolist()}
        return {index: known[index] for index in sorted(own)}

    def _num_at_once(self) -> int:
        image_bytes = max(1, self.nbytes // len(self))
        return int(np.clip(_BYTES_AT_ONCE // image_bytes, 1, _MOST_AT_ONCE))

    def _read(
        self, parts: Iterable[_Index], stopped: threading.Event | None, may_fail: bool
    ) -> Iterator[tuple[np.ndarray, list[Failed]]]:
        """Yields the images of each part, and its failures if these are allowed."""
        each = self._num_at_once()
        threads = _num_threads()
        window = max(2 * each * threads, _AHEAD_BYTES * len(self) // self.nbytes)

        def fill(out: np.ndarray, indices: np.ndarray) -> list[Failed]:
            failed = []
            for place, index in enumerate(indices.tolist()):
                try:
                    out[place] = self.store.image(index)
                except Unreadable as error:
                    if not may_fail:
                        raise
                    out[place] = 0
                    failed.append(Failed(index, str(error)))
            return failed

        with ThreadPoolExecutor(threads, "jaxrob-images") as pool:

            def submitted() -> Iterator[tuple[Future[list[Failed]], int, Any]]:
                """Submits tasks when asked; the last of a part comes with its array."""
                for part in parts:
                    indices = self.indices[part]
                    shape = len(indices), *self.store.image_shape
                    out = np.empty(shape, self.store.dtype)
                    firsts = range(0, max(1, len(indices)), each)
                    for first in firsts:
                        some = slice(first, first + each)
                        task = pool.submit(fill, out[some], indices[some])
                        is_last = first == firsts[-1]
                        yield task, len(indices[some]), out if is_last else None

            tasks, ahead = submitted(), 0
            waiting: collections.deque[tuple[Future, int, Any]] = collections.deque()
            failures: list[Failed] = []
            try:
                while stopped is None or not stopped.is_set():
                    while ahead < window and (more := next(tasks, None)):
                        waiting.append(more)
                        ahead += more[1]
                    if not waiting:
                        break
                    task, number, out = waiting.popleft()
                    failures += task.result()
                    ahead -= number
                    if out is not None:
                        yield out, failures
                        out, failures = None, []
            finally:
                # After an error or an early end, waiting tasks are useless.
                pool.shutdown(cancel_futures=True)


def _num_threads() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # Not on every system.
        return os.cpu_count() or 1
