"""What each command does, with networks and pictures of every kind."""

import csv
import dataclasses
import json
import pathlib
import re
import shlex
import tarfile

import numpy as np
import pytest
from PIL import Image

import jaxrob
from jaxrob import alterations, data, networks, reporting, training
from jaxrob._classifiers.network import on_host
from jaxrob._command import catalogue, run, user_code
from jaxrob._command.catalogue import _image
from jaxrob._command.network import load_network
from jaxrob.reporting import Requirement
from jaxrob.reporting import read_results as results

from .outcomes import check, only, succeeded


def test_the_answers_are_those_of_the_library(assess, place, nearest, tmp_path):
    assert assess("--levels=21", "--confidence_level=0.99")[0] == 0
    dataset = data.image_folder(place / "pictures", grey=True)
    expected = jaxrob.assess(
        jaxrob.Classifier.from_host(nearest, 10),
        dataset,
        alterations.brightness(),
        strategy=jaxrob.strategies.Uniform(21),
        confidence_level=0.99,
    )
    found = only(tmp_path / "results")
    np.testing.assert_array_equal(found.values, expected.values)
    assert found.robustness == expected.robustness
    assert found.confidence_interval == expected.confidence_interval
    assert found.provenance["dataset"] == expected.provenance["dataset"]
    check(assess("--confidence_level=1"), 2, "confidence_level")


@pytest.mark.parametrize("name", ["made", "classifier"])
def test_a_classifier_of_the_users(assess, tmp_path, name):
    assert assess(f"--classifier=net.py:{name}", "--name=mine")[0] == 0
    assert results(tmp_path / "results").network == "mine"
    assert only(tmp_path / "results").values[1] > 0.8


def test_preprocessing_is_that_of_the_flags(place, monkeypatch):
    monkeypatch.chdir(place)
    values = run._COMMANDS["assess"].flags
    given = "--scale=255", "--mean=1,2,3", "--std=4", "--channels_first"
    values(["assess", "--classifier=net.py:net", *given])
    found = on_host(load_network(values, None).apply_fn).preprocessing
    assert found == jaxrob.Preprocessing(255, (1, 2, 3), 4, True)


def test_pictures_without_labels_are_stability(assess, tmp_path):
    status, out, err = assess("--labels=none")
    assert status == 0 and "stability of brightness" not in err
    assert only(tmp_path / "results").is_stability and "stability" in out


def test_labels_of_a_file_and_names_in_another_order(assess, place, tmp_path):
    """Where labels are names, the order of the names is that of the outputs."""
    assert assess()[0] == 0
    right = only(tmp_path / "results").values
    table = tmp_path / "labels.csv"
    labels = f"--labels={table}"
    pictures = sorted((place / "pictures").rglob("*.png"))
    rows = [f"{one.parent.name}/{one.name},{one.parent.name}" for one in pictures]
    table.write_text("\n".join(row[:-1] + "abcdefghij"[int(row[-1])] for row in rows))
    assert assess(labels, "--class_names=a,b,c,d,e,f,g,h,i,j")[0] == 0
    np.testing.assert_array_equal(only(tmp_path / "results").values, right)
    _, _, err = assess(labels, "--class_names=b,a,c,d,e,f,g,h,i,j")
    assert only(tmp_path / "results").values[1] < right[1]
    assert results(tmp_path / "results").class_names[:2] == ("b", "a")
    table.write_text("\n".join(row[:-1] + "10" for row in rows))
    check(assess(labels), 2, "10")


def test_groups_and_slices_of_a_table(assess, place, tmp_path):
    pictures = sorted((place / "pictures").rglob("*.png"))
    rows = [
        f"{one.parent.name}/{one.name},{one.parent.name},{'AB'[i % 2]},patient-{i % 9}"
        for i, one in enumerate(pictures)
    ]
    table = tmp_path / "labels.csv"
    table.write_text("\n".join(["file,label,scanner,patient", *rows]))
    given = f"--labels={table}", "--groups=patient", "--slices=scanner"
    page, gate = tmp_path / "page.md", "--require=worst_slice.robustness.low>=0.99"
    asked = *given, gate, f"--report={page}"
    check(assess(*asked), 1, "worst_slice.robustness.low is", "(scanner ")
    check(assess(*given[:2], gate), 2, "worst_slice.robustness.low", "--slices")
    found = only(tmp_path / "results")
    assert sorted(one.value for one in found.by("scanner").slices) == ["A", "B"]
    lows = [one.joint_interval.low for one in found.by("scanner").slices]
    assert reporting.quantities(found)["worst_slice.robustness.low"] == min(lows)
    (told,) = reporting.outcomes_of(reporting.read_results(tmp_path / "results"))
    highs = [one.joint_interval.high for one in found.by("scanner").slices]
    assert told.state == ("not met" if min(highs) < 0.99 else "not shown")
    said = page.read_text()
    assert "## By slices" in said and "| A | 20 |" in said and "9 by patient" in said
    assert "patient-" not in said + found.to_json()
    check(assess("--groups=patient"), 2, "--groups", "--labels=")
    check(assess(*given[:1], "--slices=site"), 2, "'site'")


