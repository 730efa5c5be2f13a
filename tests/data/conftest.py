import os
import pathlib

import pytest


@pytest.fixture
def real_folder():
    def folder(name: str) -> pathlib.Path:
        path = pathlib.Path(os.environ.get("JAXROB_DATA_DIR", ""), name)
        if not os.environ.get("JAXROB_DATA_DIR") or not path.is_dir():
            pytest.skip(f"needs JAXROB_DATA_DIR with the folder {name}")
        return path

    return folder
