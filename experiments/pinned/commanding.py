"""The command: exit statuses, printed texts, and files."""

import contextlib
import io
import json
import pathlib
import re
import runpy
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from PIL import Image

from pinned import world

_NETWORK = '''
"""A linear network of three classes."""
import numpy as np
import jaxrob

PARTS = np.load("parts.npz")


def net(images):
    return images.reshape(len(images), -1) @ PARTS["weights"] + PARTS["bias"]


def worse(images):
    return net(images) * [1, 1, -1]


def compiled():
    parts = {name: PARTS[name] for name in ("weights", "bias")}
    apply = lambda parts, images: (
        images.reshape(len(images), -1) @ parts["weights"] + parts["bias"]
    )
    return jaxrob.Classifier(apply, parts)


def fails(images):
    raise ValueError("a mistake of my own")


def fade(image, level):
    return image + level * (0.4 - image)
'''

_PLAN = """
name = "night"
date = 2026-03-02
threshold = 0.7
[[alterations]]
name = "gaussian_blur"
lower = 0.0
upper = 3.0
reason = "the lens"
"""

# Times and speeds, which differ in each run.
_TIMES = re.compile(
    r"\b(?:\d[\d.,]* ?(?:passes a second|ms|s|seconds?|minutes?|min|hours?|h)\b[ ,]*)+"
    r"|\d{4}-\d\d-\d\dT[\d:]{8}\+00:00"
)


_GIVEN = (
    "--images=pictures", "--channels=grey", "--noprogress", "--classifier=net.py:net",
)  # fmt: skip
_SMALL = (*_GIVEN, "--alterations=gaussian_blur(0,3)")
_ROMA = ("roma", *_GIVEN, "--num_samples=30", "--estimator=count", "--epsilon=0.3")
_WORSE = "--classifier=net.py:worse"
_THREE = ("--levels=3", "--threshold=0.6")
_FIVE = ("--levels=5", "--threshold=0.6")
_ASSESS = ("assess", *_SMALL)
_WRONG = (
    ["--levels=1"], ["--levels=many"], ["--alterations=blurr"],
    ["--alterations=zoom(3,1)"], ["--alterations=rotation(0,9,fill=none)"],
    ["--images=nowhere"], ["--classifier=net.py:nothing"], ["--treshold=0.5"],
    ["--classifier=net.py:fails"], ["--threshold=2"], ["--require=plr>=0.5"],
    ["--half_width=0.1", "--measure=f1"], ["--regressions=nowhere"], ["more"],
    ["--channels=rgb"],
)  # fmt: skip


def _kinds_of_networks_and_alterations() -> Any:
    _prepare()
    return [
        _run(
            "assess", *_GIVEN, *_THREE, "--classifier=net.py:compiled",
            "--alterations=net.py:fade(0,1)",
            "--alterations=rotation(-20,20,fill=crop)",
        ),
        _run(*_ASSESS, *_THREE, "--scale=2", "--mean=0.1", "--output=other"),
        _run(*_ASSESS, "--labels=none", *_THREE, "--output=stable"),
        _run("assess", *_GIVEN, "--plan=plan.toml", "--output=planned"),
        _run(*_ASSESS, "--alpha=0.5", "--measure=effectiveness",
                "--levels=3", "--threshold=0.4", "--output=unknown"),
        _files("results", "other", "stable", "planned", "unknown"),
    ]  # fmt: skip


def _help_and_refusals() -> Any:
    _prepare()
    names = ("assess", "roma", "compare", "report", "alterations")
    return {
        "help": [_run("--help"), *(_run(name, "--help") for name in names)],
        "nothing": _run(),
        "unknown": _run("asses"),
        "wrong": {" ".join(one): _run(*_ASSESS, *one) for one in _WRONG},
        "interrupted": _run(*_ASSESS, "--alterations=gaussian_blur(0"),
    }


def _in_turn(*steps: Any) -> Callable[[], Any]:
    """A case of commands, and of what they write, in turn."""

    def case() -> Any:
        _prepare()
        return [step() if callable(step) else _run(*step) for step in steps]

    return case


def _prepare() -> None:
    """A network in a file, and pictures in the folders of their classes."""
    pathlib.Path("net.py").write_text(_NETWORK)
    pathlib.Path("plan.toml").write_text(_PLAN)
    np.savez("parts.npz", **world.variables())
    for number, (image, label) in enumerate(zip(world.GREY[:24], world.LABELS)):
        path = pathlib.Path("pictures", world.NAMES[label], f"{number:02}.png")
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.uint8(255 * image[..., 0])).save(path)


