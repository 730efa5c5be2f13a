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
from jaxrob._files import swap
from jaxrob.reporting import _folder
from jaxrob.reporting._results import picture_digest

from ..adversarial.test_attack_json import attack
from ..assessment.test_serialization import assessment, drop, put, same_settings
from ..files.test_swap import Killed, killed_at, room_for
from ..roma.test_from_json import result

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
        "roma": result(),
        "attack": attack(),
        "requirements": (reporting.Requirement("plr.low", 0.1),),
        "regressions": ("rain: worse",),
        "plan": PLAN,
    }
    return reporting.Results(**(fields | changes))


def content(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_back_as_it_was(tmp_path):
    before = results()
    reporting.write_results(tmp_path, before)
    after = reporting.read_results(tmp_path)
    for name in (
        "network",
        "class_names",
        "reasons",
        "requirements",
        "regressions",
        "plan",
    ):
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


def test_equal_results_give_equal_bytes(tmp_path):
    for name in ("one", "other"):
        reporting.write_results(tmp_path / name, results())
    reporting.write_results(
        tmp_path / "again", reporting.read_results(tmp_path / "one")
    )
    assert (
        content(tmp_path / "one")
        == content(tmp_path / "other")
        == content(tmp_path / "again")
    )
    assert sorted(content(tmp_path / "one")) == [
        *("attack.json", "blur_ü.json", "pictures.npz", "rain.json"),
        *("results.json", "roma.json"),
    ]


def test_only_what_is_there(tmp_path):
    reporting.write_results(tmp_path, results())
    few = reporting.Results(None, None, (assessment(alteration="rain"),))
    assert few.reasons == (None,) and few.pictures == ((),)
    reporting.write_results(tmp_path, few)
    after = reporting.read_results(tmp_path)
    assert after.network is after.class_names is after.plan is None
    assert after.roma is after.attack is None
    assert [one.alteration for one in after.assessments] == ["rain"]
    assert not (tmp_path / "pictures.npz").exists()
    assert not (tmp_path / "roma.json").exists()


def test_pictures_that_were_not_kept(tmp_path):
    reporting.write_results(tmp_path, results())
    (tmp_path / "pictures.npz").unlink()
    (one, _), _ = reporting.read_results(tmp_path).pictures
    assert one.image is None and one.digest == picture().digest


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
    with pytest.raises(ValueError, match="neither results.json nor"):
        reporting.read_results(tmp_path)
    for path in (tmp_path / "none", tmp_path / "file"):
        (tmp_path / "file").write_text("")
        with pytest.raises(ValueError, match=f"got {path}, which is none"):
            reporting.read_results(path)


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


# What stands in the index, and what is named.
IMPLAUSIBLE = {
    "another format": (put("format", "jaxrob results 2"), "format must be"),
    "unknown part": (put("beauty", 1), "unknown parts.*beauty"),
    "a part missing": (drop("roma"), "lacks 'roma'"),
    "network number": (put("network", 3), "network must be a text"),
    "class name number": (put("class_names", 0, 3), r"class_names\[0\] must be a te"),
    "too few class names": (put("class_names", ["a"]), "each of the 3 classes"),
    "class names null": (put("class_names", [None] * 3), "class_names"),
    "requirement": (put("requirements", ["beauty>=1"]), "quantity must be one of"),
    "requirements text": (put("requirements", "plr>=1"), "requirements must be a list"),
    "regressions": (put("regressions", None), "regressions"),
    "assessments object": (put("assessments", {}), "assessments must be a list"),
    "assessment text": (put("assessments", 0, "rain.json"), r"assessments\[0\]"),
    "file outside": (put("assessments", 0, "file", "../rain.json"), "in the folder"),
    "file elsewhere": (put("assessments", 0, "file", "/etc/x.json"), "in the folder"),
    "file of windows": (put("assessments", 0, "file", "c:x.json"), "in the folder"),
    "file with null": (put("assessments", 0, "file", "a\0.json"), "in the folder"),
    "file hidden": (put("assessments", 0, "file", ".json"), "in the folder"),
    "file null": (put("assessments", 0, "file", None), "file must be the name"),
    "itself": (put("assessments", 0, "file", "results.json"), "in the folder"),
    "of roma": (put("assessments", 0, "file", "roma.json"), "roma.json: format must"),
    "twice": (put("assessments", 0, "file", "rain.json"), "different files"),
    "missing file": (put("assessments", 0, "file", "none.json"), "none.json"),
    "no file": (put("attack", "sub"), "attack must be the name of a file"),
    "why number": (put("assessments", 0, "why", 3), "why must be a text"),
    "picture list": (put("assessments", 0, "pictures", 0, []), r"pictures\[0\]"),
    "17 pictures": (
        put("assessments", 0, "pictures", lambda some: some * 9),
        "at most 16",
    ),
    "digest": (put("assessments", 0, "pictures", 0, "digest", "../x"), "digest"),
    "digest null": (put("assessments", 0, "pictures", 0, "digest", None), "digest"),
    "level outside": (put("assessments", 0, "pictures", 0, "level", 0.8), "level must"),
    "level text": (put("assessments", 0, "pictures", 0, "level", "0.3"), "level must"),
    "image 30 of 30": (put("assessments", 0, "pictures", 0, "image", 30), "index must"),
    "image half": (put("assessments", 0, "pictures", 0, "image", 1.5), "image must"),
    "label": (put("assessments", 0, "pictures", 0, "label", 3), "label must lie in"),
    "predicted": (
        put("assessments", 0, "pictures", 0, "predicted", 4),
        "predicted mus",
    ),
    "shown_as": (
        put("assessments", 0, "pictures", 0, "shown_as", "x"),
        "shown_as must",
    ),
    "plan text": (put("plan", "x"), "plan must be an object"),
    "plan's date": (put("plan", "date", "20260302"), "date must be"),
    "plan's digest": (put("plan", "digest", "AB" * 32), "digest must be 64"),
    "another plan": (put("plan", "digest", "cd" * 32), "not assessed by the plan"),
    "plan's alteration": (drop("plan", "alterations", 0, "name"), "lacks 'name'"),
    "plan's alterations": (put("plan", "alterations", []), "plan: alterations must"),
    "plan's threshold": (put("plan", "threshold", True), "threshold must be a numb"),
}


@pytest.mark.parametrize("name", IMPLAUSIBLE)
def test_what_cannot_be_is_named(tmp_path, name):
    change, message = IMPLAUSIBLE[name]
    reporting.write_results(tmp_path, results())
    path = tmp_path / "results.json"
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))
    with pytest.raises((ValueError, OSError), match=message) as error:
        reporting.read_results(tmp_path)
    assert str(tmp_path) in str(error.value) and len(str(error.value)) < 1000


