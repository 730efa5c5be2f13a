"""Errors raised while answers are computed stay the user's, whatever their class."""

import pytest

from jaxrob._arguments.texts import computing, was_computing


class Plain(ValueError):
    pass


class Slots(ValueError):
    __slots__ = ()


class NoDict(ValueError):
    @property
    def __dict__(self):
        raise RuntimeError("no dict")


class Locked(ValueError):
    def __setattr__(self, name, value):
        raise RuntimeError("locked")


@pytest.mark.parametrize("kind", [Plain, Slots, NoDict, Locked, KeyboardInterrupt])
def test_the_users_error_comes_out(kind):
    error = kind("mine")
    with pytest.raises(kind, match="mine") as caught, computing():
        raise error
    assert caught.value is error
    assert was_computing(error) == (kind not in (Locked,))


def test_other_errors_have_no_mark():
    assert not was_computing(ValueError()) and not was_computing(NoDict())