def test_shards_that_are_read_when_needed_and_a_damaged_picture(
    assess, place, tmp_path
):
    assert assess()[0] == 0
    expected = only(tmp_path / "results")
    shard = tmp_path / "shard-0.tar"
    with tarfile.open(shard, "w") as archive:
        paths = sorted((place / "pictures").glob("*/*.png"))
        for number, path in enumerate(paths):
            label = tmp_path / "label"
            label.write_text(path.parent.name)
            archive.add(path, f"{number}.png")
            archive.add(label, f"{number}.cls")
        label.write_text("")
        archive.add(label, ".hidden")
    report = f"--report={tmp_path / 'report.md'}"
    asked = f"--images={tmp_path}/shard-{{0..0}}.tar", "--max_bytes=900", report
    succeeded(assess(*asked, "--pictures=8"))
    np.testing.assert_array_equal(only(tmp_path / "results").values, expected.values)
    shard.write_bytes(shard.read_bytes().replace(b"IDAT", b"XDAT", 1))
    status, _, err = assess(*asked)
    assert status == 2 and "0.png: not a readable picture" in err
    status, _, err = assess(*asked, "--unreadable=leave_out")
    assert status == 0 and "1 of 40 pictures are unreadable" in err
    reading = only(tmp_path / "results").provenance["dataset"]["reading"]
    left_out = {"number": 1, "of": 40, "names": ["shard-0.tar/0.png"]}
    assert reading["left_out"] == left_out
    text = (tmp_path / "report.md").read_text()
    assert "1 of 40, which are unreadable: " in text and "1, hidden or of" in text


def test_a_report_of_an_assessment_is_that_of_its_folder(
    assess, jaxrob_command, tmp_path
):
    reports = [tmp_path / name for name in ("a.html", "a.md", "b.html", "b.md")]
    asked = [f"--report={one}" for one in reports]
    assert assess("--require=robustness>=0", "--pictures=8", *asked[:2])[0] == 0
    folder = f"{tmp_path / 'results'}"
    assert jaxrob_command("report", folder, *asked[2:])[0] == 0
    html, markdown, again, again_markdown = (one.read_text() for one in reports)
    assert (html, markdown) == (again, again_markdown)
    assert "net.py:net" in html and "brightness" in markdown
    succeeded(jaxrob_command("report", folder))
    assert (tmp_path / "results" / "report.html").read_text() == html
    # It says how all numbers and digests are had again.
    (network,) = reporting.read_report(reports[0])["networks"]
    _, *words = shlex.split(network["runs"][0]["command"])
    assert words[-1] == "--seed=0" and succeeded(jaxrob_command(*words))
    (now,) = reporting.read_report(reports[0])["networks"]
    assert now["assessments"] == network["assessments"]
    check(jaxrob_command("report", f"{tmp_path / 'nowhere'}"), 2, "nowhere")
    check(jaxrob_command("report"), 2, "folder...")


def test_messages_name_flags(jaxrob_command, tmp_path):
    folder = tmp_path / "pictures" / "some"
    folder.mkdir(parents=True)
    for width in (8, 9):
        Image.new("L", (width, 8)).save(folder / f"{width}.png")
    arguments = ("assess", "--classifier=net.py:net", f"--images={folder.parent}")
    check(jaxrob_command(*arguments), 2, "--size=height,width")
    check(jaxrob_command(*arguments, "--dct_scaling"), 2, "--resize=", "--size=")
    check(jaxrob_command(*arguments, "--crop=9"), 2, "--crop=9,9")


