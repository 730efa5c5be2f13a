"""A folder of results: what is written is read, and nothing else is."""

import dataclasses
import datetime
import json
import os
import shutil
import threading

import numpy as np
import pytest

from jaxrob import reporting
from jaxrob.reporting import _folder
from jaxrob.reporting._results import picture_digest

from ..assessment.documents import drop, put
from ..assessment.test_serialization import assessment, same_settings
from ..files.test_swap import room_for
from .reports import attack, roma

PLAN = reporting.Plan(
    "cameras",
    datetime.date(2026, 3, 2),
    "ab" * 32,
    (
        reporting.PlannedAlteration("blur", 0.1, 0.7, {"fill": "edge", "n": 3}, "so"),
        reporting.PlannedAlteration("b.py:rain", 0.1, 0.7),
    ),
    0.75,
    "f1",
    (reporting.Requirement("robustness.low", 1 / 3),),
)


def picture(number=0, **changes):
    image = np.random.default_rng(number).integers(0, 256, (4, 5, 3)).astype(np.uint8)
    fields = {
        "image": image,
        "digest": picture_digest(image),
        "level": 0.3,
        "index": 7,
        "label": 2,
        "predicted": 3,
        "shown_as": "first failure",
    }
    return reporting.Picture(**(fields | changes))


def results(**changes):
    fields = {
        "network": "net <b>",
        "class_names": ("cat", "<dog>", "ü|`"),
        "assessments": (assessment(), assessment(alteration="rain", alpha=0.6)),
        "reasons": ("because", None),
        "pictures": ((picture(), picture(1, label=None, predicted=None)), ()),
        "roma": roma(),
        "attack": attack(),
        "requirements": (reporting.Requirement("plr.low", 0.1),),
        "regressions": ("rain: worse",),
        "plan": PLAN,
    }
    return reporting.Results(**(fields | changes))


