"""What the site's pages and the README run runs, and prints what they show."""

import importlib.util
import math
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[2]

_spec = importlib.util.spec_from_file_location("pages", ROOT / "docs" / "pages.py")
pages = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(pages)

PAGES = pages.pages()
# RoMA's cascade, whose draws take longer than what compiles them.
LONG_TO_COMPUTE = ("random-perturbations.md",)
WITH_CODE = [page for page in PAGES if pages.blocks(page.read_text())]

# Packages of optional extras and other libraries, which few have.
_FRAMEWORK = re.compile(
    r"^(?:import|from) (torch|onnx|keras|transformers|timm|equinox|datasets|grain|"
    r"maite|tensorflow|rapidocr_onnxruntime)\b",
    re.MULTILINE,
)
_NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?%?")
# Networks trained on another machine are a little different ones.
_TOLERANCE = {"rel_tol": 0.25, "abs_tol": 0.05}


def _words(text):
    """The text without its numbers, white space and rules all alike."""
    return re.sub(r"-{2,}", "--", " ".join(_NUMBER.sub("#", text).split()))


def _numbers(text):
    """The numbers of a text, percentages as shares."""
    found = _NUMBER.findall(text)
    return [float(n[:-1]) / 100 if n[-1] == "%" else float(n) for n in found]


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", WITH_CODE, ids=lambda page: str(page.relative_to(ROOT))
)
def test_code_runs_and_prints_what_the_page_shows(page, tmp_path, request):
    """In order, in one namespace, in an empty folder."""
    if page.name in LONG_TO_COMPUTE:
        request.getfixturevalue("optimised")
    for package in _FRAMEWORK.findall(page.read_text()):
        # Not imported here: the page says on which backend Keras runs.
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"needs {package}: an extra, or what the page installs")
    printed = pages.run(page, tmp_path)
    for block, got in zip(pages.blocks(page.read_text()), printed, strict=True):
        if block.output is None:
            assert got == "", f"line {block.line} prints what the page does not show"
            continue
        shown = block.output
        if block.varies:
            got, shown = (_words(text.split("\n")[0]) for text in (got, shown))
        assert _words(got) == _words(shown), f"line {block.line}"
        for value, number in zip(_numbers(got), _numbers(shown), strict=True):
            assert math.isclose(value, number, **_TOLERANCE), f"line {block.line}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_show_what_there_is(page):
    """Every block of code is one that is run; every picture and page exists."""
    text = page.read_text()
    number = text.count("```python") + text.count("```bash")
    assert len(pages.blocks(text)) == number, "indented, or unclosed"
    for picture in pages.pictures(page):
        assert picture.exists(), picture
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
        assert (page.parent / target).exists(), target
