"""What a run of the command ends with: its status, output and errors."""

import os
import subprocess
import sys

from jaxrob import reporting


def succeeded(ran):
    status, out, err = ran
    assert status == 0, err
    return out


def check(ran, expected, *texts):
    status, _, err = ran
    assert status == expected, err
    for text in texts:
        assert text in err, err


def only(folder):
    (one,) = reporting.read_results(folder).assessments
    return one


def process(arguments, start=subprocess.run, **settings):
    """Starts a process that finds modules where this one does; its output is kept."""
    env = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    pipes = dict.fromkeys(("stdout", "stderr"), subprocess.PIPE)
    return start(arguments, env=env, text=True, **pipes, **settings)
