"""Reading ahead on a thread."""

import collections
import itertools
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def prefetched(
    items: Iterator[T], ahead: int = 2, stop: Callable[[], None] = lambda: None
) -> Generator[T, None, None]:
    """Yields an iterator's items, which a thread makes while earlier ones are used."""

    def taken() -> list[T]:
        return list(itertools.islice(items, 1))

    with ThreadPoolExecutor(1, "jaxrob-prefetch") as thread:
        waiting = collections.deque(thread.submit(taken) for _ in range(ahead))
        try:
            while item := waiting.popleft().result():
                waiting.append(thread.submit(taken))
                # Popped, so that its memory is free while the next item is awaited.
                yield item.pop()
        finally:
            stop()
            thread.shutdown(cancel_futures=True)
            if isinstance(items, Generator):
                items.close()
