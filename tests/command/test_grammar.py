"""Alterations as they are written on the command line."""

import re
import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxrob._command.grammar import Written, read
from jaxrob._command.refused import Refused


@pytest.mark.parametrize(
    ("text", "name", "ends", "settings"),
    [
        ("rotation", "rotation", None, {}),
        ("rotation()", "rotation", None, {}),
        (" gaussian_blur ( 0 , 4.5 ) ", "gaussian_blur", (0, 4.5), {}),
        ("zoom(1,2e0)", "zoom", (1, 2), {}),
        ("x(-.5,+5.)", "x", (-0.5, 5), {}),
        ("x(-1e-3,1E3)", "x", (-0.001, 1000), {}),
        ("rotation(-30,30,fill=edge)", "rotation", (-30, 30), {"fill": "edge"}),
        ("noise(0,1,clip=False)", "noise", (0, 1), {"clip": False}),
        ("rotation(fill=edge)", "rotation", None, {"fill": "edge"}),
        ("C:\\x (1)\\my.py:fade", "C:\\x (1)\\my.py:fade", None, {}),
        ("corruptions.fog(size=64)", "corruptions.fog", None, {"size": 64.0}),
        ("a/b c/my.py:f(-1,1,at=0)", "a/b c/my.py:f", (-1, 1), {"at": 0.0}),
    ],
)
def test_what_is_written_is_read(text, name, ends, settings):
    assert read(text) == Written(name, ends, settings, text)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "at character 1; the text ends"),
        ("(0,4)", "expected an alteration's name at character 1"),
        ("blur(0;4)", "at character 6; got '0;4)'"),
        ("blur(0,", 'expected ")" at character 8; the text ends'),
        ("blur(0,4", 'expected ")" at character 9'),
        ("blur(0,4)x", "expected nothing more at character 10; got 'x'"),
        ("blur,zoom", "one alteration for each flag at character 5"),
        ("blur[0,4]", 'expected "(" at character 5'),
        ("rotation(30)", "two ends, such as rotation(0,30)"),
        ("rotation(-30)", "two ends, such as rotation(-30,0)"),
        ("rotation(0,1,2)", "got 3 numbers"),
        ("rotation(5,-5)", "got 5 and -5"),
        ("rotation(1,1)", "the lower end must be below"),
        ("rotation(0,1e999)", "1e999 is too large"),
        ("rotation(0,nan)", "expected a number"),
        ("rotation(0,1_0)", "expected a number"),
        ("rotation(0,٣)", "expected a number"),
        ("rotation(fill=edge,0,1)", "the range before what is named"),
        ("rotation(0,1,fill=edge,fill=crop)", "fill stands there twice"),
        ("rotation(0,1,fill=)", "expected a number, or a name"),
        ("rotation(0,1,fill='edge')", "at character 19"),
        ("x" * 1001, "got 1001"),
    ],
)
def test_what_cannot_be_read_is_said_with_its_place(text, says):
    with pytest.raises(Refused, match=re.escape(says)):
        read(text)


@settings(deadline=None, max_examples=50)
@given(st.text(alphabet=string.printable, max_size=60))
def test_any_text_is_read_or_refused(text):
    try:
        written = read(text)
    except Refused as refused:
        assert str(refused)
        return
    assert written.text == text
    assert written.ends is None or written.ends[0] < written.ends[1]


WORD = st.text("abz_", min_size=1, max_size=8)


@settings(deadline=None, max_examples=20)
@given(
    WORD,
    st.floats(-1e6, 1e6),
    st.floats(-1e6, 1e6),
    st.dictionaries(
        WORD,
        st.one_of(st.booleans(), st.floats(-9, 9), st.sampled_from(["edge", "px"])),
        max_size=3,
    ),
)
def test_what_python_writes_is_read_back(name, one, other, named):
    lower, upper = sorted((one, other))
    if lower == upper:
        return
    parts = [repr(lower), repr(upper), *(f"{k}={v}" for k, v in named.items())]
    written = read(f"{name}({','.join(parts)})")
    assert (written.name, written.ends) == (name, (lower, upper))
    assert written.settings == named