def content(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("written")
    reporting.write_results(folder, results())
    return folder


@pytest.fixture
def folder(written, tmp_path):
    """A folder of results, which a test may change."""
    return shutil.copytree(written, tmp_path / "folder")


def refused(folder, says=None):
    """Returns how the results are refused: the folder and what is wrong are named."""
    with pytest.raises((ValueError, OSError), match=says) as error:
        reporting.read_results(folder)
    message = str(error.value)
    assert str(folder) in message and len(message) < 1000
    return message


def test_back_as_it_was(written, tmp_path):
    before, after = results(), reporting.read_results(written)
    fields = ("network", "class_names", "reasons", "requirements", "regressions")
    for name in (*fields, "plan"):
        assert getattr(after, name) == getattr(before, name), name
    for one, other in zip(after.assessments, before.assessments):
        provenance = other.provenance | {"plan": PLAN.digest}
        same_settings(one, dataclasses.replace(other, provenance=provenance))
        assert one.curve.predicted.tobytes() == other.curve.predicted.tobytes()
    for one, other in zip(after.pictures[0], before.pictures[0]):
        assert one[1:] == other[1:]
        np.testing.assert_array_equal(one.image, other.image)
    assert after.pictures[1] == ()
    assert after.roma.to_json() == before.roma.to_json()
    assert after.attack.to_json() == before.attack.to_json()
    assert after.attack.images.shape == (0, 0, 0, 0)
    # Equal results give equal bytes.
    for name, found in (("one", before), ("again", after)):
        reporting.write_results(tmp_path / name, found)
        assert content(tmp_path / name) == content(written)
    assert sorted(content(written)) == [
        *("attack.json", "blur_ü.json", "pictures.npz", "rain.json"),
        *("results.json", "roma.json"),
    ]


def test_only_what_is_there(folder):
    (folder / "pictures.npz").unlink()
    (one, _), _ = reporting.read_results(folder).pictures
    assert one.image is None and one.digest == picture().digest
    few = reporting.Results(None, None, (assessment(alteration="rain"),))
    assert few.reasons == (None,) and few.pictures == ((),)
    reporting.write_results(folder, few)
    after = reporting.read_results(folder)
    assert after.network is after.class_names is after.plan is None
    assert after.roma is after.attack is None
    assert [one.alteration for one in after.assessments] == ["rain"]
    assert not (folder / "roma.json").exists()


def test_an_older_folder(tmp_path):
    network = {"name": "net", "class_names": ["a", "b", "c"]}
    for name in ("rain", "fog"):
        one = assessment(alteration=name)
        one = dataclasses.replace(
            one, provenance=one.provenance | {"network": network, "classifier": "0a"}
        )
        (tmp_path / f"{name}.json").write_text(one.to_json())
    (tmp_path / "other.json").write_text('{"seconds": 3}')
    (tmp_path / "figure.png").write_bytes(b"")
    found = reporting.read_results(tmp_path)
    assert [one.alteration for one in found.assessments] == ["fog", "rain"]
    assert (found.network, found.class_names) == ("net", ("a", "b", "c"))
    assert found.pictures == ((), ()) and found.plan is None
    (tmp_path / "rain.json").write_text(one.to_json().replace('"f1"', '"x"')[:-9])
    with pytest.raises(ValueError, match=r"rain.json: the text is not JSON"):
        reporting.read_results(tmp_path)


def test_no_results(tmp_path):
    (tmp_path / "file").write_text("")
    for path in (tmp_path, tmp_path / "none", tmp_path / "file"):
        refused(path)


NAMES = (
    *("results", "roma", "Attack", "rain", "rain", "RAIN", "../../x", "/etc/x", "a b"),
    *("x" * 300, "ü" * 300, ".", "", "<script>", "\n", "a+b", "\ud800"),
)


def test_any_names_of_alterations(tmp_path):
    folder = tmp_path / "in" / "here"
    some = tuple(assessment(alteration=name) for name in NAMES)
    reporting.write_results(folder, reporting.Results(None, None, some))
    after = reporting.read_results(folder)
    assert tuple(one.alteration for one in after.assessments) == NAMES
    files = {name.casefold() for name in content(folder)}
    assert len(files) == len(NAMES) + 1
    assert {path.name for path in tmp_path.rglob("*") if path.is_file()} == set(
        content(folder)
    )


def test_what_cannot_be_written_replaces_nothing(folder):
    before = content(folder)
    wrong = results(requirements=(reporting.Requirement("beauty", 0.5),))
    with pytest.raises(ValueError, match="quantity"):
        reporting.write_results(folder, wrong)
    assert content(folder) == before
    # Nor does a full disk: fewer parts, and others of the same name.
    few = (assessment(alteration="rain", images=25), assessment(alteration="fog"))
    another = reporting.Results("net <b>", None, few)
    for room in (0, 1000):
        with room_for(room), pytest.raises(OSError, match="No space left") as error:
            reporting.write_results(folder, another)
        assert str(error.value.filename).startswith(str(folder / ""))
        assert content(folder) == before


# What stands in the index, and what is named.
OF_FIRST = ("assessments", 0)
SHOWN = (*OF_FIRST, "pictures", 0)
IMPLAUSIBLE = {
    "another format": (put("format", "jaxrob results 2"), "format"),
    "unknown part": (put("beauty", 1), "unknown parts.*beauty"),
    "a part missing": (drop("roma"), "'roma'"),
    "network number": (put("network", 3), "network"),
    "class name number": (put("class_names", 0, 3), r"class_names\[0\]"),
    "too few class names": (put("class_names", ["a"]), "class"),
    "requirement": (put("requirements", ["beauty>=1"]), "quantity"),
    "assessment text": (put(*OF_FIRST, "rain.json"), r"assessments\[0\]"),
    "file outside": (put(*OF_FIRST, "file", "../rain.json"), "in the folder"),
    "file with null": (put(*OF_FIRST, "file", "a\0.json"), "in the folder"),
    "itself": (put(*OF_FIRST, "file", "results.json"), "in the folder"),
    "of roma": (put(*OF_FIRST, "file", "roma.json"), "roma.json: format"),
    "twice": (put(*OF_FIRST, "file", "rain.json"), "different files"),
    "missing file": (put(*OF_FIRST, "file", "none.json"), "none.json"),
    "17 pictures": (put(*SHOWN[:-1], lambda some: some * 9), "pictures.*16"),
    "digest": (put(*SHOWN, "digest", "../x"), "digest"),
    "level text": (put(*SHOWN, "level", "0.3"), "level"),
    "image 30 of 30": (put(*SHOWN, "image", 30), "index"),
    "label": (put(*SHOWN, "label", 3), "label"),
    "predicted": (put(*SHOWN, "predicted", 4), "predicted"),
    "shown_as": (put(*SHOWN, "shown_as", "x"), "shown_as"),
    "plan's date": (put("plan", "date", "20260302"), "date"),
    "plan's digest": (put("plan", "digest", "AB" * 32), "digest"),
    "another plan": (put("plan", "digest", "cd" * 32), "by the plan"),
    "plan's alterations": (put("plan", "alterations", []), "alterations"),
}


@pytest.mark.parametrize("name", IMPLAUSIBLE)
def test_what_cannot_be_is_named(folder, name):
    change, says = IMPLAUSIBLE[name]
    path = folder / "results.json"
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))
    refused(folder, says)


