"""Reading ahead on a thread."""

import collections
import contextlib
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def prefetched(items: Iterator[T], ahead: int = 2) -> Generator[T, None, None]:
    """The items, of which a thread makes the next few while one is worked on.

    Args:
      items: an iterator. What it raises is raised here, in its turn.
      ahead: how many items wait at most.

    Yields:
      The items. Closing the generator ends the thread, after the item at work.
    """
    end = object()
    with ThreadPoolExecutor(1, "jaxrob-prefetch") as thread:
        waiting = collections.deque(
            thread.submit(next, items, end) for _ in range(ahead)
        )
        try:
            while (item := waiting.popleft().result()) is not end:
                waiting.append(thread.submit(next, items, end))
                yield item
                # Not kept while the next one is awaited.
                del item
        finally:
            thread.shutdown(cancel_futures=True)
            with contextlib.suppress(AttributeError):
                items.close()
