"""A folder of results: what is written is read, and nothing else is."""

import contextlib
import dataclasses
import datetime
import errno
import itertools
import os
import re
import shutil
import threading

import numpy as np
import pytest

from jaxrob import reporting
from jaxrob.metrics import ConfidenceInterval
from jaxrob.reporting import _folder
from jaxrob.reporting._results import picture_digest

from ..assessment.documents import changed, put
from ..assessment.test_serialization import assessment, same_settings
from ..fuzzing.bombs import error_within_20_seconds
from . import reports
from .reports import attack, roma

PLAN = reporting.Plan(
    "cameras",
    datetime.date(2026, 3, 2),
    "ab" * 32,
    (
        reporting.PlannedAlteration("blur", 0.1, 0.7, {"fill": "edge", "n": 3}, "so"),
        reporting.PlannedAlteration(
            "b.py:rain", 0.1, 0.7, {}, None, (reporting.Requirement("accuracy", 1.0),)
        ),
    ),
    0.75,
    "f1",
    (reporting.Requirement("robustness.low", 1 / 3),),
)


NOT_KNOWN = ConfidenceInterval(np.nan, np.nan)


def picture(number=0, **changes):
    image = np.random.default_rng(number).integers(0, 256, (4, 5, 3)).astype(np.uint8)
    own = {"image": image, "digest": picture_digest(image)} | changes
    return reports.picture(0.3, 7, 2, 3, "first failure")._replace(**own)


def results(**changes):
    fields = {
        "network": "net <b>",
        "class_names": ("cat", "<dog>", "ü|`"),
        "assessments": (assessment(), assessment(alteration="rain", alpha=0.6)),
        "reasons": ("because", None),
        "pictures": ((picture(), picture(1, label=None, predicted=None)), ()),
        "roma": roma(),
        "attack": attack(),
        "requirements": (
            reporting.Requirement("plr.low", 0.1),
            reporting.Requirement("difference", -0.02, "<=", "rain"),
        ),
        "differences": (
            reporting.Difference("rain", 0.1, *2 * [ConfidenceInterval(-1 / 3, 0.2)]),
            reporting.Difference("fog", np.nan, *2 * [NOT_KNOWN], "threshold"),
        ),
        "regressions": ("rain: worse",),
        "plan": PLAN,
    }
    return reporting.Results(**(fields | changes))


def content(folder):
    return {path.name: path.read_bytes() for path in folder.glob("[!.]*")}


def place(folder, stem):
    """The path of the only file of this name, whatever its digest."""
    (found,) = folder.glob(f"{stem}-*")
    return found


def test_a_picture_has_the_digest_of_its_image():
    for wrong in ({"digest": "0" * 32}, {"index": 1.5}):
        with pytest.raises((TypeError, ValueError), match=next(iter(wrong))):
            results(pictures=((picture(**wrong),), ()))


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("written")
    reporting.write_results(folder, results())
    return folder


@pytest.fixture
def folder(written, tmp_path):
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
    assert repr(after.differences) == repr(before.differences)
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
    digest = r"-[0-9a-f]{16}\.(json|npz)"
    names = sorted(re.sub(digest, "", name) for name in content(written))
    assert names == ["attack", "blur_ü", "pictures", "rain", "results.json", "roma"]
    # Of runs that took another time, the same is said.
    slow = dataclasses.replace(before.assessments[0], seconds=99.0)
    slow = dataclasses.replace(before, assessments=(slow, before.assessments[1]))
    reporting.write_results(tmp_path / "slow", slow)
    assert content(tmp_path / "slow").keys() == content(written).keys()
    for name in ("results.json", place(written, "rain").name):
        assert content(tmp_path / "slow")[name] == content(written)[name]


def test_only_what_is_there(folder):
    few = reporting.Results(None, None, (assessment(alteration="rain"),))
    assert few.reasons == (None,) and few.pictures == ((),)
    reporting.write_results(folder, few)
    after = reporting.read_results(folder)
    assert after.network is after.class_names is after.plan is None
    assert after.roma is after.attack is None
    assert [one.alteration for one in after.assessments] == ["rain"]
    assert len(content(folder)) == 2


def test_an_older_folder(tmp_path):
    network = {"name": "net", "class_names": ["a", "b", "c"]}
    for name in ("rain", "fog"):
        one = assessment(alteration=name)
        known = one.provenance | {"network": network, "classifier": "0a"}
        one = dataclasses.replace(one, provenance=known)
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
    *("results", "roma", "Attack", "rain", "RAIN", "../../x", "/etc/x", "a b"),
    *("x" * 300, "ü" * 300, ".", "", "<script>", "\n", "a+b", "\ud800"),
)


