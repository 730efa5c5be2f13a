"""Each tutorial is a notebook, too."""

import importlib.util
import pathlib

import pytest

FOLDER = pathlib.Path(__file__).parents[2] / "docs"
nbformat = pytest.importorskip("nbformat")


def _script(name):
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


notebooks, pages = _script("notebooks"), _script("pages")


@pytest.fixture(params=notebooks.TUTORIALS)
def page(request):
    return (FOLDER / f"{request.param}.md").read_text()


def test_it_has_the_code_of_the_page_which_is_run(page):
    """`test_pages.py` runs the page's blocks and checks what they print."""
    made = notebooks.notebook(page)
    nbformat.validate(made)
    code = [cell.source for cell in made.cells if cell.cell_type == "code"]
    assert code == [block.code.rstrip("\n") for block in pages.blocks(page)]
    assert made == notebooks.notebook(page)


def test_it_has_the_text_without_outputs_and_links_to_nowhere(page):
    made = notebooks.notebook(page)
    text = "\n".join(cell.source for cell in made.cells if cell.cell_type != "code")
    assert "## Where to go from here" in text
    assert "```text" not in text and "```python" not in text
    assert ".md)" not in text and "](figures/" not in text
