"""Small faults in `jaxrob/`, which the tests should detect.

    python tests/mutants.py draw --seed=35 --number=40
    python tests/mutants.py apply --seed=35 --number=40 7

`draw` picks faults of five kinds over all rooms: a number off by one, a changed sign,
`>` for `>=` and the like, a dropped key (of a call, a dict or a random number), and a
swapped axis. `apply` draws the same ones from the same code, and writes one into its
file; git undoes it.

A fault survives if no test runs its line, or if it has no visible effect.
"""

import argparse
import ast
import json
import pathlib
import random
from collections.abc import Iterator
from typing import NamedTuple

ROOT = pathlib.Path(__file__).parents[1]

COMPARISONS = {
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
}
SIGNS = {ast.Add: ("+", "-"), ast.Sub: ("-", "+")}


class Mutant(NamedTuple):
    """A fault: the lines from `line` on, before and after."""

    kind: str
    path: str
    line: int
    before: str
    after: str


def candidates(path: pathlib.Path) -> Iterator[Mutant]:
    """Yields all faults of a file, in functions only: other lines run at the import."""
    source = path.read_text()
    lines = source.splitlines(keepends=True)
    name = str(path.relative_to(ROOT))
    for node in _nodes_in_functions(ast.parse(source)):
        for kind, first, last, text in _edits(source, node):
            start, begin = _position(lines, *first)
            end, stop = _position(lines, *last)
            before = "".join(lines[start - 1 : end])
            head, tail = lines[start - 1][:begin], lines[end - 1][stop:]
            after = head + text + tail
            if after != before:
                yield Mutant(kind, name, start, before, after)


def draw(seed: int, number: int) -> list[Mutant]:
    """Draws equally many faults of each kind, and at least one from each room."""
    rng = random.Random(seed)
    found: dict[str, dict[str, list[Mutant]]] = {}
    for path in sorted((ROOT / "jaxrob").rglob("*.py")):
        for mutant in candidates(path):
            rooms = found.setdefault(mutant.kind, {})
            rooms.setdefault(_room(mutant.path), []).append(mutant)
    drawn: list[Mutant] = []
    seen: set[str] = set()
    kinds = sorted(found)
    while len(drawn) < number:
        rooms = found[kinds[len(drawn) % len(kinds)]]
        # Each room once, then by size.
        weights = {room: len(those) for room, those in rooms.items()}
        first = {room: 1 for room in rooms if room not in seen}
        (room,) = rng.choices(*zip(*(first or weights).items()))
        drawn.append(rooms[room].pop(rng.randrange(len(rooms[room]))))
        seen.add(room)
    return drawn


def apply(mutant: Mutant, root: pathlib.Path = ROOT) -> None:
    """Writes the fault into the file from which it was drawn."""
    path = root / mutant.path
    lines = path.read_text().splitlines(keepends=True)
    length = mutant.before.count("\n")
    lines[mutant.line - 1 : mutant.line - 1 + length] = [mutant.after]
    path.write_text("".join(lines))


def _room(path: str) -> str:
    return path.split("/")[1]


def _nodes_in_functions(tree: ast.AST) -> Iterator[ast.AST]:
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            for statement in function.body:
                if not isinstance(statement, ast.FunctionDef | ast.Raise):
                    yield from _walk(statement)


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    """Yields all nodes except messages, annotations and nested functions."""
    yield node
    for child in ast.iter_child_nodes(node):
        skipped = ast.FunctionDef | ast.JoinedStr | ast.Raise
        if not isinstance(child, skipped) and child is not getattr(
            node, "annotation", None
        ):
            yield from _walk(child)


def _edits(source: str, node: ast.AST):
    """Yields the kind, the ends of the replaced text, and its replacement."""
    match node:
        case ast.Constant(value=bool() | str()):
            return
        case ast.Constant(value=int(value)):
            yield "off by one", *_ends(node), str(value + 1)
        case ast.BinOp(left, operator, right) if type(operator) in SIGNS:
            yield _operator("sign", source, left, right, SIGNS[type(operator)])
        case ast.UnaryOp(ast.USub(), operand):
            yield "sign", *_ends(node), _text(source, operand)
        case ast.Compare(left, [operator], [right]) if type(operator) in COMPARISONS:
            change = COMPARISONS[type(operator)]
            yield _operator("comparison", source, left, right, change)
        case ast.Dict(keys, values):
            for i in range(1, len(keys)):
                if keys[i] is not None:
                    yield "key", _ends(values[i - 1])[1], _ends(values[i])[1], ""
        case ast.Call():
            yield from _edits_of_call(source, node)


def _edits_of_call(source: str, node: ast.Call):
    name = _text(source, node.func)
    for keyword in node.keywords:
        value = keyword.value
        if keyword.arg == "axis" and isinstance(value, ast.Constant | ast.UnaryOp):
            other = "0" if _text(source, value) != "0" else "-1"
            yield "axis", *_ends(value), other
        elif keyword.arg == "in_axes" and isinstance(value, ast.Tuple):
            parts = [_text(source, element) for element in reversed(value.elts)]
            yield "axis", *_ends(value), f"({', '.join(parts)})"
    if name.endswith("fold_in") and len(node.args) == 2:
        yield "key", *_ends(node), _text(source, node.args[0])
    else:
        given = [*node.args, *node.keywords]
        for before, after in zip(given, given[1:]):
            if isinstance(after, ast.keyword) and after.arg is not None:
                yield "key", _ends(before)[1], _ends(after)[1], ""
    if name.endswith(("moveaxis", "swapaxes", "transpose")) and len(node.args) > 1:
        one, other = node.args[-2:]
        swapped = f"{_text(source, other)}, {_text(source, one)}"
        yield "axis", _ends(one)[0], _ends(other)[1], swapped


def _operator(kind: str, source: str, left: ast.expr, right: ast.expr, change):
    """Replaces the operator between two operands, whose position the tree lacks."""
    first, last = _ends(left)[1], _ends(right)[0]
    lines = source.splitlines(keepends=True)
    (start, begin), (end, stop) = _position(lines, *first), _position(lines, *last)
    between = lines[start - 1 : end]
    between[-1] = between[-1][:stop]
    text = "".join(between)[begin:]
    return kind, first, last, text.replace(*change, 1)


def _ends(node):
    return (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)


def _text(source: str, node: ast.AST) -> str:
    return ast.get_source_segment(source, node) or ""


def _position(lines: list[str], line: int, column: int) -> tuple[int, int]:
    """Converts a column from bytes, as the tree counts, to characters."""
    return line, len(lines[line - 1].encode()[:column].decode())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True, dest="command")
    for name in ("draw", "apply"):
        command = commands.add_parser(name)
        command.add_argument("--seed", type=int, required=True)
        command.add_argument("--number", type=int, required=True)
    commands.choices["apply"].add_argument("index", type=int)
    given = parser.parse_args()
    mutants = draw(given.seed, given.number)
    if given.command == "draw":
        print(json.dumps([one._asdict() for one in mutants], indent=1))
    else:
        apply(mutants[given.index])


if __name__ == "__main__":
    main()
