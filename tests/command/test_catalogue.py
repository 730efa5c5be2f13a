"""Alterations by name and as they are written, with ranges, and a user's own."""

import hashlib
import pathlib
import re
import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from jaxrob import RobustnessWarning, alterations
from jaxrob._command import catalogue
from jaxrob._command.catalogue import Written, read_call
from jaxrob._command.define import Refused
from jaxrob.alterations.corruptions import _weather

SHAPE = (28, 28, 1)
OWN = """
import jaxrob

def fade(image, level):
    return (1 - level) * image

def rain(image, level, key):
    return image

def one(image):
    return image

made = jaxrob.Alteration("made by hand", fade, 0.0, 0.5)

def maker():
    return made

def no_maker():
    return 3

def curtain(lower=0.0, upper=10.0):
    about = jaxrob.alterations.About(default_range=lambda h, w: (0.0, w / 4))
    return jaxrob.Alteration("curtain", fade, lower, upper, about=about)
"""


def made(text, shape=SHAPE):
    return catalogue.made(read_call(text), shape)


def all_made(*texts, frost=None):
    written = [read_call(text) for text in texts]
    return [one for one, _ in catalogue.all_made(written, SHAPE, frost)]


def ends(text, shape):
    found = made(text, shape)
    return found.lower, found.upper


@pytest.fixture
def own(tmp_path):
    (tmp_path / "own.py").write_text(OWN)
    return f"{tmp_path}/own.py"


def test_default_ranges_scale_with_the_pictures():
    assert ends("horizontal_translation", (50, 200, 3)) == (-20, 20)
    assert ends("vertical_translation", (50, 200, 3)) == (-5, 5)
    # 2 px of 50, as in the paper of 2020.
    assert ends("gaussian_blur", (50, 200, 3)) == (0, 2)
    assert ends("gaussian_blur", (400, 100, 3)) == (0, 4)
    assert ends("vertical_translation(unit=relative)", SHAPE) == (-0.1, 0.1)
    # The others are the library's own.
    for name in ("rotation", "gaussian_noise"):
        default = getattr(alterations, name)()
        assert ends(name, (224, 224, 3)) == (default.lower, default.upper)
    # Relative lengths have ranges of their own.
    uppers = {"motion_blur": 0.05, "defocus_blur": 0.05, "elastic_deformation": 0.02}
    for name, upper in uppers.items():
        assert ends(f"{name}(unit=relative)", (50, 200, 3)) == (0, upper)


def test_a_range_that_is_written_is_taken():
    assert ends("gaussian_blur(0,4)", SHAPE) == (0, 4)
    found = made("rotation(-30,30,fill=edge)")
    assert found.description == alterations.rotation(-30, 30, "edge").description
    found = made("gaussian_noise(0,0.5,clip=false)")
    expected = alterations.gaussian_noise(0, 0.5, clip=False)
    assert found.description == expected.description


def test_all_that_the_library_has_are_there():
    others = {"About", "Alteration", "compose", "corruptions", "followed_by"}
    others |= {"presets", "recorded", "recorded_in", "rescale"}
    others |= {"Move", "MovedBoxes", "move_boxes", "move_mask", "unmoved_reason"}
    assert {*catalogue.NAMES} == {*alterations.__all__} - others
    for name in catalogue.NAMES:
        assert made(name).name == name.replace("_", " ")
        assert made(name).about.range_from


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("gausian_blur", "Did you mean gaussian_blur?"),
        ("rotation(0,1,fil=edge)", "Did you mean fill?"),
        ("zoom(1,2,fill=edge)", "no settings"),
        ("rotation(5,30)", "lower"),
        ("rotation(-1,1,fill=mirror)", "fill"),
        ("jpeg_compression(0,200)", "upper"),
    ],
)
def test_what_is_no_alteration_is_refused(text, says):
    with pytest.raises(Refused, match=re.escape(says)) as refused:
        made(text)
    assert text in str(refused.value)