@pytest.mark.parametrize(
    "image, says",
    [
        (np.zeros((4, 5, 3), np.uint8), "digest"),
        (np.zeros((4, 5, 3), np.float32), "uint8"),
        (np.zeros((4, 5), np.uint8), r"\[H, W, C\]"),
        (np.zeros((4, 5, 2), np.uint8), "1, 3 or 4 channels"),
        (np.zeros((0, 5, 3), np.uint8), r"\[H, W, C\]"),
        (np.array([{}], object), "no array|only numbers"),
    ],
)
def test_no_pictures(folder, image, says):
    one, other = results().pictures[0]
    images = {one.digest: image, other.digest: other.image}
    np.savez(folder / "pictures.npz", **images)
    refused(folder, says)


def test_what_is_too_long(written, monkeypatch):
    monkeypatch.setattr(_folder, "_MOST_INDEX", 100)
    refused(written, "results.json.* 100 ")
    monkeypatch.undo()
    monkeypatch.setattr(_folder, "_MOST_BYTES", 100)
    with pytest.raises(ValueError, match="pictures.npz.* 100 "):
        _folder._images(written / "pictures.npz")


@pytest.mark.parametrize("name", ["rain.json", "pictures.npz"])
def test_what_is_no_file_does_not_hang(folder, name):
    (folder / name).unlink()
    os.mkfifo(folder / name)
    errors = []

    def run():
        try:
            reporting.read_results(folder)
        except ValueError as error:
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(20)
    assert not thread.is_alive(), "it hangs"
    assert f"{name}: not a regular file but a named pipe" in str(errors[0])


def test_what_does_not_go_together():
    first, other = (
        dataclasses.replace(one, provenance=one.provenance | {"classifier": digest})
        for one, digest in ((assessment(), "0a"), (assessment(), "0b"))
    )
    for changes, says in (
        ({"reasons": ("x",)}, "reasons"),
        ({"pictures": ((),)}, "pictures"),
        ({"class_names": ("a", "b")}, "class_names"),
        ({"assessments": (first, other)}, "one network"),
        ({"pictures": ((picture(digest="0" * 32),), ())}, "digest"),
        ({"pictures": ((picture(level=9.0),), ())}, "level"),
        ({"pictures": ((picture(level=0.3, shown_as="upper end"),), ())}, "level"),
        ({"assessments": assessment()}, "assessments"),
        ({"network": 3}, "network"),
        ({"roma": assessment()}, "roma"),
        ({"plan": "plan.toml"}, "plan"),
        ({"regressions": "x"}, "regressions"),
        ({"pictures": ((1,), ())}, "pictures"),
    ):
        with pytest.raises((TypeError, ValueError), match=says):
            results(**changes)
    for shown_as, level in (("unaltered", 0.1), ("upper end", 0.7)):
        shown = picture(level=level, shown_as=shown_as)
        assert results(pictures=((shown,), ())).pictures[0][0].level == level


@pytest.mark.parametrize("name", ["results.json", "rain.json", "pictures.npz"])
def test_links_out_of_the_folder_are_not_followed(folder, name):
    outside = folder.parent / "outside"
    (folder / name).unlink()
    (folder / name).symlink_to(outside)
    for secret in (None, b"secret"):
        if secret:
            outside.write_bytes(secret)
        assert "secret" not in refused(folder, f"{name}: a link")


def test_links_within_the_folder_and_to_it_are_followed(folder, tmp_path):
    (folder / "rain.json").rename(folder / "kept")
    (folder / "rain.json").symlink_to("kept")
    (tmp_path / "link").symlink_to(folder)
    assert len(reporting.read_results(tmp_path / "link").assessments) == 2