def images(**changed):
    """The images by name, some of them others."""
    one, other = results().pictures[0]
    return {one.digest: one.image, other.digest: other.image} | {
        {"one": one, "other": other}[name].digest: image
        for name, image in changed.items()
    }


@pytest.mark.parametrize(
    "found, message",
    [
        (images(one=np.zeros((4, 5, 3), np.uint8)), "not that of its digest"),
        (images(one=np.zeros((4, 5, 3), np.float32)), r"must be uint8 \[H, W, C\]"),
        (images(one=np.zeros((4, 5), np.uint8)), r"must be uint8 \[H, W, C\]"),
        (images(one=np.zeros((4, 5, 2), np.uint8)), "1, 3 or 4 channels"),
        (images(one=np.zeros((0, 5, 3), np.uint8)), "1, 3 or 4 channels"),
        (images(one=np.array([{}], object)), "no array|only numbers"),
    ],
)
def test_no_pictures(tmp_path, found, message):
    reporting.write_results(tmp_path, results())
    np.savez(tmp_path / "pictures.npz", **found)
    with pytest.raises(ValueError, match=message) as error:
        reporting.read_results(tmp_path)
    assert str(tmp_path) in str(error.value)


def test_what_is_too_long(tmp_path, monkeypatch):
    reporting.write_results(tmp_path, results())
    monkeypatch.setattr(_folder, "_MOST_INDEX", 100)
    with pytest.raises(
        ValueError, match="results.json: it has .* at most 100 are read"
    ):
        reporting.read_results(tmp_path)
    monkeypatch.undo()
    monkeypatch.setattr(_folder, "_MOST_BYTES", 100)
    with pytest.raises(ValueError, match="pictures.npz: it has more than the 100"):
        _folder._images(tmp_path / "pictures.npz")


@pytest.mark.parametrize("name", ["results.json", "rain.json", "pictures.npz"])
def test_what_is_no_file_does_not_hang(tmp_path, name):
    reporting.write_results(tmp_path, results())
    (tmp_path / name).unlink()
    os.mkfifo(tmp_path / name)
    errors = []

    def run():
        try:
            reporting.read_results(tmp_path)
        except ValueError as error:
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(20)
    assert not thread.is_alive(), "it hangs"
    assert f"{name}: not a regular file but a named pipe" in str(errors[0])


def test_what_does_not_go_together():
    other = dataclasses.replace(
        assessment(), provenance=assessment().provenance | {"classifier": "0b"}
    )
    first = dataclasses.replace(
        assessment(), provenance=assessment().provenance | {"classifier": "0a"}
    )
    for changes, message in (
        ({"reasons": ("x",)}, "reasons must have an entry for each of 2"),
        ({"pictures": ((),)}, "pictures must have an entry for each of 2"),
        ({"class_names": ("a", "b")}, "each of the 3 classes"),
        ({"assessments": (first, other)}, "must be of one network"),
        ({"pictures": ((picture(digest="0" * 32),), ())}, "not that of its digest"),
        ({"pictures": ((picture(level=9.0),), ())}, "level must lie in"),
    ):
        with pytest.raises(ValueError, match=message):
            results(**changes)
    for changes, message in (
        ({"assessments": assessment()}, "assessments must be a sequence"),
        ({"network": 3}, "network must be a text"),
        ({"roma": assessment()}, "roma must be a jaxrob.roma.RomaResult or None"),
        ({"plan": "plan.toml"}, "plan must be a jaxrob.reporting.Plan or None"),
        ({"regressions": "x"}, "regressions must be a sequence"),
        ({"pictures": ((1,), ())}, "must be a Picture"),
    ):
        with pytest.raises(TypeError, match=message):
            results(**changes)


