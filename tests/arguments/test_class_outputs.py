"""The class outputs among whatever a network returns."""

import collections
import dataclasses

import numpy as np
import pytest

from jaxrob._arguments.messages import class_outputs

RIGHT = np.zeros((6, 4))
MAP = np.zeros((6, 2, 2, 4))
Pair = collections.namedtuple("Pair", ["features", "head"])


@dataclasses.dataclass
class Output:
    features: object
    logits: object = None


class Plain:
    def __init__(self, **parts):
        vars(self).update(parts)


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
        (Plain(a=RIGHT, b=RIGHT), "got Plain: .a of the shape"),
        ([[0.0, 1.0]] * 6, "got list of length 6. None of its arrays"),
        (None, "got None"),
        ("text", "got 'text', of type str"),
    ],
)
def test_what_cannot_be_decided(returned, message):
    with pytest.raises(TypeError, match=f"^it must return one array .*{message}"):
        class_outputs("it", returned, 6)
