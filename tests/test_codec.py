"""Classes as JSON documents, by their annotations."""

import dataclasses
import datetime
import json
import math
from typing import Annotated, Any, NamedTuple

import numpy as np
import pytest

from jaxrob._codec import (
    WRITTEN,
    Array,
    As,
    Integer,
    Layout,
    Number,
    Row,
    Text,
    digest_of,
    document,
    from_json,
    read,
    to_json,
)

from .assessment.documents import drop, put


class Ends(NamedTuple):
    low: float
    high: float


class Small(NamedTuple):
    name: str
    notes: tuple[str, ...] = ()


class Answers(NamedTuple):
    levels: Annotated[np.ndarray, Array("L")]
    counts: Annotated[
        np.ndarray,
        Array("L, K, K + 1", "int64", at_least=0),
        Layout(lengths=lambda counts: {"N": int(counts[0].sum())}),
    ]
    classes: Annotated[int, Layout(make=lambda axes: axes["K"])]
    answers: Annotated[
        np.ndarray,
        Array("L, N", ("int16", "int32"), is_packed=True),
        Layout(under="of images"),
    ]


class Counts(NamedTuple):
    levels: Annotated[np.ndarray, Array("L")]
    counts: Annotated[np.ndarray, Array("L, K, K + 1", "int64", at_least=0)]


@document("test 1")
@dataclasses.dataclass(frozen=True)
class Whole:
    share: Annotated[float, Number(at_least=0, below=1, may_be_nan=True)]
    log: Annotated[float, Number(at_most=0, may_be_infinite=True)]
    number: Annotated[int | None, Integer(at_least=1, at_most=9)]
    kind: Annotated[str, Text(allowed=("one", "other"))]
    code: Annotated[str, Text("two letters", "[a-z]{2}"), Layout("called")]
    ends: Annotated[Ends, Row(Number(at_least=0, at_most=1), ascends=True)]
    day: Annotated[
        datetime.date,
        As(str, datetime.date.isoformat, lambda text, place: day(text, place)),
    ]
    small: tuple[Small, ...]
    settings: dict[str, str | float | bool]
    anything: dict[str, Any]
    flags: Annotated[np.ndarray, Array("L", "bool")]
    logs: Annotated[
        np.ndarray, Array("L, 2", "float32", may_be_nan=True, may_be_infinite=True)
    ]
    status: Annotated[np.ndarray, Array("L", "U8", allowed=("good", "bad"))]
    curve: Annotated[Answers | Counts, Layout(is_flat=True)]
    images: Annotated[np.ndarray, Layout(make=lambda axes: np.zeros(0))]
    remark: Annotated[str | None, Layout(may_lack=True)] = None
    is_good: bool = True

    @property
    def total(self) -> Annotated[int, Integer(), WRITTEN]:
        return int(self.curve.counts.sum())

    @property
    def words(self) -> Annotated[tuple[str, ...], WRITTEN]:
        return ("in words",)

    def _check_together(self):
        if self.is_good != (self.kind == "one"):
            raise ValueError("is_good must go with kind")


def day(text, place):
    try:
        return datetime.date.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{place} must be a day") from None


LEVELS = np.array([0.0, 0.5])
COUNTS = np.array([[[2, 1, 0], [0, 1, 0]], [[1, 1, 1], [0, 0, 1]]])


def whole(**changes):
    fields = {
        "share": math.nan,
        "log": -math.inf,
        "number": None,
        "kind": "one",
        "code": "ab",
        "ends": Ends(0.0, 1.0),
        "day": datetime.date(2026, 3, 2),
        "small": (Small("a"), Small("b", ("x",))),
        "settings": {"fill": "edge", "clip": True, "size": 3},
        "anything": {"deep": [{"x": None}]},
        "flags": np.array([True, False]),
        "logs": np.array([[0.1, np.nan], [np.inf, -np.inf]], np.float32),
        "status": np.array(["good", "bad"]),
        "curve": Answers(LEVELS, COUNTS, 2, np.arange(8, dtype=np.int16).reshape(2, 4)),
        "images": np.ones(9),
    }
    return Whole(**(fields | changes))