def test_what_no_file_may_hold_replaces_nothing(tmp_path):
    reporting.write_results(tmp_path, results())
    before = content(tmp_path)
    wrong = results(requirements=(reporting.Requirement("beauty", 0.5),))
    with pytest.raises(ValueError, match="quantity must be one of"):
        reporting.write_results(tmp_path, wrong)
    assert content(tmp_path) == before


@pytest.fixture(scope="module")
def another():
    """Another run of the same network: fewer parts, and others of the same name."""
    few = (assessment(alteration="rain", images=25), assessment(alteration="fog"))
    return reporting.Results("net <b>", None, few)


def test_a_full_disk_leaves_the_results_that_were_there(tmp_path, another):
    reporting.write_results(tmp_path, results())
    before = content(tmp_path)
    for room in (0, 1, 1000, 5000):
        with room_for(room), pytest.raises(OSError, match="No space left") as error:
            reporting.write_results(tmp_path, another)
        assert str(error.value.filename).startswith(str(tmp_path / ""))
        assert content(tmp_path) == before
    assert reporting.read_results(tmp_path).roma is not None


def test_a_run_that_is_killed_leaves_the_old_results_or_the_new_ones(tmp_path, another):
    reporting.write_results(tmp_path / "old", results())
    shutil.copytree(tmp_path / "old", tmp_path / "new")
    reporting.write_results(tmp_path / "new", another)
    old, new = (content(tmp_path / name) for name in ("old", "new"))
    seen = []
    for moment in range(0, 200, 2):
        folder = shutil.copytree(tmp_path / "old", tmp_path / str(moment))
        try:
            with killed_at(moment):
                reporting.write_results(folder, another)
            break
        except Killed:
            pass
        # Read even where nothing may be moved to its place.
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(swap, "_finish_interrupted", lambda folder, wait: None)
            read = reporting.read_results(folder)
        again = reporting.read_results(folder)
        for found in (read, again):
            assert len(found.assessments) == 2
            assert (found.roma is None) == (found.attack is None)
            assert (found.roma is None) == (found.plan is None)
            assert found.roma is None or found.pictures[0][0].image is not None
        there = {path.name: path for path in folder.iterdir() if path.is_file()}
        there = {name: path.read_bytes() for name, path in there.items()}
        assert there == (new if again.roma is None else old)
        seen.append(again.roma is None)
    assert content(folder) == new
    assert seen == sorted(seen) and len(set(seen)) == 2


@pytest.mark.parametrize(
    "name", ["results.json", "rain.json", "roma.json", "attack.json", "pictures.npz"]
)
def test_links_out_of_the_folder_are_not_followed(tmp_path, name):
    folder, outside = tmp_path / "folder", tmp_path / "outside"
    reporting.write_results(folder, results())
    (folder / name).unlink()
    (folder / name).symlink_to(outside)
    for content in (None, b"secret"):
        if content:
            outside.write_bytes(content)
        with pytest.raises(ValueError, match=f"{name}: a link that leads out") as error:
            reporting.read_results(folder)
        assert "secret" not in str(error.value)
    (folder / name).unlink()


def test_links_out_of_a_folder_without_an_index(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    (tmp_path / "rain").write_text(assessment(alteration="rain").to_json())
    (folder / "rain.json").symlink_to("../rain")
    with pytest.raises(ValueError, match="rain.json: a link that leads out"):
        reporting.read_results(folder)


def test_links_within_the_folder_and_to_it_are_followed(tmp_path):
    folder = tmp_path / "folder"
    reporting.write_results(folder, results())
    (folder / "rain.json").rename(folder / "kept")
    (folder / "rain.json").symlink_to("kept")
    (tmp_path / "link").symlink_to(folder)
    assert len(reporting.read_results(tmp_path / "link").assessments) == 2


def test_pictures_at_the_ends_are_at_the_ends():
    for shown_as, level in (("unaltered", 0.1), ("upper end", 0.7)):
        shown = picture(level=level, shown_as=shown_as)
        assert results(pictures=((shown,), ())).pictures[0][0].level == level
        with pytest.raises(ValueError, match=f"level must be {level}, as it is shown"):
            results(pictures=((picture(level=0.3, shown_as=shown_as),), ()))
