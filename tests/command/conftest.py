"""A network in a file, and pictures in folders, of which the command makes results."""

import numpy as np
import pytest
from PIL import Image

import jaxrob
from jaxrob import data
from jaxrob._command.run import main

NETWORK = '''
"""Nearest means of the digits, and networks that go wrong."""
import pathlib, sys
import numpy as np
import jaxrob

MEANS = np.load(pathlib.Path(__file__).with_name("means.npy"))
CALLS = []


def net(images):
    """Minus the squared distance to each mean."""
    CALLS.append(len(images))
    flat = images.reshape(len(images), -1)
    return 2 * flat @ MEANS.T - np.square(MEANS).sum(1)


def worse(images):
    """As `net`, but sure of a 3 where the image is dark."""
    scores = net(images)
    scores[:, 3] += 60 * (images.mean((1, 2, 3)) < 0.2)
    return scores


def raises(images):
    raise ValueError("a mistake of my own")


def raises_later(images):
    if images.max() > 0:
        raise TypeError("a mistake of my own")
    return net(images)


def ends(images):
    sys.exit(1)


def starved(images):
    if images.max() > 0:
        raise MemoryError
    return net(images)


class Unreadable(ValueError):
    def __str__(self):
        raise RuntimeError("no text")


def unreadable(images):
    raise Unreadable


def nan(images):
    return net(images) * np.nan


def classifier():
    return jaxrob.Classifier.from_host(net, 10, name="by hand", version="1")


made = classifier()


def two(images, labels):
    return images
'''


@pytest.fixture(scope="session")
def place(tmp_path_factory):
    """A folder with net.py and 40 pictures of digits in the folder pictures."""
    folder = tmp_path_factory.mktemp("command")
    (folder / "net.py").write_text(NETWORK)
    train, test = data.digits("train"), data.digits("test")
    means = [train.images[train.labels == digit].mean(0) / 255 for digit in range(10)]
    np.save(folder / "means.npy", np.float32(means).reshape(10, -1))
    for number, (image, label) in enumerate(zip(test.images[:40], test.labels)):
        name = folder / "pictures" / str(label) / f"{number}.png"
        name.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image[..., 0]).save(name)
    np.savez(folder / "test.npz", images=test.images[:40], labels=test.labels[:40])
    return folder


@pytest.fixture(scope="session")
def nearest(place):
    means = np.load(place / "means.npy")

    def net(images):
        return 2 * images.reshape(len(images), -1) @ means.T - np.square(means).sum(1)

    return net


@pytest.fixture
def roma(jaxrob_command, tmp_path):
    """Runs a small estimate of RoMA; what is given comes last, and so wins."""

    def run(*arguments):
        return jaxrob_command(
            "roma", "--classifier=net.py:net", "--images=pictures", "--channels=grey",
            "--num_samples=50", "--estimator=count", "--delta=0.2",
            "--epsilon=0.3", "--noprogress", f"--output={tmp_path / 'results'}",
            *arguments,
        )  # fmt: skip

    return run


@pytest.fixture
def interrupted(monkeypatch):
    """Interrupts each run when it reaches the alteration contrast."""
    known = jaxrob.assess

    def assess(classifier, dataset, alteration, *arguments, **named):
        if alteration.name == "contrast":
            raise KeyboardInterrupt
        return known(classifier, dataset, alteration, *arguments, **named)

    monkeypatch.setattr(jaxrob, "assess", assess)


@pytest.fixture
def jaxrob_command(place, monkeypatch, tmp_path, capsys):
    """Runs the command in the folder: its status, what it prints, and what it says."""
    monkeypatch.chdir(place)

    def run(*arguments):
        capsys.readouterr()
        status = main(list(arguments))
        printed = capsys.readouterr()
        return status, printed.out, printed.err

    return run


@pytest.fixture
def assess(jaxrob_command, tmp_path):
    """Runs a small assessment; what is given comes last, and so wins."""

    def run(*arguments):
        asked = any(one.startswith(("--alterations", "--plan")) for one in arguments)
        return jaxrob_command(
            "assess",
            "--classifier=net.py:net",
            "--images=pictures",
            "--channels=grey",
            *([] if asked else ["--alterations=brightness"]),
            "--levels=3",
            "--noprogress",
            "--pictures=0",
            f"--output={tmp_path / 'results'}",
            *arguments,
        )

    return run