def test_back_as_it_was():
    before = whole()
    text = to_json(before)
    after = from_json(text, Whole)
    assert to_json(after) == text == to_json(from_json(text.encode(), Whole))
    assert type(after.curve) is Answers and after.curve.classes == 2
    assert after.curve.answers.dtype == np.int16 and after.images.size == 0
    assert after.logs.dtype == np.float32 and after.status.dtype == "<U8"
    np.testing.assert_array_equal(after.logs, before.logs)
    assert (after.day, after.small, after.ends) == (before.day, before.small, (0, 1))
    assert math.isnan(after.share) and after.log == -math.inf
    assert (after.settings, after.anything) == (before.settings, before.anything)


def test_how_it_is_written():
    found = json.loads(to_json(whole()), parse_constant=pytest.fail)
    assert found["share"] is None and found["log"] == "-inf" and found["called"] == "ab"
    assert found["logs"][0][1] is None and found["logs"][1] == ["inf", "-inf"]
    assert found["ends"] == [0.0, 1.0] and found["day"] == "2026-03-02"
    assert found["small"][0] == {"name": "a", "notes": []}
    assert found["levels"] == [0.0, 0.5] and found["of images"].keys() == {"answers"}
    assert "remark" not in found and "images" not in found and "classes" not in found
    assert found["total"] == 8 and found["words"] == ["in words"]
    assert found.pop("digest") == digest_of(found)
    assert json.loads(to_json(whole(remark="x")))["remark"] == "x"


def test_the_class_of_fewer_parts():
    before = whole(curve=Counts(LEVELS, COUNTS))
    assert "of images" not in json.loads(to_json(before))
    assert type(from_json(to_json(before), Whole).curve) is Counts


IMPLAUSIBLE = {
    "format": (put("format", "test 2"), "^format must be 'test 1'; got 'test 2'"),
    "number": (put("number", 10), r"^number must lie in \[1, 9\]; got 10"),
    "true": (put("share", True), "^share must be a number; got True"),
    "beyond": (put("share", 1), r"^share must lie in \[0, 1\); got 1"),
    "infinite": (put("share", "inf"), "^share must be a number; got 'inf'"),
    "null": (put("log", None), "^log must be a number; got None"),
    "choice": (put("kind", "third"), r"^kind must be one of \('one', 'other'\)"),
    "pattern": (put("called", "x" * 999), "^called must be two letters; got 'xx.*[.]"),
    "end": (put("ends", 1, 2), r"^ends\[1\] must lie in \[0, 1\]; got 2"),
    "ends turned": (put("ends", [1, 0]), r"^ends must ascend; got \[1, 0\]"),
    "three ends": (put("ends", [0, 0, 1]), "^ends must be a list of 2"),
    "no day": (put("day", "x"), "^day must be a day"),
    "item": (put("small", 1, "notes", 0, 3), r"^small\[1\].notes\[0\] must be a text"),
    "no item": (put("small", 1, "x"), r"^small\[1\] must be an object"),
    "item's part": (put("small", 1, {}), r"^small\[1\] lacks 'name', 'notes'"),
    "setting": (put("settings", "fill", []), "^settings.fill must be a text or a"),
    "odd name": (put("settings", "<\n>", []), r"^settings.'<\\n>' must be a text"),
    "no object": (put("anything", []), "^anything must be an object"),
    "flag": (put("is_good", 1), "^is_good must be true or false; got 1"),
    "a flag of some": (put("flags", 1, 0), r"^flags\[1\] must be true or false; got 0"),
    "longer": (put("flags", [True] * 3), r"^logs must have the shape .* with L = 3"),
    "text in numbers": (put("logs", 0, 1, "x"), r"^logs\[0\]\[1\] must be a number"),
    "ragged": (put("logs", 0, [1]), r"^logs must be an array \[L, 2\] of numbers"),
    "flat": (put("logs", 1), r"^logs must be an array \[L, 2\] of numbers; got 1"),
    "status": (put("status", 0, "x"), r"^status\[0\] must be one of \('good', 'bad'\)"),
    "huge count": (put("counts", 0, 0, 0, 10**30), "^counts must hold smaller numbers"),
    "count": (put("counts", 0, 0, 0, -1), "^counts must lie in .*; got -1 at index"),
    "no images": (put("counts", [[[0, 0, 0]] * 2] * 2), "^counts must be of one input"),
    "other classes": (put("counts", [[[1, 1]]] * 2), "must hold 8 bytes"),
    "dtype": (put("of images", "answers", "dtype", "int8"), "answers.dtype must"),
    "more images": (put("counts", 0, 0, 0, 99), "must hold 404 bytes"),
    "a bomb": (put("counts", 0, 0, 0, 2**31 - 1), "takes 8589934596 bytes"),
    "written": (put("total", "x"), "^total must be an integer"),
    "together": (put("kind", "other"), "^is_good must go with kind"),
    "edited": (put("words", ["others"]), "^the text is not what was written"),
    "missing": (drop("share"), "^the text lacks 'share'"),
    "flat part missing": (drop("levels"), "^the text lacks 'levels'"),
    "unknown": (put("beauty", 1), r"^the text has unknown parts: \['beauty'\]; it may"),
    "unknown within": (put("of images", "x", 1), "^'of images' has unknown parts"),
    "no digests": (drop("digest"), "^the text lacks 'digest'"),
}


