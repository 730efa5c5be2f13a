"""The site's pages and the README: what they run, show, name and list is true."""

import collections
import importlib
import importlib.util
import inspect
import math
import pathlib
import pkgutil
import re
import tomllib

import numpy as np
import pytest
from PIL import Image

from jaxrob._command import catalogue
from jaxrob.reporting._report.report import report_of
from jaxrob.reporting._report.sections import glossary

from ..reporting import reports as made

ROOT = pathlib.Path(__file__).parents[2]
DOCS = ROOT / "docs"


def loaded(name):
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


pages, summaries = loaded("pages"), loaded("summaries")

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
    for picture in (ROOT / "docs" / "figures").glob("*.png"):
        if (drawn := tmp_path / picture.name).exists():
            assert np.abs(_coarse(drawn) - _coarse(picture)).mean() < 1, picture.name


def _coarse(picture):
    with Image.open(picture) as image:
        return np.asarray(image.convert("L").resize((64, 48)), float)


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


API_PAGES = sorted(set((DOCS / "api").glob("*.md")) - {DOCS / "api" / "index.md"})


def public_modules(name="jaxrob"):
    yield name
    folders = getattr(importlib.import_module(name), "__path__", ())
    for one in pkgutil.iter_modules(folders):
        if not one.name.startswith("_"):
            yield from public_modules(f"{name}.{one.name}")


MODULES = list(public_modules())
LISTED = collections.defaultdict(list)
for _page in API_PAGES:
    for _entry in summaries.entries(_page.read_text()):
        LISTED[_entry.module].append(_entry.name)


def test_nested_modules_are_looked_into():
    assert {f"jaxrob.alterations.{one}" for one in ("corruptions", "presets")} <= {
        *MODULES
    }


@pytest.mark.parametrize("name", MODULES)
def test_lists_every_public_name(name):
    """Once, under its module; the modules themselves have pages of their own."""
    module = importlib.import_module(name)
    public = {
        one for one in module.__all__ if not inspect.ismodule(getattr(module, one))
    }
    # `jaxrob.Alteration` under another name.
    public -= {"Alteration"} if name == "jaxrob.alterations" else set()
    assert sorted(LISTED[name]) == sorted(public)


@pytest.mark.parametrize("page", API_PAGES, ids=lambda page: page.stem)
def test_begins_with_a_table_that_says_what_each_name_is(page):
    text = page.read_text()
    assert text.count(summaries.PLACE) == 1
    assert text.index(summaries.PLACE) < text.index(".. currentmodule")
    for entry in summaries.entries(text):
        assert entry.words.endswith((".", "?")), entry
    rows = summaries.with_summary(text).count("\n| {py:obj}`")
    assert rows == len(summaries.entries(text)) > 1


SHOWN = DOCS / "gallery"


@pytest.fixture(scope="module")
def gallery():
    pytest.importorskip("skimage")
    return loaded("gallery")


@pytest.fixture(scope="module")
def drawn(gallery):
    return gallery.drawn()


def test_all_but_frost_are_shown(drawn):
    every = {*catalogue.NAMES, *catalogue.BY_SEVERITY}
    assert {*drawn} == every - {"corruptions.frost"}
    assert {path.stem for path in SHOWN.iterdir()} == {*drawn}


def test_the_page_says_what_the_library_says(gallery, drawn):
    """`docs/gallery.py` writes it; a change of an alteration's words changes it."""
    assert (DOCS / "gallery.md").read_text() == gallery.page(drawn)


def test_levels_alter_and_lie_in_the_range(gallery, drawn):
    for name, one in drawn.items():
        levels = gallery.levels(one)
        assert len(levels) == gallery.LEVELS == len({*levels}), name
        assert one.identity not in levels, name
        assert one.lower <= levels.min() and levels.max() <= one.upper, name
    # Their pictures are small.
    assert sum(path.stat().st_size for path in SHOWN.iterdir()) < 1_000_000


@pytest.mark.slow
def test_strips_are_those_that_are_drawn(gallery, drawn, tmp_path):
    """Every seventh: noise, codecs, moves and blurs among them."""
    gallery.main(tmp_path, dict([*drawn.items()][::7]))
    for path in tmp_path.iterdir():
        kept, made = (
            np.float32(Image.open(folder / path.name)) for folder in (SHOWN, tmp_path)
        )
        # Other versions of a codec round differently.
        assert np.abs(kept - made).mean() < 4, path.name


@pytest.mark.slow
def test_draws_the_pictures_that_pages_show(tmp_path):
    """All of them, and no others."""
    loaded("figures").main(tmp_path)
    drawn = {path.name for path in tmp_path.iterdir()}
    assert drawn == {path.name for path in (DOCS / "figures").glob("*.svg")}


GLOSSARY = DOCS / "glossary.md"
# What each report says of its own: the rule, the measure, the confidence level.
_OWN = re.compile(r"rule |jitter|accuracy|%")


def test_it_has_the_words_of_a_report_and_none_twice():
    words = re.findall(r"^\| ([^|]+) \|", GLOSSARY.read_text(), re.MULTILINE)
    assert len(words) == len(set(words)) > 20
    pairs = glossary(report_of([made.results()], []))
    of_report = [term for term, _ in pairs if not _OWN.search(term)]
    assert of_report
    for term in of_report:
        assert term.split(",")[0] in words[2:]


def test_the_picture_is_of_the_present_page():
    script = loaded("report_picture")
    with Image.open(script.PICTURE) as image:
        drawn_of = image.info.get(script.KEY)
    assert drawn_of == script.makers_digest(), "run python docs/report_picture.py"


EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
    "optional-dependencies"
]
READ = [
    *ROOT.glob("*.md"),
    *(
        path
        for folder in ("docs", "jaxrob", "experiments")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".md", ".py") and "_build" not in path.parts
    ),
]
# From a registry: the name itself, at the end of a word, with or without extras.
_FROM_REGISTRY = re.compile(
    r"""(?:pip|uv|pipx) (?:\w+ )*install[^\n`]*[\s"']jaxrob\b"""
)
_EXTRAS = re.compile(r"""\.(?:whl)?\[([\w,]+)\]["']""")


def test_no_page_or_message_takes_it_from_a_registry():
    # The one that warns of it.
    allowed = ROOT / "jaxrob" / "_arguments" / "texts.py"
    found = {
        f"{path.relative_to(ROOT)}: {one[0]}"
        for path in READ
        if path != allowed
        for one in _FROM_REGISTRY.finditer(path.read_text())
    }
    assert not found


def test_every_extra_that_is_named_exists_and_the_page_lists_all():
    for path in READ:
        for named in _EXTRAS.findall(path.read_text()):
            assert set(named.split(",")) <= {*EXTRAS}, path
    page = (ROOT / "docs" / "installation.md").read_text()
    assert set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)) == {*EXTRAS}
