"""A deprecation fails only the test that causes it."""

import importlib
import sys

import pytest


@pytest.fixture
def packages(tmp_path, monkeypatch):
    """A package that warns in three ways, with any caller, and a user of it."""
    (tmp_path / "warner").mkdir()
    (tmp_path / "warner" / "__init__.py").write_text(
        "import warnings\n"
        "from warner import inner\n"
        "def called():\n"
        "    warnings.warn('no more called', DeprecationWarning)\n"
        "def deep():\n"
        "    inner.warn()\n"
        "def __getattr__(name):\n"
        "    warnings.warn(f'no more {name}', FutureWarning, stacklevel=2)\n"
        "    return 3\n"
    )
    (tmp_path / "warner" / "inner.py").write_text(
        "import warnings\n"
        "def warn():\n"
        "    warnings.warn(PendingDeprecationWarning('no more deep'))\n"
    )
    (tmp_path / "user.py").write_text(
        "import warner\ndef use():\n    warner.called(), warner.deep(), warner.name\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("warner"), importlib.import_module("user")
    for name in ("warner", "warner.inner", "user"):
        sys.modules.pop(name)


def test_what_the_project_causes_is_an_error(packages):
    warner, _ = packages
    with pytest.raises(DeprecationWarning, match="no more called"):
        warner.called()
    with pytest.raises(PendingDeprecationWarning, match="no more deep"):
        warner.deep()
    with pytest.raises(FutureWarning, match="no more other"):
        __import__("warner", fromlist=["other"])  # as `from warner import other`


@pytest.mark.filterwarnings("ignore:no more called:DeprecationWarning")
def test_what_a_test_ignores_by_its_words_is_none(packages):
    warner, _ = packages
    warner.called()
    with pytest.raises(PendingDeprecationWarning):
        warner.deep()


@pytest.mark.filterwarnings("always")
def test_what_packages_cause_among_themselves_stays_a_warning(packages):
    _, user = packages
    with pytest.warns() as found:
        user.use()
    assert len(found) == 3