def test_any_names_of_alterations(tmp_path):
    folder = tmp_path / "in" / "here"
    some = tuple(assessment(alteration=name) for name in NAMES)
    reporting.write_results(folder, reporting.Results(None, None, some))
    after = reporting.read_results(folder)
    assert tuple(one.alteration for one in after.assessments) == NAMES
    assert len({name.casefold() for name in content(folder)}) == len(NAMES) + 1
    assert {path.name for path in tmp_path.rglob("*") if path.is_file()} == {
        *(content(folder)),
        ".lock",
    }


def test_what_cannot_be_written_replaces_nothing(folder):
    before = content(folder)
    wrong = results(requirements=(reporting.Requirement("beauty", 0.5),))
    with pytest.raises(ValueError, match="quantity"):
        reporting.write_results(folder, wrong)
    # Nor does a full disk.
    for room in (0, 1000):
        with room_for(room), pytest.raises(OSError, match="No space left") as error:
            reporting.write_results(folder, another())
        assert str(error.value.filename).startswith(str(folder / ""))
        assert content(folder) == before


def another():
    """Fewer parts, and others of the same name."""
    few = (assessment(alteration="rain", images=25), assessment(alteration="fog"))
    return reporting.Results("net <b>", None, few)


@contextlib.contextmanager
def room_for(left):
    """A disk with room for so many bytes."""
    with pytest.MonkeyPatch.context() as patch:
        write = os.write

        def written(file, content):
            nonlocal left
            if not left:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            done = write(file, content[:left])
            left -= done
            return done

        patch.setattr(os, "write", written)
        yield


class Killed(BaseException):
    """Nothing is done on the disk any more."""


