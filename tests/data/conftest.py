import os
import pathlib

import pytest

from jaxrob.data import _image_folder


@pytest.fixture
def real_folder():
    def folder(name: str) -> pathlib.Path:
        path = pathlib.Path(os.environ.get("JAXROB_DATA_DIR", ""), name)
        if not os.environ.get("JAXROB_DATA_DIR") or not path.is_dir():
            pytest.skip(f"needs JAXROB_DATA_DIR with the folder {name}")
        return path

    return folder


@pytest.fixture
def opened(monkeypatch):
    """The paths of the pictures that are read."""
    read, paths = _image_folder.read_file, []
    monkeypatch.setattr(
        _image_folder, "read_file", lambda path: (paths.append(path), read(path))[1]
    )
    return paths
