"""How the tests run the scripts."""

import os
import pathlib
import subprocess
import sys

import pytest

from .. import fork_server

EXPERIMENTS = pathlib.Path(__file__).parents[2] / "experiments"


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    with fork_server.started(tmp_path_factory.mktemp("scripts")) as run:
        yield run


@pytest.fixture(scope="session")
def run(server):
    """Runs a script in a fork: its status, and what it printed and complained of."""
    return lambda script, *rest, **others: server(EXPERIMENTS / script, *rest, **others)


@pytest.fixture(scope="session")
def run_anew():
    """The same in an interpreter of its own, for what one reads when it starts."""

    def run(script, *arguments, **environment):
        done = subprocess.run(
            [sys.executable, EXPERIMENTS / script, *arguments],
            env=os.environ | environment,
            capture_output=True,
            text=True,
        )
        return done.returncode, done.stdout, done.stderr

    return run
