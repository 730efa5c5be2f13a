"""Checks of arguments, the class outputs among others, and whose error it is."""

import collections
import dataclasses
import pathlib
from fractions import Fraction
from types import SimpleNamespace as Plain

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrob._arguments.checks import (
    as_written,
    checked_array,
    checked_bounds,
    checked_integer,
    checked_number,
    checked_path,
    checked_sequence,
    checked_traceable,
)
from jaxrob._arguments.messages import class_outputs
from jaxrob._arguments.texts import computing, was_computing


@pytest.mark.parametrize("three", [3, np.int8(3), np.array(3)])
def test_integers(three):
    assert checked_integer("n", three, at_least=3, at_most=3) == 3


@pytest.mark.parametrize("made", [np.float16, np.float32, jnp.float32, Fraction])
def test_numbers(made):
    with np.printoptions(legacy="1.13"):
        assert checked_number("x", made(0.85), above=0, below=1) == 0.85
    for given in ([1, np.float32(0.85)], jnp.array([1, 0.85], jnp.bfloat16)):
        assert as_written(checked_array("x", given, "n")).tolist() == [1, 0.85]
    for given, kind in ((jnp.bfloat16(0.85), "bfloat16"), (np.ma.masked, "Masked")):
        with pytest.raises(TypeError, match=f"x must be a number; got .*{kind}"):
            checked_number("x", given)
    assert np.isnan(as_written([np.ma.masked])).all()


def test_arrays_that_share_lengths():
    axes = {}
    checked_array("a", [[1, 2, 3]], "L, N", axes=axes)
    assert axes == {"L": 1, "N": 3}
    checked_array("b", np.zeros((3, 4)), "N, N + 1", axes=axes)
    with pytest.raises(ValueError, match=r"c must have the shape \[N\] with N = 3"):
        checked_array("c", [1, 2], "N", axes=axes)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ([[1, 2], [3]], "a must be an array .*; got list of length 2"),
        (["x"], "a must be an array .*<U1"),
        (np.array([True]), "a must be an array .*bool"),
        ([1j], "a must be an array .*complex"),
        (jax.random.key(0), "a must be an array"),
        ([0.5, np.nan], "a must be finite; got nan at index 1"),
        ([0.5, 1.5], r"a must lie in \[0, 1\]; got 1.5 at index 1"),
        ([], r"a must have the shape \[n\]; got \(0,\)"),
        ([[1]], r"a must have the shape \[n\]; got \(1, 1\)"),
    ],
)
def test_what_is_no_such_array(value, said):
    with pytest.raises((TypeError, ValueError), match=said):
        checked_array("a", value, "n", at_least=0, at_most=1)


def test_a_traced_array_is_taken_where_values_do_not_matter():
    assert (
        jax.jit(lambda x: checked_traceable("x", x, "..., n"))(jnp.ones(3)).sum() == 3
    )

    with pytest.raises(TypeError, match="a must be an array.* being traced"):
        jax.jit(lambda x: checked_array("a", x, "n"))(jnp.ones(3))


def test_sequences_bounds_and_paths():
    assert checked_sequence("s", [1, 2], int, "integers") == (1, 2)
    for wrong in ("ab", b"ab", {1}, iter([1]), ["a"], 3, None, np.ones(2)):
        with pytest.raises(TypeError, match="s must be a sequence of integers; got"):
            checked_sequence("s", wrong, int, "integers")
    with pytest.raises(ValueError, match="s is empty"):
        checked_sequence("s", [], int, "integers")

    assert checked_bounds("b", np.float32([0, 0.85])) == (0, 0.85)
    for wrong in ((1, 0), (0, np.inf), (0, "1"), (0, 1, 2), "01", None, np.array(7)):
        with pytest.raises((TypeError, ValueError), match="b must be the finite ends"):
            checked_bounds("b", wrong)

    assert checked_path("p", "x") == checked_path("p", pathlib.Path("x"))
    for wrong in (3, b"x", "", None, "\0"):
        with pytest.raises((TypeError, ValueError), match="p must be a path"):
            checked_path("p", wrong)


RIGHT = np.zeros((6, 4))
MAP = np.zeros((6, 2, 2, 4))
Pair = collections.namedtuple("Pair", ["features", "head"])


@dataclasses.dataclass
class Output:
    features: object
    logits: object = None


@pytest.mark.parametrize(
    "returned",
    [
        RIGHT,
        {"loss": np.float32(1), "map": MAP, "out": RIGHT, "none": None},
        {"logits": RIGHT, "features": np.ones((6, 9))},
        (MAP, RIGHT),
        [RIGHT, np.zeros(6), "text"],
        Pair(MAP, RIGHT),
        Output(np.ones((6, 9)), RIGHT),
        Output(RIGHT),
        Output(RIGHT, "no array"),
        Plain(features=np.ones((6, 9)), logits=RIGHT),
        Plain(head=RIGHT, other=np.ones((4, 6))),
    ],
)
def test_what_is_taken(returned):
    assert class_outputs("it", returned, 6) is RIGHT


def test_samples_called_logits_are_taken():
    samples = np.zeros((3, 6, 4))
    assert class_outputs("it", {"logits": samples}, 6) is samples


@pytest.mark.parametrize(
    "returned, message",
    [
        (
            (RIGHT, RIGHT[:, :3]),
            r"\[0\] of the shape \(6, 4\), \[1\] of the shape .* for instance outputs",
        ),
        ({"a": MAP}, r"\['a'\] of the shape \(6, 2, 2, 4\).* needs outputs=\"any\""),
        (Pair(RIGHT, RIGHT), "Pair of length 2: .features .* instance outputs.feat"),
        (Plain(a=RIGHT, b=RIGHT), "got SimpleNamespace: .a of the shape"),
        ([[0.0, 1.0]] * 6, "got list of length 6. None of its arrays"),
        (None, "got None"),
        ("text", "got 'text', of type str"),
    ],
)
def test_what_cannot_be_decided(returned, message):
    with pytest.raises(TypeError, match=f"^it must return one array .*{message}"):
        class_outputs("it", returned, 6)


class Usual(ValueError):
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


@pytest.mark.parametrize("kind", [Usual, Slots, NoDict, Locked, KeyboardInterrupt])
def test_the_users_error_comes_out(kind):
    error = kind("mine")
    with pytest.raises(kind, match="mine") as caught, computing():
        raise error
    assert caught.value is error
    assert was_computing(error) == (kind not in (Locked,))


def test_other_errors_have_no_mark():
    assert not was_computing(ValueError()) and not was_computing(NoDict())
