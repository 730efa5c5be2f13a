"""Scripts use what is public; `lint-imports` checks imports within the package."""

import ast
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[1]
SCRIPTS = sorted((ROOT / "experiments").rglob("*.py"))


def dotted(node):
    """Returns the text of an attribute of a name, as `a.b.c`, or None."""
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not parts or not isinstance(node, ast.Name):
        return None
    return ".".join([node.id, *reversed(parts)])


def private_parts(source):
    """Returns a script's uses of private parts of the library, with their lines."""
    tree = ast.parse(source)
    found, names = [], {"jaxrob"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            taken = [(alias.name, alias.asname) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            taken = [
                (f"{node.module}.{alias.name}", alias.asname or alias.name)
                for alias in node.names
            ]
        else:
            continue
        for path, name in taken:
            if path.split(".")[0] == "jaxrob":
                names.add(name)
                found.append((node.lineno, path))
    for node in ast.walk(tree):
        path = dotted(node)
        if path is not None and path.split(".")[0] in names:
            found.append((node.lineno, path))
    return [
        f"line {line}: {path}"
        for line, path in sorted(found)
        if any(part[0] == "_" and part[:2] != "__" for part in path.split("."))
    ]


@pytest.mark.slow
def test_scripts_use_what_is_public():
    texts = {str(script): script.read_text() for script in SCRIPTS}
    # The others have no private name: parsing takes long.
    doubtful = [
        name for name in texts if re.search(r"(\.|[,(]|\bimport)\s*_[a-z]", texts[name])
    ]
    found = {name: private_parts(texts[name]) for name in doubtful}
    private = {name for name, parts in found.items() if parts}
    # They measure an alteration's forms and RoMA's compiled steps one by one.
    measuring = ("others.py", "kernels.py", "gpu_day.py")
    assert texts and {name for name in private if not name.endswith(measuring)} == set()


def test_what_a_script_may_not_use_is_named():
    source = """import jaxrob, jaxrob._devices.mesh as mesh
from jaxrob.roma import _draws, assess
from jaxrob._engine.journal import Journal
from jaxrob import training
print(jaxrob.__version__, training.fit, self._journal, jaxrob._curve.Curve)
training._step(assess)
"""
    assert private_parts(source) == [
        "line 1: jaxrob._devices.mesh",
        "line 2: jaxrob.roma._draws",
        "line 3: jaxrob._engine.journal.Journal",
        "line 5: jaxrob._curve",
        "line 5: jaxrob._curve.Curve",
        "line 6: training._step",
    ]