@pytest.mark.parametrize("name", IMPLAUSIBLE)
def test_the_path_is_named(name):
    change, message = IMPLAUSIBLE[name]
    found = json.loads(to_json(whole()))
    change(found)
    with pytest.raises(ValueError, match=message) as error:
        from_json(json.dumps(found), Whole)
    assert len(str(error.value)) < 1000


@pytest.mark.parametrize("text", ["", "[]", "NaN", '{"format": NaN}', '{"a":1,"a":2}'])
def test_no_document(text):
    with pytest.raises(ValueError, match="not JSON|^format must be|^the text must be"):
        from_json(text, Whole)


@document("outer 1")
class Outer(NamedTuple):
    first: Whole
    second: Whole | None


def test_documents_within_a_document_have_lengths_of_their_own():
    other = whole(
        curve=Counts(LEVELS[:1], COUNTS[:1]),
        **{name: getattr(whole(), name)[:1] for name in ("flags", "logs", "status")},
    )
    text = to_json(Outer(whole(), other))
    after = from_json(text, Outer)
    assert len(after.first.flags) == 2 and len(after.second.flags) == 1
    assert from_json(to_json(Outer(whole(), None)), Outer).second is None
    found = json.loads(text)
    found["second"]["small"][0]["name"] = 3
    with pytest.raises(ValueError, match=r"^second.small\[0\].name must be a text"):
        from_json(json.dumps(found), Outer)
    found = json.loads(text)
    found["second"]["words"] = []
    with pytest.raises(ValueError, match="^second is not what was written"):
        from_json(json.dumps(found), Outer)


def test_parts_with_a_default_may_be_left_out_if_that_is_said():
    with pytest.raises(ValueError, match="^at lacks 'notes'"):
        read(Small, {"name": "a"}, "at")
    assert read(Small, {"name": "a"}, is_partial=True) == Small("a")
    with pytest.raises(ValueError, match="^the plan lacks 'name'"):
        read(Small, {}, name="the plan", is_partial=True)
    many = {"name": "a", "notes": [], "x": 1}
    assert read(Small, many, ignores_unknown=True) == Small("a")
