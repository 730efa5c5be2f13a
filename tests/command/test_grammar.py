"""Alterations as they are written on the command line."""

import re
import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxrob._command.catalogue import Written, read_call
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
    assert read_call(text) == Written(name, ends, settings, text)


@pytest.mark.parametrize(
    "text",
    [
        *("", "(0,4)", "blur(0;4)", "blur(0,", "blur(0,4)x", "blur(0,4)(1)"),
        *("blur,zoom", "blur[0,4]", "rotation(30)", "rotation(0,1,2)", "rotation(1,1)"),
        *("rotation(5,-5)", "rotation(0,1e999)", "rotation(0,nan)", "rotation(0,٣)"),
        *("rotation(0,True)", "rotation(*a)", "rotation(**a)", "rotation(0,1j)"),
        *("rotation(fill=edge,0,1)", "rotation(0,1,fill=edge,fill=crop)"),
        *("rotation(0,1,fill=)", "rotation(0,1,fill='edge')", "rotation(0,1+1)"),
        *("rotation(0,1,at=f())", "rotation(0,1,at=" + "-" * 900 + "1)", "x" * 1001),
    ],
)
def test_what_cannot_be_read_is_refused(text):
    with pytest.raises(Refused, match=re.escape(text[:3]) + "|1000"):
        read_call(text)


@settings(deadline=None, max_examples=50)
@given(st.text(alphabet=string.printable, max_size=60))
def test_any_text_is_read_or_refused(text):
    try:
        written = read_call(text)
    except Refused as refused:
        assert str(refused)
        return
    assert written.text == text
    assert written.ends is None or written.ends[0] < written.ends[1]