def _run(*arguments: str) -> dict[str, Any]:
    """The command's status and output, run as `python -m jaxrob`."""
    out, err = io.StringIO(), io.StringIO()
    before = sys.argv, list(sys.path)
    sys.argv = ["jaxrob", *arguments]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            runpy.run_module("jaxrob", run_name="__main__")
        status: Any = 0
    except SystemExit as error:
        status = error.code
    finally:
        sys.argv, sys.path[:] = before
    said = {"out": out.getvalue(), "err": _without_frames(err.getvalue())}
    return {
        "command": " ".join(arguments),
        "status": status,
        **{name: _timeless(text) for name, text in said.items()},
    }


def _timeless(text: str) -> str:
    """Removes times from a text, including a table's column of seconds."""
    lines, column = [], slice(0, 0)
    for line in text.splitlines():
        if "seconds" in line and "robustness" in line:
            column = slice(line.index("seconds") - 1, line.index("seconds") + 7)
        if re.fullmatch(r" *\d+\.\d", line[column]):
            line = f"{line[: column.start]}     ...{line[column.stop :]}"
        lines.append(_TIMES.sub("(time) ", line))
    return "\n".join(lines)


def _without_frames(text: str) -> str:
    """Reduces tracebacks to the last error: frames are not meant for users."""
    *before, last = text.split("Traceback (most recent call last):\n")
    if not before:
        return last
    return "\n".join(line for line in last.splitlines() if line[:2] != "  ")


def _files(*folders: str) -> Any:
    """Returns the content of folders: the names, and the documents."""
    found: dict[str, Any] = {}
    for folder in folders:
        for path in sorted(pathlib.Path(folder).rglob("*")):
            if path.suffix == ".json":
                found[str(path)] = document = json.loads(path.read_text())
                if "runs" in document:  # Of these it covers when they began.
                    del document["digest"]
            elif path.is_file():
                found[str(path)] = "a file"
    return found


def _read(path: str) -> str:
    return _timeless(pathlib.Path(path).read_text())


CASES = {
    # Given levels and ASAP's levels, a report, a gate, a journal.
    "commanding.assess": _in_turn(
        (*_ASSESS, "--levels=3", "--report=report.md"),
        (*_ASSESS, "--output=asap", "--journal=journal"),
        (*_ASSESS, "--output=again", "--journal=journal"),
        (*_ASSESS, "--levels=3", "--require=robustness>=0.99"),
        (*_ASSESS, "--levels=5", "--output=finer"),
        partial(_files, "results", "asap", "again"),
        partial(_read, "report.md"),
    ),
    "commanding.kinds_of_networks_and_alterations": _kinds_of_networks_and_alterations,
    "commanding.few_images": _in_turn(
        (*_ASSESS, "--half_width=0.2", "--batch_size=8"),
        (*_ASSESS, "--curtail", "--output=all"),
        (*_ASSESS, "--budget=2", "--output=none"),
        partial(_files, "results", "all"),
    ),
    "commanding.dry_run": _in_turn(
        (*_ASSESS, "--dry_run", "--levels=3"),
        (*_ASSESS, "--dry_run", "--half_width=0.2"),
        ("roma", *_GIVEN, "--dry_run", "--num_samples=20"),
    ),
    "commanding.roma": _in_turn(
        _ROMA,
        (*_ROMA, "--require=plr>=0.999", "--report=roma.md", "--output=gate"),
        partial(_files, "results", "gate"),
        partial(_read, "roma.md"),
    ),
    "commanding.compare": _in_turn(
        (*_ASSESS, *_FIVE, "--output=old"),
        (*_ASSESS, *_FIVE, _WORSE, "--output=new"),
        ("compare", "old", "new", "--report=compared.md"),
        ("compare", "new", "old"),
        ("compare", "old", "old"),
        ("compare", "old", "nowhere"),
        (*_ASSESS, *_FIVE, _WORSE, "--regressions=old", "--output=gate"),
        partial(_read, "compared.md"),
    ),
    "commanding.report": _in_turn(
        (*_ASSESS, "--levels=3"),
        ("report", "results", "--report=one.md", "--report=one.html"),
        ("report", "results", "nowhere"),
        partial(_read, "one.md"),
        partial(_read, "one.html"),
    ),
    "commanding.alterations": _in_turn(("alterations",)),
    "commanding.help_and_refusals": _help_and_refusals,
}
