"""Reading ahead on a thread."""

import collections
import itertools
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def prefetched(items: Iterator[T], ahead: int = 2) -> Generator[T, None, None]:
    """The items of an iterator, which a thread makes while earlier ones are used.

    Args:
      items: an iterator. What it raises is raised here, in its turn.
      ahead: how many items wait at most.

    Yields:
      The items. Closing the generator ends the thread, once it has made its item.
    """

    def taken() -> list[T]:
        return list(itertools.islice(items, 1))

    with ThreadPoolExecutor(1, "jaxrob-prefetch") as thread:
        waiting = collections.deque(thread.submit(taken) for _ in range(ahead))
        try:
            while item := waiting.popleft().result():
                waiting.append(thread.submit(taken))
                # It is not kept here while it is used and the next one is awaited.
                yield item.pop()
        finally:
            thread.shutdown(cancel_futures=True)
            if isinstance(items, Generator):
                items.close()