@contextlib.contextmanager
def killed_at(moment):
    """No operation on files is done from one on; of a write, half is."""
    with pytest.MonkeyPatch.context() as patch:
        number = itertools.count()

        def dying(name, do):
            def done(*arguments, **named):
                now = next(number)
                if now == moment and name == "write":
                    do(arguments[0], arguments[1][: len(arguments[1]) // 2])
                if now >= moment:
                    raise Killed
                return do(*arguments, **named)

            return done

        for name in ("open", "write", "fsync", "replace", "unlink", "listdir"):
            patch.setattr(os, name, dying(name, getattr(os, name)))
        yield


def said(folder):
    found = reporting.read_results(folder)
    return [(one.alteration, one.to_json()) for one in found.assessments], found.roma


def test_killed_at_any_moment_all_or_none_is_new(folder, tmp_path):
    reporting.write_results(tmp_path / "new", another())
    before, after, seen = content(folder), said(tmp_path / "new"), []
    earlier = said(folder)[0]
    for moment in itertools.count():
        at = shutil.copytree(folder, tmp_path / f"at {moment}")
        try:
            with killed_at(moment):
                reporting.write_results(at, another())
            break
        except Killed:
            seen.append(said(at) == after)
            assert seen[-1] or said(at)[0] == earlier
        # Nothing is left of it by the next one.
        reporting.write_results(at, results())
        assert content(at) == before
    assert len(seen) > 12 and seen == sorted(seen) and {*seen} == {True, False}
    assert content(at) == content(tmp_path / "new")


def test_readers_and_writers_at_once(folder):
    errors, is_over = [], threading.Event()
    both = [
        said(folder)[0],
        [(one.alteration, one.to_json()) for one in another().assessments],
    ]

    def run(do):
        try:
            while not is_over.is_set():
                do()
        except BaseException as error:
            errors.append(error)

    def check():
        assert said(folder)[0] in both

    some = results(), another()
    writers = (lambda one=one: reporting.write_results(folder, one) for one in some)
    threads = [threading.Thread(target=run, args=[do]) for do in (*writers, check)]
    for thread in threads:
        thread.start()
    is_over.wait(0.5)
    is_over.set()
    for thread in threads:
        thread.join(30)
    assert not errors and not any(thread.is_alive() for thread in threads)
    check()


# What stands in the index, and what is named.
OF_FIRST, OTHER = ("assessments", 0), "rain-0123456789abcdef.json"
SHOWN = (*OF_FIRST, "pictures", 0)
IMPLAUSIBLE = {
    "too few class names": (put("class_names", ["a"]), "class"),
    "requirement": (put("requirements", ["beauty>=1"]), "quantity"),
    "assessment text": (put(*OF_FIRST, "rain.json"), r"assessments\[0\]"),
    "file outside": (put(*OF_FIRST, "file", f"../{OTHER}"), "in the folder"),
    "file with null": (put(*OF_FIRST, "file", f"a\0{OTHER}"), "in the folder"),
    "itself": (put(*OF_FIRST, "file", "results.json"), "in the folder"),
    "missing file": (put(*OF_FIRST, "file", OTHER), OTHER),
    "17 pictures": (put(*SHOWN[:-1], lambda some: some * 9), "pictures.*16"),
    "digest": (put(*SHOWN, "digest", "../x"), "digest"),
    "image 30 of 30": (put(*SHOWN, "image", 30), "index"),
    "label": (put(*SHOWN, "label", 3), "label"),
    "predicted": (put(*SHOWN, "predicted", 4), "predicted"),
    "plan's date": (put("plan", "date", "2026-02-30"), "date"),
    "plan's digest": (put("plan", "digest", "AB" * 32), "digest"),
    "plan's alterations": (put("plan", "alterations", []), "alterations"),
}


@pytest.mark.parametrize("name", IMPLAUSIBLE)
def test_what_cannot_be_is_named(folder, name):
    change, says = IMPLAUSIBLE[name]
    path = folder / "results.json"
    path.write_text(changed(path.read_text(), change, digest_too=True))
    refused(folder, says)


def test_what_was_changed_or_mixed_up_is_named(folder):
    path = folder / "results.json"
    path.write_text(changed(path.read_text(), put("network", "better")))
    refused(folder, "results.json: .*not what was written")
    path.write_text(changed(path.read_text(), put("network", "net <b>")))
    assert reporting.read_results(folder).network == "net <b>"
    rain, blur = place(folder, "rain"), place(folder, "blur*")
    kept = rain.read_bytes()
    for other in (kept.replace(b"rain", b"fog"), kept[:-1], blur.read_bytes()):
        rain.write_bytes(other)
        refused(folder, rain.name)
    rain.write_bytes(kept)
    pictures = place(folder, "pictures")
    pictures.write_bytes(pictures.read_bytes()[:-1] + b"x")
    refused(folder, pictures.name)
    pictures.unlink()
    refused(folder, pictures.name)


def test_what_is_too_long(written, monkeypatch):
    monkeypatch.setattr(_folder, "_MOST_INDEX", 100)
    refused(written, "results.json.* 100 ")
    monkeypatch.undo()
    monkeypatch.setattr(_folder, "_MOST_BYTES", 100)
    with pytest.raises(ValueError, match="pictures-.* 100 "):
        _folder._images(place(written, "pictures"))


@pytest.mark.parametrize("stem", ["rain", "pictures"])
def test_what_is_no_file_does_not_hang(folder, stem):
    path = place(folder, stem)
    path.unlink()
    os.mkfifo(path)
    error = error_within_20_seconds(lambda: reporting.read_results(folder))
    assert f"{path.name}: not a regular file but a named pipe" in error


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
        ({"pictures": ((picture(level=9.0),), ())}, "level"),
        ({"assessments": assessment()}, "assessments"),
        ({"network": 3}, "network"),
        ({"roma": assessment()}, "roma"),
        ({"plan": "plan.toml"}, "plan"),
        ({"regressions": "x"}, "regressions"),
        ({"pictures": ((1,), ())}, "pictures"),
    ):
        with pytest.raises((TypeError, ValueError), match=says):
            results(**changes)


@pytest.mark.parametrize("stem", ["results.json", "rain", "pictures"])
def test_links_out_of_the_folder_are_not_followed(folder, stem):
    outside = folder.parent / "outside"
    path = folder / stem if "." in stem else place(folder, stem)
    path.unlink()
    path.symlink_to(outside)
    for secret in (None, b"secret"):
        if secret:
            outside.write_bytes(secret)
        assert "secret" not in refused(folder, f"{path.name}: a link")


def test_links_within_the_folder_and_to_it_are_followed(folder, tmp_path):
    path = place(folder, "rain")
    path.rename(folder / "kept")
    path.symlink_to("kept")
    (tmp_path / "link").symlink_to(folder)
    assert len(reporting.read_results(tmp_path / "link").assessments) == 2
