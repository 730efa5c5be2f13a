"""README's picture is of the report as it is."""

import importlib.util
import pathlib

from PIL import Image

_SCRIPT = pathlib.Path(__file__).parents[2] / "docs" / "report_picture.py"


def test_the_picture_is_of_the_present_page():
    spec = importlib.util.spec_from_file_location("report_picture", _SCRIPT)
    assert spec is not None and spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    with Image.open(script.PICTURE) as image:
        drawn_of = image.info.get(script.KEY)
    assert drawn_of == script.makers_digest(), "run python docs/report_picture.py"
