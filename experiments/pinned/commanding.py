"""The command: exit statuses, printed texts, and files."""

import contextlib
import io
import json
import pathlib
import re
import runpy
import sys
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
)


def assess() -> Any:
    """Given levels and ASAP's levels, a report, a gate, a journal."""
    _prepare()
    return [
        _run("assess", *_SMALL, "--levels=3", "--report=report.md"),
        _run("assess", *_SMALL, "--output=asap", "--journal=journal"),
        _run("assess", *_SMALL, "--output=again", "--journal=journal"),
        _run("assess", *_SMALL, "--levels=3", "--require=robustness>=0.99"),
        _run("assess", *_SMALL, "--levels=5", "--output=finer"),
        _files("results", "asap", "again"),
        _read("report.md"),
    ]


def kinds_of_networks_and_alterations() -> Any:
    _prepare()
    few = ("--levels=3", "--threshold=0.6")
    return [
        _run(
            "assess", *_GIVEN, *few, "--classifier=net.py:compiled",
            "--alterations=net.py:fade(0,1)",
            "--alterations=rotation(-20,20,fill=crop)",
        ),
        _run("assess", *_SMALL, *few, "--scale=2", "--mean=0.1", "--output=other"),
        _run("assess", *_SMALL, "--labels=none", *few, "--output=stable"),
        _run("assess", *_SMALL[:-1], "--plan=plan.toml", "--output=planned"),
        _run("assess", *_SMALL, "--alpha=0.5", "--measure=effectiveness",
             "--levels=3", "--threshold=0.4", "--output=unknown"),
        _files("results", "other", "stable", "planned", "unknown"),
    ]  # fmt: skip


def few_images() -> Any:
    _prepare()
    return [
        _run("assess", *_SMALL, "--half_width=0.2", "--batch_size=8"),
        _run("assess", *_SMALL, "--curtail", "--output=all"),
        _run("assess", *_SMALL, "--budget=2", "--output=none"),
        _files("results", "all"),
    ]


def dry_run() -> Any:
    _prepare()
    return [
        _run("assess", *_SMALL, "--dry_run", "--levels=3"),
        _run("assess", *_SMALL, "--dry_run", "--half_width=0.2"),
        _run("roma", *_GIVEN, "--dry_run", "--num_samples=20"),
    ]


def roma() -> Any:
    _prepare()
    return [
        _run("roma", *_GIVEN, "--num_samples=30", "--estimator=count", "--epsilon=0.3"),
        _run("roma", *_GIVEN, "--num_samples=30", "--estimator=count", "--epsilon=0.3",
             "--require=plr>=0.999", "--report=roma.md", "--output=gate"),
        _files("results", "gate"),
        _read("roma.md"),
    ]  # fmt: skip


def compare() -> Any:
    _prepare()
    few = "--levels=5", "--threshold=0.6"
    worse = "--classifier=net.py:worse"
    return [
        _run("assess", *_SMALL, *few, "--output=old"),
        _run("assess", *_SMALL, *few, worse, "--output=new"),
        _run("compare", "old", "new", "--report=compared.md"),
        _run("compare", "new", "old"),
        _run("compare", "old", "old"),
        _run("compare", "old", "nowhere"),
        _run("assess", *_SMALL, *few, worse, "--regressions=old", "--output=gate"),
        _read("compared.md"),
    ]


def report() -> Any:
    _prepare()
    return [
        _run("assess", *_SMALL, "--levels=3"),
        _run("report", "results", "--report=one.md", "--report=one.html"),
        _run("report", "results", "nowhere"),
        _read("one.md"),
        _read("one.html"),
    ]


def alterations() -> Any:
    return [_run("alterations")]


def help_and_refusals() -> Any:
    _prepare()
    wrong = (
        ["--levels=1"], ["--levels=many"], ["--alterations=blurr"],
        ["--alterations=zoom(3,1)"], ["--alterations=rotation(0,9,fill=none)"],
        ["--images=nowhere"], ["--classifier=net.py:nothing"], ["--treshold=0.5"],
        ["--classifier=net.py:fails"], ["--threshold=2"], ["--require=plr>=0.5"],
        ["--half_width=0.1", "--measure=f1"], ["--regressions=nowhere"], ["more"],
        ["--channels=rgb"],
    )  # fmt: skip
    return {
        "help": [
            _run("--help"),
            *(
                _run(name, "--help")
                for name in ("assess", "roma", "compare", "report", "alterations")
            ),
        ],
        "nothing": _run(),
        "unknown": _run("asses"),
        "wrong": {" ".join(one): _run("assess", *_SMALL, *one) for one in wrong},
        "interrupted": _run("assess", *_SMALL, "--alterations=gaussian_blur(0"),
    }


_GIVEN = (
    "--images=pictures",
    "--channels=grey",
    "--noprogress",
    "--classifier=net.py:net",
)
_SMALL = (*_GIVEN, "--alterations=gaussian_blur(0,3)")


def _prepare() -> None:
    """A network in a file, and pictures in the folders of their classes."""
    pathlib.Path("net.py").write_text(_NETWORK)
    pathlib.Path("plan.toml").write_text(_PLAN)
    np.savez("parts.npz", **world.variables())
    for number, (image, label) in enumerate(zip(world.grey()[:24], world.labels())):
        path = pathlib.Path("pictures", world.NAMES[label], f"{number:02}.png")
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.uint8(255 * image[..., 0])).save(path)


def _run(*arguments: str) -> dict[str, Any]:
    """Runs the command as `python -m jaxrob`; returns its status and output."""
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
                found[str(path)] = json.loads(path.read_text())
            elif path.is_file():
                found[str(path)] = "a file"
    return found


def _read(path: str) -> str:
    return _timeless(pathlib.Path(path).read_text())
