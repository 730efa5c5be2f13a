r"""Runs the Python and Bash on the site's pages, in order, as a reader would.

    python docs/pages.py
    python docs/pages.py docs/tutorial.md README.md

What a block prints is written under it, into the fenced block of text that follows it
on the page. A picture that a page saves and also shows is copied to where the page
shows it from. `tests/docs/test_pages.py` runs the same pages and compares what they
print with what they show.
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
# Above an output that is another one at every run, because seconds are in it say.
VARIES = "<!-- varies -->"

_BLOCK = re.compile(
    r"^```(?P<language>python|bash)\n(?P<code>.*?)^```\n"
    rf"(?:\n*(?P<varies>{VARIES}\n)?```text\n(?P<output>.*?)^```\n)?",
    re.MULTILINE | re.DOTALL,
)
# The command of the Python that runs the pages, in scripts that they run too.
_COMMAND = (
    f'jaxrob() {{ {shlex.quote(sys.executable)} -m jaxrob "$@"; }}\nexport -f jaxrob\n'
)
_PICTURE = re.compile(r"!\[[^]]*\]\((?P<path>[^)]+)\)")


class Block(NamedTuple):
    """A block of Python or Bash on a page.

    Attributes:
      language: "python" or "bash".
      code: the code.
      line: the line of the page that it begins on, from 1.
      output: what the page says that it prints; None if the page does not say.
      varies: whether all but the first line of the output may be another one at every
        run or on another machine.
    """

    language: str
    code: str
    line: int
    output: str | None
    varies: bool


def pages() -> list[pathlib.Path]:
    """The pages of the site and at the top level."""
    top = FOLDER.parent
    return [*sorted(top.glob("*.md")), *sorted(FOLDER.rglob("*.md"))]


def blocks(text: str) -> list[Block]:
    """The blocks of Python and Bash on a page, in order."""
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
      folder: the working directory meanwhile, where the page's files land.

    Returns:
      What each block printed.
    """
    # Before anything imports matplotlib: there may be no screen.
    os.environ.setdefault("MPLBACKEND", "agg")
    namespace = {"__name__": "__main__"}
    printed = []
    with contextlib.chdir(folder):
        for block in blocks(page.read_text()):
            if block.language == "bash":
                printed.append(_in_a_shell(block.code))
                continue
            # So that a traceback points at the page's own lines.
            lines = "\n" * (block.line - 1) + block.code
            with contextlib.redirect_stdout(io.StringIO()) as output:
                exec(compile(lines, str(page), "exec"), namespace)  # noqa: S102
            printed.append(output.getvalue())
    return printed


def _in_a_shell(code: str) -> str:
    """What a block of Bash prints, errors among it."""
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
    """The pictures that a page shows."""
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
