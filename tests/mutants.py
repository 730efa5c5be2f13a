"""Puts 40 small faults into `jaxrob/`, one at a time, which the tests should detect.

    pip install pytest-cov
    python -m pytest --all --cov=jaxrob --cov-context=test      # writes .coverage
    python tests/mutants.py SEED .coverage

The faults: a number off by one, another sign or comparison, a dropped key (of a call, a
dict or a random number), another axis. The tests that reach a fault's line run until
one fails, then those of its room (a program is traced in one test and shared by
others), three minutes at most. A fault may survive because it changes nothing.
"""

import ast
import pathlib
import random
import subprocess
import sys

ROOT = pathlib.Path(__file__).parents[1]
KINDS = ("number", "sign", "comparison", "key", "axis")
OTHER = {ast.Add: ast.Sub(), ast.Sub: ast.Add(), ast.Gt: ast.GtE(), ast.GtE: ast.Gt()}
OTHER |= {ast.Lt: ast.LtE(), ast.LtE: ast.Lt()}
OTHER |= {ast.Eq: ast.NotEq(), ast.NotEq: ast.Eq()}
FIRST = ast.parse("lambda key, index: key", mode="eval").body
SKIPPED = ast.FunctionDef | ast.ClassDef | ast.Raise | ast.JoinedStr | ast.AnnAssign


def faults(tree):
    """Yields the kind of each fault, its node, and the fields that it changes."""
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    nodes = [statement for function in functions for statement in function.body]
    for node in nodes:
        if isinstance(node, SKIPPED):
            continue
        nodes += ast.iter_child_nodes(node)
        match node:
            case ast.Constant(value=int(number)) if not isinstance(number, bool):
                yield "number", node, {"value": number + 1}
            case ast.BinOp(op=ast.Add() | ast.Sub() as operator):
                yield "sign", node, {"op": OTHER[type(operator)]}
            case ast.Compare(ops=[operator]) if type(operator) in OTHER:
                yield "comparison", node, {"ops": [OTHER[type(operator)]]}
            case ast.Call(func=ast.Attribute(attr="fold_in")):
                yield "key", node, {"func": FIRST}
            case ast.Call(keywords=[*given, ast.keyword(arg=str())]):
                yield "key", node, {"keywords": given}
            case ast.Dict(keys=[*keys, ast.expr()], values=[*values, _]):
                yield "key", node, {"keys": keys, "values": values}
            case ast.keyword(arg="axis", value=axis):
                other = ast.Constant(-1 if ast.unparse(axis) == "0" else 0)
                yield "axis", node, {"value": other}


def draw(seed, number=40):
    """Returns files and the faults' numbers in them: of each room one, then any."""
    places = {}
    for path in sorted((ROOT / "jaxrob").rglob("*.py")):
        room = path.relative_to(ROOT / "jaxrob").parts[0]
        for index, (kind, _, _) in enumerate(faults(ast.parse(path.read_text()))):
            places.setdefault(room, {}).setdefault(kind, []).append((path, index))
    rng = random.Random(seed)
    rooms = rng.sample(sorted(places), len(places))
    rooms += rng.choices(rooms, k=max(0, number - len(rooms)))
    for turn, room in enumerate(rooms[:number]):
        kind = KINDS[turn % len(KINDS)]
        kind = kind if kind in places[room] else rng.choice(sorted(places[room]))
        yield rng.choice(places[room][kind])


def detected(path, index, contexts, seconds=180):
    """Returns the fault in words, and what the tests that reach it say last."""
    source = path.read_text()
    tree = ast.parse(source)
    kind, node, fields = list(faults(tree))[index]
    lines = range(node.lineno, node.end_lineno + 1)
    reaching = {name for line in lines for name in contexts.get(line, ()) if name}
    tests = {name.rsplit("|", 1)[0] for name in reaching}
    words = f"{path.relative_to(ROOT)}:{node.lineno} {kind}, {len(tests)} tests"
    if not tests:
        return words, "survives"
    for name, value in fields.items():
        setattr(node, name, value)
    room = path.relative_to(ROOT / "jaxrob").parts[0].strip("_").removesuffix(".py")
    chosen = ROOT / ".pytest_cache" / "reaching.txt"
    first = sorted(tests, key=lambda test: (room not in test, test))
    last = [f"tests/{room}"] * (ROOT / "tests" / room).exists()
    chosen.write_text("\n".join(first + last))
    command = [sys.executable, "-m", "pytest", "-n0", "-xq", "--all", f"@{chosen}"]
    try:
        path.write_text(ast.unparse(ast.fix_missing_locations(tree)))
        done = subprocess.run(
            command, cwd=ROOT, timeout=seconds, capture_output=True, text=True
        )
        return words, (done.stdout or done.stderr).strip().splitlines()[-1]
    except subprocess.TimeoutExpired:
        return words, "survives: time is over"
    finally:
        path.write_text(source)


if __name__ == "__main__":
    import coverage

    data = coverage.CoverageData(sys.argv[2])
    data.read()
    for path, index in draw(int(sys.argv[1])):
        print(*detected(path, index, data.contexts_by_lineno(str(path))), sep=": ")