def test_a_users_own(own):
    fading = made(f"{own}:fade(-1,1,identity=0,unit=share)")
    assert (fading.name, fading.lower, fading.upper) == ("fade", -1, 1)
    assert (fading.identity, fading.unit, fading.stochastic) == (0, "share", False)
    assert made(f"{own}:rain(0,1)").stochastic
    curtain = made(f"{own}:curtain", (50, 200, 3))
    assert (curtain.lower, curtain.upper) == (0, 50)
    assert made(f"{own}:made").name == made(f"{own}:maker").name == "made by hand"


@pytest.mark.parametrize(
    ("rest", "says"),
    [
        (":fade", "a function needs a range"),
        (":fade(0,1,fill=edge)", "no setting fill"),
        (":fade(0,1,identity=7)", "identity"),
        (":made(0,1)", "its own range"),
        (":no_maker", "must return a jaxrob.Alteration"),
        (":one(0,1)", "a function of an image and a level"),
        (":fadee(0,1)", "Did you mean fade?"),
        ("/fade.py:fade(0,1)", "no such file"),
    ],
)
def test_what_a_file_does_not_hold_is_refused(own, rest, says):
    with pytest.raises(Refused, match=re.escape(says)):
        made(own + rest)


@pytest.mark.parametrize("other", ["contrast(0,3)", "corruptions.contrast"])
def test_two_of_one_name_are_refused(other):
    with pytest.raises(Refused, match="are both called contrast"):
        all_made("contrast", other)


@pytest.fixture
def without_frost(monkeypatch):
    monkeypatch.setattr(_weather, "_PACKAGES", ())


def descriptions(some):
    return [one.description for one in some]


def no_frost():
    return pytest.warns(RobustnessWarning, match="frost is left out")


def test_a_preset_is_all_of_the_benchmarks_corruptions(without_frost):
    with no_frost():
        *found, zoom = all_made("cifar_c(published=true)", "zoom")
        expected = alterations.presets.cifar_c(published=True)
    assert descriptions(found) == descriptions(expected) and zoom.name == "zoom"
    with no_frost():
        sized = all_made("imagenet_c(size=64)")
    fog, of_all, plain = (
        made(f"corruptions.fog{rest}") for rest in ("(size=64)", "(0,5)", "")
    )
    assert fog.description in descriptions(sized)
    assert of_all.description == plain.description


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("imagenet-c", "Did you mean imagenet_c?"),
        ("corruptions.frog", "Did you mean corruptions.f"),
        ("imagenet_c(size=100)", "size must be one of"),
        ("imagenet_c(0,3)", "severities from 0 to 5"),
        ("cifar_c(published=yes)", "published must be True or False"),
        ("corruptions.frost", "the pictures of frost are missing"),
    ],
)
def test_what_is_no_benchmark_is_refused(without_frost, text, says):
    with pytest.raises(Refused, match=re.escape(says)):
        all_made(text)


@pytest.fixture
def frost_folder(tmp_path, monkeypatch):
    """Pictures that pass for the benchmark's."""
    digests = {}
    for number in range(1, 6):
        path = tmp_path / f"frost{number}.png"
        Image.new("RGB", (400, 400), (50 * number, 0, 0)).save(path)
        digests[path.name] = hashlib.sha256(path.read_bytes()).hexdigest()
    monkeypatch.setattr(_weather, "_FILES", digests)
    yield str(tmp_path)
    _weather._read.cache_clear()


@pytest.mark.parametrize("text", ["corruptions.frost", "cifar_c"])
def test_the_pictures_of_frost_come_from_a_folder(frost_folder, monkeypatch, text):
    found = all_made(text, frost=frost_folder)
    assert "frost" in [one.name for one in found]
    assert len(found) == (1 if text == "corruptions.frost" else 15)
    monkeypatch.setattr(_weather, "_installed", lambda: pathlib.Path(frost_folder))
    if len(found) == 15:
        with no_frost():
            grey = catalogue.all_made([read_call(text)], (32, 32, 1))
        assert {*found} - {one for one, _ in grey} == {found[8]}
    pathlib.Path(frost_folder, "frost3.png").unlink()
    with pytest.raises(Refused, match="frost3.png"):
        all_made(text, frost=frost_folder)


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
