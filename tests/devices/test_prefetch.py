import threading

import pytest

from jaxrob._devices.blocks import prefetched


def thread_count():
    return sum(t.name.startswith("jaxrob-prefetch") for t in threading.enumerate())


def test_all_items_in_order_from_one_thread():
    threads = set()

    def make():
        for number in range(50):
            threads.add(threading.current_thread().name)
            yield number

    assert list(prefetched(make())) == list(range(50))
    assert len(threads) == 1 and threads != {threading.current_thread().name}
    assert thread_count() == 0


def test_no_more_than_a_few_wait():
    made = []

    def make():
        for number in range(100):
            made.append(number)
            yield number

    items = prefetched(make(), ahead=3)
    for number in items:
        assert len(made) <= number + 1 + 3
        if number == 10:
            break
    items.close()
    assert len(made) <= 11 + 3


def test_an_exception_comes_in_its_turn_and_ends_the_thread():
    def make():
        yield 1
        yield 2
        raise OSError("the disk")

    found = []
    with pytest.raises(OSError, match="the disk"):
        for item in prefetched(make()):
            found.append(item)
    assert found == [1, 2] and thread_count() == 0


def test_who_stops_early_ends_thread_and_source():
    ended = []

    def make():
        try:
            while True:
                yield 0
        finally:
            ended.append(True)

    items = prefetched(make())
    assert next(items) == 0 and thread_count() == 1
    items.close()
    assert ended == [True] and thread_count() == 0
