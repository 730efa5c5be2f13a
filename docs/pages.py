r"""Runs the Python and Bash on the site's pages, in order, as a reader would.

    python docs/pages.py
    python docs/pages.py docs/tutorial.md README.md

The output of a block is written under it, into the fenced block of text that follows it
on the page. A picture that a page both saves and shows is copied to the path that the
page shows. `tests/docs/test_pages.py` runs the same pages and compares their output
with the page.
"""

import contextlib
import io
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from typing import NamedTuple

FOLDER = pathlib.Path(__file__).parent
# Marks an output that differs in every run, for example because of seconds.
VARIES = "<!-- varies -->"

_BLOCK = re.compile(
    r"^```(?P<language>python|bash)\n(?P<code>.*?)^```\n"
    rf"(?:\n*(?P<varies>{VARIES}\n)?```text\n(?P<output>.*?)^```\n)?",
    re.MULTILINE | re.DOTALL,
)
# The Python that runs the pages and its command, for use in scripts too.
_COMMAND = (
    f'python() {{ {shlex.quote(sys.executable)} "$@"; }}\n'
    'jaxrob() { python -m jaxrob "$@"; }\nexport -f python jaxrob\n'
)
_PICTURE = re.compile(r"!\[[^]]*\]\((?P<path>[^)]+)\)")


class Block(NamedTuple):
    """A block of Python or Bash on a page.

    Attributes:
      language: "python" or "bash".
      code: the code.
      line: the line of the page that it begins on, from 1.
      output: its output according to the page; None if the page shows no output.
      varies: whether all but the first line of the output may differ in each run or on
        another machine.
    """

    language: str
    code: str
    line: int
    output: str | None
    varies: bool


def pages() -> list[pathlib.Path]:
    """Returns the pages of the site and at the top level."""
    top = FOLDER.parent
    return [*sorted(top.glob("*.md")), *sorted(FOLDER.rglob("*.md"))]


def blocks(text: str) -> list[Block]:
    """Returns the blocks of Python and Bash on a page, in order."""
    return [
        Block(
            found["language"],
            found["code"],
            text.count("\n", 0, found.start()) + 2,
            found["output"],
            found["varies"] is not None,
        )
        for found in _BLOCK.finditer(text)
    ]


def run(page: pathlib.Path, folder: str | os.PathLike[str]) -> list[str]:
    """Runs a page's blocks: Python in one namespace, Bash in a shell each.

    Args:
      page: the page.
      folder: the working directory during the run, for the page's files.

    Returns:
      The output of each block.
    """
    # Set before matplotlib is imported: there may be no screen.
    os.environ.setdefault("MPLBACKEND", "agg")
    namespace = {"__name__": "__main__"}
    printed = []
    with contextlib.chdir(folder):
        for block in blocks(page.read_text()):
            if block.language == "bash":
                printed.append(_in_a_shell(block.code))
                continue
            # Keeps the page's line numbers in tracebacks.
            lines = "\n" * (block.line - 1) + block.code
            with contextlib.redirect_stdout(io.StringIO()) as output:
                exec(compile(lines, str(page), "exec"), namespace)  # noqa: S102
            printed.append(output.getvalue())
    return printed


def _in_a_shell(code: str) -> str:
    """Returns the output of a block of Bash, including errors."""
    done = subprocess.run(
        ["bash", "-c", _COMMAND + code],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(f"status {done.returncode}: {code}\n{done.stdout}")
    return done.stdout


def pictures(page: pathlib.Path) -> list[pathlib.Path]:
    """Returns the pictures that a page shows."""
    shown = _PICTURE.finditer(page.read_text())
    return [page.parent / found["path"] for found in shown]


def _write(page: pathlib.Path) -> None:
    """Runs a page and writes its outputs and pictures into the site."""
    with tempfile.TemporaryDirectory() as folder:
        printed = iter(run(page, folder))
        for picture in pictures(page):
            made = pathlib.Path(folder, picture.name)
            if made.exists():
                picture.parent.mkdir(exist_ok=True)
                shutil.copy(made, picture)

    def with_output(found: re.Match) -> str:
        output = next(printed)
        if found["output"] is None:
            return found[0]
        start, end = (at - found.start() for at in found.span("output"))
        return found[0][:start] + output + found[0][end:]

    page.write_text(_BLOCK.sub(with_output, page.read_text()))


if __name__ == "__main__":
    for chosen in map(pathlib.Path, sys.argv[1:]) if sys.argv[1:] else pages():
        if blocks(chosen.read_text()):
            print(chosen, flush=True)
            _write(chosen.absolute())
