"""The runners of the scripts."""

import pathlib

import pytest

from .. import fork_server

EXPERIMENTS = pathlib.Path(__file__).parents[2] / "experiments"


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    with fork_server.started(tmp_path_factory.mktemp("scripts")) as run:
        yield run


@pytest.fixture(scope="session")
def run(server):
    return lambda script, *rest, **others: server(EXPERIMENTS / script, *rest, **others)