def test_compare(assess, jaxrob_command, tmp_path):
    for name, own in (("old", "net"), ("new", "worse")):
        given = f"--classifier=net.py:{own}", f"--output={tmp_path / name}"
        succeeded(assess("--levels=9", *given))
    old, new = f"{tmp_path / 'old'}", f"{tmp_path / 'new'}"
    status, out, err = jaxrob_command("compare", old, new)
    assert status == 1 and "brightness: robustness is" in err
    difference = only(new).robustness - only(old).robustness
    found = re.search(r"difference ([+-][.\d]+)", out)
    assert float(found[1]) == pytest.approx(difference, abs=0.02)
    assert jaxrob_command("compare", new, old)[0] == 0
    (brightness,) = pathlib.Path(old).glob("brightness-*.json")
    assert jaxrob_command("compare", str(brightness), old)[0] == 0
    # A name of a file's writes no line of its own.
    one = jaxrob.Assessment.from_json(brightness.read_text())
    forged = tmp_path / "forged.json"
    one = dataclasses.replace(one, alteration="a\n\x1bblur: 5% -> 9%")
    forged.write_text(one.to_json())
    out = succeeded(jaxrob_command("compare", f"{forged}", f"{forged}"))
    assert out.startswith("a (U+001B)blur: 5% -> 9%: ")
    check(jaxrob_command("compare", old), 2, "expected old new")
    other = f"{tmp_path / 'other'}"
    assert assess("--threshold=0.7", f"--output={other}")[0] == 0
    check(jaxrob_command("compare", old, other), 2, "brightness")


def test_roma(assess, roma, jaxrob_command, tmp_path):
    folder = f"{tmp_path / 'results'}"
    assert assess("--require=robustness>=0")[0] == 0
    out = succeeded(roma("--require=plr>=0"))
    both = results(folder)
    assert len(both.roma.plr) == 40 and both.assessments[0].alteration == "brightness"
    assert both.requirements == (Requirement("robustness", 0), Requirement("plr", 0))
    assert "RoMA is not compared" in jaxrob_command("compare", folder, folder)[2]
    assert "RoMA is not compared" in assess(f"--regressions={folder}")[2]
    assert f"mean plr {both.roma.plr.mean():.6f}" in out
    out = succeeded(roma("--half_width=0.1", "--confidence_level=0.99"))
    assert "; the mean over all lies" in out and "(99 %)" in out
    assert results(folder).roma.half_width == 0.1
    assert results(folder).roma.confidence_level == 0.99


@pytest.mark.parametrize(
    ("argument", "status", "says"),
    [
        ("--estimator=importance", 2, "JAX can differentiate"),
        ("--confidence_level=1", 2, "confidence_level"),
        ("--half_width=0", 2, "half_width"),
        # Fifty draws leave the lower end far below 1.
        ("--require=plr.low>=0.99", 1, "not shown to be good enough: RoMA: plr.low"),
    ],
)
def test_what_roma_refuses(roma, argument, status, says):
    check(roma(argument), status, says)


def test_a_dry_run_says_what_there_will_be(assess, tmp_path):
    status, out, err = assess(
        "--dry_run", "--alterations=contrast", "--alterations=brightness(0,50)"
    )
    assert status == 0
    assert "40 images x 3 levels x 2 alterations: 240 forward passes" in out
    assert "warning: brightness: " in err and "divide percent by 100" in err
    assert not (tmp_path / "results").exists()
    # What is wrong is said all the same.
    assert assess("--dry_run", "--alterations=zoom(3,4)")[0] == 2


def test_a_journal_spares_the_network(assess, tmp_path):
    calls = f"--journal={tmp_path / 'journal'}"
    assert assess(calls)[0] == 0
    first = only(tmp_path / "results").values
    counted = user_code.load("net.py:net", "classifier").__globals__["CALLS"]
    del counted[:]
    assert assess(calls)[0] == 0
    # It is asked for its classes, but for no picture's any more.
    assert sum(counted) < 40
    np.testing.assert_array_equal(only(tmp_path / "results").values, first)
    assert len(list((tmp_path / "journal").iterdir())) == 1


def test_the_digits_without_a_network(jaxrob_command, nearest, tmp_path, monkeypatch):
    trained = []

    def fit(module, dataset, *, key, epochs, progress):
        trained.append((type(module), len(dataset), epochs))
        return jaxrob.Classifier.from_host(nearest, 10)

    monkeypatch.setattr(training, "fit", fit)
    arguments = (
        "assess", "--alterations=brightness", "--levels=3", "--num_images=40",
        "--noprogress", "--pictures=0", f"--output={tmp_path}",
    )  # fmt: skip
    out = succeeded(jaxrob_command(*arguments))
    assert trained == [(networks.MLP, len(data.digits("train")), 20)]
    assert "small network trained on digits/train on digits/test: 39 images" in out
    assert only(tmp_path).values[1] > 0.8
    ran = jaxrob_command(*arguments, "--images=pictures")
    check(ran, 2, "--images needs --classifier")
    check(jaxrob_command("assess", "--classifier=net.py:net"), 2, "--images")


