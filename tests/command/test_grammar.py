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
        ("gaussian_blur(0,4)", "gaussian_blur", (0, 4), {}),
        (" gaussian_blur ( 0 , 4.5 ) ", "gaussian_blur", (0, 4.5), {}),
        ("zoom(1,2e0)", "zoom", (1, 2), {}),
        ("x(-.5,+5.)", "x", (-0.5, 5), {}),
        ("x(-1e-3,1E3)", "x", (-0.001, 1000), {}),
        ("rotation(-30,30,fill=edge)", "rotation", (-30, 30), {"fill": "edge"}),
        ("noise(0,1,clip=False)", "noise", (0, 1), {"clip": False}),
        ("rotation(fill=edge)", "rotation", None, {"fill": "edge"}),
        ("a/b c/my.py:fade(0,1)", "a/b c/my.py:fade", (0, 1), {}),
        ("C:\\x (1)\\my.py:fade", "C:\\x (1)\\my.py:fade", None, {}),
        ("corruptions.fog(size=64)", "corruptions.fog", None, {"size": 64.0}),
        ("my.py:f(-1,1,identity=0)", "my.py:f", (-1, 1), {"identity": 0.0}),
    ],
)
def test_what_is_written_is_read(text, name, ends, settings):
    assert read(text) == Written(name, ends, settings, text)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "expected an alteration's name at character 1; the text ends"),
        ("(0,4)", "expected an alteration's name at character 1"),
        ("blur(0;4)", "expected a number, or a name and its value"),
        ("blur(0;4)", "at character 6; got '0;4)'"),
        ("blur(0,", 'expected ")" at character 8; the text ends'),
        ("blur(0,4", 'expected ")" at character 9'),
        ("blur(0,4)x", "expected nothing more at character 10; got 'x'"),
        ("blur(0,4),zoom", "expected nothing more at character 10"),
        ("blur,zoom", "expected one alteration for each flag at character 5"),
        ("blur[0,4]", 'expected "(" at character 5'),
        ("rotation(30)", "two ends, such as rotation(0,30)"),
        ("rotation(-30)", "two ends, such as rotation(-30,0)"),
        ("rotation(0,1,2)", "got 3 numbers"),
        ("rotation(5,-5)", "the lower end must be below the upper one; got 5 and -5"),
        ("rotation(1,1)", "the lower end must be below"),
        ("rotation(0,1e999)", "1e999 is too large"),
        ("rotation(0,nan)", "expected a number"),
        ("rotation(0,inf)", "expected a number"),
        ("rotation(0,1_0)", "expected a number"),
        ("rotation(0,٣)", "expected a number"),
        ("rotation(fill=edge,0,1)", "the range before what is named"),
        ("rotation(0,1,fill=edge,fill=crop)", "fill stands there twice"),
        ("rotation(0,1,fill=)", "expected a number, or a name"),
        ("rotation(0,1,fill='edge')", "expected a number or a word at character 19"),
        ("noise(0,200/255**2)", "expected a number"),
        ("__import__('os').system('true')", "expected"),
        ("x" * 2000, "in 1000 characters at most; got 2000"),
    ],
)
def test_what_cannot_be_read_is_said_with_its_place(text, says):
    with pytest.raises(Refused, match=re.escape(says)):
        read(text)


@settings(deadline=None)
@given(st.text(alphabet=string.printable, max_size=60))
def test_any_text_is_read_or_refused(text):
    try:
        written = read(text)
    except Refused as refused:
        assert str(refused)
        return
    assert written.text == text
    assert written.ends is None or written.ends[0] < written.ends[1]


@settings(deadline=None)
@given(
    st.from_regex(r"[a-z_]{1,12}", fullmatch=True),
    st.floats(-1e6, 1e6),
    st.floats(-1e6, 1e6),
    st.dictionaries(
        st.from_regex(r"[a-z_]{1,8}", fullmatch=True),
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
