import pytest

from jaxrob.data import _image_folder


@pytest.fixture
def opened(monkeypatch):
    """The paths of the pictures that are read."""
    read, paths = _image_folder.read_file, []
    monkeypatch.setattr(
        _image_folder, "read_file", lambda path: (paths.append(path), read(path))[1]
    )
    return paths
