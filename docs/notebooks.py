r"""Makes notebooks of the tutorials.

    python docs/notebooks.py
    python docs/notebooks.py FOLDER

Writes one for each tutorial into the folder given, or the current one; the site offers
them for download. Outputs are left out, because the reader makes them, and so are links
to other pages, which a notebook by itself does not have.
"""

import pathlib
import re
import sys

import nbformat
from nbformat import NotebookNode, v4

FOLDER = pathlib.Path(__file__).parent
TUTORIALS = ("tutorial", "tutorial-decision")

_CODE = re.compile(
    r"^```(?P<language>python|bash)\n(?P<code>.*?)^```\n"
    r"(?:\n*(?:<!-- varies -->\n)?```text\n.*?^```\n)?",
    re.MULTILINE | re.DOTALL,
)
_PICTURE = re.compile(r"!\[(?P<words>[^]]*)\]\((?:[^)]*/)?(?P<name>[^)/]+)\)")
_LINK = re.compile(r"(?<!!)\[(?P<words>[^]]+)\]\((?!https?:)[^)]+\)")


def notebook(page: str) -> NotebookNode:
    """Returns the notebook of a page: its text and its code, in order."""
    cells, end = [], 0
    for found in _CODE.finditer(page):
        cells.append(_text(page[end : found.start()]))
        bash = "%%bash\n" if found["language"] == "bash" else ""
        cells.append(v4.new_code_cell(bash + found["code"].rstrip("\n")))
        end = found.end()
    cells.append(_text(page[end:]))
    cells = [cell for cell in cells if cell.source]
    for number, cell in enumerate(cells):
        # Random by default.
        cell["id"] = f"cell-{number}"
    made = v4.new_notebook(cells=cells)
    made.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
    return made


def write(folder: pathlib.Path) -> None:
    """Writes the notebooks of all tutorials into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in TUTORIALS:
        made = notebook((FOLDER / f"{name}.md").read_text())
        nbformat.write(made, folder / f"{name}.ipynb")


def _text(markdown: str) -> NotebookNode:
    """Returns a cell of text. Its pictures are those that the code before it saved."""
    local = _PICTURE.sub(r"![\g<words>](\g<name>)", markdown)
    return v4.new_markdown_cell(_LINK.sub(r"\g<words>", local).strip())


if __name__ == "__main__":
    write(pathlib.Path(sys.argv[1] if sys.argv[1:] else "."))
