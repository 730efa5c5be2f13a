"""The lines that install are true: the package is on no registry."""

import pathlib
import re
import tomllib

ROOT = pathlib.Path(__file__).parents[2]
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


def test_every_extra_that_is_named_exists():
    for path in READ:
        for named in _EXTRAS.findall(path.read_text()):
            assert set(named.split(",")) <= {*EXTRAS}, path


def test_the_page_lists_every_extra():
    page = (ROOT / "docs" / "installation.md").read_text()
    assert set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)) == {*EXTRAS}
