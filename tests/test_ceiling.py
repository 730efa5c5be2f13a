"""The size of each room, which may only fall.

    python tests/test_ceiling.py    # writes the numbers of today into ceiling.json

A room may not grow, and one that shrank by more than 2 % gets its new number. A change
that adds what users can do raises a number by hand, and says so.
"""

import ast
import collections
import json
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).parents[1]
TABLE = ROOT / "tests" / "ceiling.json"
SLACK = 0.02
_TEXT = {".py", ".jinja", ".css", ".toml", ".json", ".txt", ".sh", ".md", ".cff"}


def sizes():
    """Code and docstring lines and characters by room; words of pages."""
    found = collections.defaultdict(collections.Counter)
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.check_output(command, cwd=ROOT, text=True).splitlines()
    for name in names:
        path = ROOT / name
        if path == TABLE or path.suffix not in _TEXT or not path.is_file():
            continue
        top, *rest = pathlib.PurePath(name).parts
        text = path.read_text("utf-8")
        if path.suffix == ".md":
            if "reports" not in rest:
                found["docs" if rest else "root pages"]["words"] += len(text.split())
            continue
        if top not in ("jaxrob", "tests", "experiments"):
            continue
        room = found[f"{top}/{rest[0]}" if top == "jaxrob" else top]
        room["characters"] += len(text)
        if path.suffix == ".py":
            docstrings = docstring_lines(text)
            room["docstrings"] += docstrings
            lines = sum(1 for line in text.splitlines() if line.strip())
            room["code"] += lines - docstrings
    return found


def docstring_lines(text):
    # Statements alone: expressions hold no docstrings, and are most of a tree.
    number, nodes = 0, [ast.parse(text)]
    for node in nodes:
        children = ast.iter_child_nodes(node)
        nodes += [one for one in children if isinstance(one, ast.stmt)]
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            found = ast.get_docstring(node, clean=False) or ""
            number += sum(1 for line in found.splitlines() if line.strip())
    return number


def test_no_room_grows_and_the_numbers_follow():
    kept = json.loads(TABLE.read_text())
    found = {room: dict(numbers) for room, numbers in sizes().items()}
    assert found.keys() == kept.keys()
    for room, numbers in found.items():
        for what, now in numbers.items():
            ceiling = kept[room][what]
            said = f"{room}: {now:,} {what}, of {ceiling:,}"
            assert now <= ceiling, f"{said}: it grew"
            small = now < (1 - SLACK) * ceiling - 5
            assert not small, f"{said}: run python {pathlib.Path(__file__).name}"


if __name__ == "__main__":
    numbers = {room: dict(sorted(one.items())) for room, one in sizes().items()}
    lines = (f'"{room}": {json.dumps(numbers[room])}' for room in sorted(numbers))
    TABLE.write_text("{\n" + ",\n".join(lines) + "\n}\n")