def test_the_list_of_alterations(jaxrob_command, place, tmp_path, monkeypatch):
    out = succeeded(jaxrob_command("alterations", "--size=50,200"))
    rows = {line.split()[0]: line.split()[1:3] for line in out.splitlines()[2:]}
    assert rows["horizontal_translation"] == ["-20,20", "px"]
    assert rows["gaussian_blur"] == ["0,2", "px"] and len(rows) == 8 + 9 + 19 + 2
    assert {"corruptions.fog", "imagenet_c", "cifar_c", "motion_blur"} < rows.keys()
    # All of them take long to draw.
    monkeypatch.setattr(catalogue, "NAMES", ("saturation", "contrast"))
    picture = tmp_path / "strip.png"
    drawing = "alterations", f"--pictures={picture}"
    assert "saturation is left out" in succeeded(jaxrob_command(*drawing))
    with Image.open(picture) as drawn:
        assert drawn.width > 500 > drawn.height > 100
    image = next((place / "pictures").rglob("*.png"))
    np.testing.assert_array_equal(_image(str(image))[..., 0], Image.open(image))
    for wrong in ("--pictures=strip.pdf", "--image=x.png", "--size=0"):
        assert jaxrob_command("alterations", wrong)[0] == 2
    assert jaxrob_command(*drawing, "--image=nowhere.png")[0] == 2


def test_corruptions_by_severity(assess, jaxrob_command, tmp_path):
    """ASAP looks at the severities too, from which the mean error is computed."""
    report = tmp_path / "report.md"
    arguments = (
        "assess", "--classifier=net.py:net", "--images=pictures", "--channels=grey",
        "--alterations=corruptions.contrast", "--noprogress", "--pictures=0",
        f"--output={tmp_path / 'results'}", f"--report={report}",
    )  # fmt: skip
    assert "15 corruptions" not in succeeded(jaxrob_command(*arguments))
    one = only(tmp_path / "results")
    assert {0, 1, 2, 3, 4, 5} < set(one.levels) and one.unit == "severity"
    assert "Including(strategy=ASAP(" in one.strategy
    errors = 1 - one.values[np.isin(one.levels, [1, 2, 3, 4, 5])]
    text = report.read_text()
    assert f"| {one.alteration} | {100 * errors.mean():.1f} %" in text
    assert "fails at severity" in text


def test_tables_of_a_folder(assess, jaxrob_command, tmp_path):
    succeeded(assess())
    folder = f"{tmp_path / 'results'}"
    found = reporting.read_results(folder)
    files = {
        "csv": reporting.to_csv(found),
        "levels_csv": reporting.to_csv(found, rows="levels"),
        "latex": reporting.to_latex(found),
    }
    asked = [f"--{name}={tmp_path / 'new' / name}" for name in files]
    assert succeeded(jaxrob_command("export", folder, *asked)).count("wrote ") == 3
    for name, text in files.items():
        assert (tmp_path / "new" / name).read_text() == text
    check(jaxrob_command("export", folder), 2, "--csv=...")
    same = [f"--{name}={tmp_path / 'x'}" for name in ("csv", "latex")]
    check(jaxrob_command("export", folder, *same), 2, "another file")
    none = f"--roma_csv={tmp_path / 'x'}"
    check(jaxrob_command("export", folder, none), 2, "'roma'")
    check(jaxrob_command("export", f"{tmp_path / 'y'}", none), 2, "no such")
    check(jaxrob_command("export", folder, "--csv=/proc/x"), 2, "/proc/x")
    assert not (tmp_path / "x").exists()


def test_pictures_that_fail_first(assess, tmp_path):
    folder = tmp_path / "failing"
    said = succeeded(assess(f"--failing={folder}", "--alterations=brightness"))
    assert f"wrote {folder / 'brightness'}/: " in said
    with open(folder / "brightness" / "failing.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    first = only(tmp_path / "results").first_failing_level
    assert rows and all(float(one["level"]) == first[int(one["index"])] for one in rows)
    assert all(one["source"].endswith(".png") for one in rows)
    tasks = json.loads((folder / "brightness" / "tasks.json").read_text())
    assert len(tasks) == len(rows)
    check(assess(f"--failing={folder}"), 2, "it must be empty")
    few = f"--failing={tmp_path / 'x'}", "--half_width=0.1"
    check(assess(*few), 2, "--failing needs")
