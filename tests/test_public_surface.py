"""The names that `import jaxrob` opens, its cost, and that scripts use no others."""

import ast
import importlib
import inspect
import json
import pathlib
import re
import subprocess
import sys

import pytest

import jaxrob

ROOMS = (
    "adversarial alterations bayes data maite metrics networks reporting retraining "
    "roma steps strategies training uncertainty"
).split()
# Packages that only some rooms need, or that take long to import.
NOT_AT_ONCE = "cv2 flax matplotlib numpyro optax orbax pandas PIL sklearn".split()


def in_a_fresh_process(program):
    """Returns the JSON that the program prints."""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def public_names(module):
    own = (
        name
        for name, value in vars(module).items()
        if getattr(value, "__module__", None) == module.__name__
    )
    return getattr(module, "__all__", [name for name in own if name[0] != "_"])


@pytest.mark.slow
def test_import_alone_loads_nothing_that_only_a_room_needs():
    bare, loaded, listed, rooms = in_a_fresh_process(
        f"""
import sys, json, jaxrob
bare = sorted(sys.modules)
jaxrob.assess
loaded, listed = sorted(sys.modules), dir(jaxrob)
# One after another, each as the first one used.
rooms = {{name: getattr(jaxrob, name).__name__ for name in {ROOMS}}}
assert callable(jaxrob.reporting.table) and callable(jaxrob.training.fit)
assert jaxrob.networks.MLP().features
print(json.dumps([bare, loaded, listed, rooms]))
"""
    )
    # For example, the command's help needs neither.
    assert not {"jax", "numpy", "scipy"} & set(bare)
    assert "jaxrob.alterations" in loaded
    assert not set(NOT_AT_ONCE) & set(loaded)
    # `from jaxrob import *` and completions would load these.
    assert "jaxrob.bayes" not in loaded and "jaxrob.training" not in loaded
    assert rooms == {name: f"jaxrob.{name}" for name in ROOMS}
    assert set(listed) == {*jaxrob.__all__, "__version__"} and listed == sorted(listed)
    assert set(ROOMS) < set(listed)


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'jaxrob' has no .* 'robustness'"):
        jaxrob.robustness  # noqa: B018
    assert not hasattr(jaxrob, "_training")


@pytest.mark.parametrize("room", ["", *ROOMS])
def test_every_public_name_resolves_and_says_what_it_is(room):
    module = importlib.import_module(f"jaxrob.{room}".rstrip("."))
    assert module.__doc__
    names = public_names(module)
    assert names and len(names) == len(set(names))
    undocumented = []
    for name in names:
        value = getattr(module, name)
        described = inspect.ismodule(value) or inspect.isclass(value)
        if not (described or inspect.isroutine(value)):
            continue  # a constant, which its module's comments describe
        doc = value.__doc__ or ""
        # A dataclass without a docstring is given its signature.
        if not doc.strip() or doc.startswith(f"{name}("):
            undocumented.append(name)
    assert not undocumented


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
    # They measure an alteration's forms and RoMA's compiled steps one by one, keep
    # programs as the command does, and draw counts of images in groups and at levels.
    measuring = ("others.py", "kernels.py", "gpu_day.py", "startup.py")
    measuring += ("group_coverage.py", "domain_claims.py", "known_domains.py")
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
