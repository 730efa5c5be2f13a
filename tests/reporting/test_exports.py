"""What trackers are given, and the folder of pictures, as other programs read it."""

import csv
import json
import math
import pathlib
import re
import urllib.parse

import numpy as np
import pytest
from PIL import Image

import jaxrob
from jaxrob import data, reporting
from jaxrob.reporting import _exports
from jaxrob.reporting._columns import cell, escaped

from . import reports
from .test_pictures import (
    BRIGHTER,
    DATASET,
    IMAGES,
    NOISE,
    brighter,
    key,
    noisy,
    with_curve,
)


def rows(folder):
    with open(folder / "failing.csv", encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("alteration", "result"), [(NOISE, noisy), (BRIGHTER, brighter)]
)
def test_holds_the_pictures_that_fail_first_and_what_was_answered(
    alteration, result, tmp_path
):
    result = result()
    number = reporting.write_failing(
        tmp_path / "new" / "x", result, alteration, DATASET, key(), most=5
    )
    folder = tmp_path / "new" / "x"
    found = rows(folder)
    assert len(found) == number == 5
    distance = np.abs(result.first_failing_level)
    failing = np.sort(distance[distance > 0])
    assert [abs(float(one["level"])) for one in found] == failing[:5].tolist()
    for one in found:
        index = int(one["index"])
        with Image.open(folder / one["unaltered"]) as image:
            np.testing.assert_array_equal(np.asarray(image), IMAGES[index, ..., 0])
        with Image.open(folder / one["altered"]) as image:
            corner = np.asarray(image)[0, 0]
        # The network answers by the pixel in the corner.
        if corner not in (127, 128):
            assert one["answer"] == f"class {int(corner > 127)}"
        assert one["answer"] != one["right"] == one["answer_unaltered"]
        place = np.flatnonzero(result.levels == float(one["level"]))[0]
        assert float(one["confidence"]) == result.curve.confidence[place, index]
    files = {path.relative_to(folder).as_posix() for path in folder.rglob("*.png")}
    named = {one[part] for one in found for part in ("unaltered", "altered")}
    assert files == named and len(files) == 10


def test_fiftyone_and_label_studio_find_each_picture(tmp_path):
    """By the formats that their documentation states."""
    folder = tmp_path / "a b#?&"
    names = ("unknown", "=cmd <script>\x00\u202e \ud800")
    reporting.write_failing(
        folder, brighter(), BRIGHTER, DATASET, most=5, class_names=names
    )
    labels = json.loads((folder / "labels.json").read_text())
    assert labels.keys() == {"classes", "labels"} and labels["classes"] is None
    stems = {path.stem for path in (folder / "data").iterdir()}
    assert labels["labels"].keys() == stems
    for one in labels["labels"].values():
        assert one.keys() == {"label", "confidence", "attributes"}
        assert one["label"] in map(escaped, names) and 0 <= one["confidence"] <= 1
    for one in rows(folder):
        assert {one["right"], one["answer"]} == set(map(cell, names))
    assert {path.name for path in folder.iterdir()} == {
        *("data", "failing.csv", "labels.json", "tasks.json")
    }
    assert all(stem.replace("_", "").isalnum() for stem in stems)
    for task in json.loads((folder / "tasks.json").read_text()):
        url = urllib.parse.urlsplit(task["data"]["image"])
        assert url.path == "/data/local-files/" and not url.fragment
        (where,) = urllib.parse.parse_qs(url.query)["d"]
        # Below the folder that this folder is in.
        assert (tmp_path / where).is_file()
        (prediction,) = task["predictions"]
        assert 0 <= prediction["score"] <= 1
        (answer,) = prediction["result"]
        assert answer["type"] == "choices" and len(answer["value"]["choices"]) == 1


def test_nothing_that_is_there_is_touched(tmp_path, monkeypatch):
    result = brighter()
    (tmp_path / "mine.txt").write_text("mine")
    for folder in (tmp_path, tmp_path / "mine.txt"):
        with pytest.raises(FileExistsError, match="folder must be empty"):
            reporting.write_failing(folder, result, BRIGHTER, DATASET)
    assert [one.name for one in tmp_path.iterdir()] == ["mine.txt"]
    write = _exports.write_new

    def full(path, content):
        if path.name == "labels.json":
            raise OSError(28, "No space left on device", str(path))
        write(path, content)

    monkeypatch.setattr(_exports, "write_new", full)
    with pytest.raises(OSError, match="No space left"):
        reporting.write_failing(tmp_path / "x", result, BRIGHTER, DATASET, most=5)
    assert not [*(tmp_path / "x").iterdir()]


def test_pictures_of_a_folder_keep_the_names_of_their_files(tmp_path):
    for index, image in enumerate(IMAGES):
        path = tmp_path / "in" / "ab"[int(DATASET.labels[index])] / f"=p{index}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image[..., 0]).save(path)
    # In memory, and read when it is needed.
    held, read = (
        data.image_folder(tmp_path / "in", grey=True, max_bytes=most)[::2]
        for most in (1 << 30, 1)
    )
    # The images in the order of the folder.
    order = [int(pathlib.PurePath(name).stem[2:]) for name in held._file_names]
    curve = brighter().curve
    parts = ("predicted", "confidence", "uncertainty")
    parts = {name: getattr(curve, name)[:, order] for name in parts}
    result = with_curve(brighter(), labels=curve.labels[order], **parts)
    for number, dataset in enumerate((held, read)):
        out = tmp_path / f"out{number}"
        assert reporting.write_failing(out, result, BRIGHTER, dataset, most=5)
        for one in rows(out):
            with Image.open(tmp_path / "in" / one["source"]) as image:
                source = np.asarray(image)
            with Image.open(out / one["unaltered"]) as image:
                np.testing.assert_array_equal(np.asarray(image), source)
            assert pathlib.PurePath(one["source"]).parts[-2] == one["right"]
    # A report names them as well.
    kept = reporting.pictures(result, BRIGHTER, held)
    page = reporting.to_html(
        [reporting.Results("net", held.class_names, (result,), pictures=(kept,))]
    )
    assert f"image {kept[0].index} ({kept[0].file}) of" in page
    assert (tmp_path / "in" / str(kept[0].file)).is_file()


def test_what_has_no_single_answers_is_refused(tmp_path):
    reduced = jaxrob.Assessment.from_json(noisy().to_json(answers=False))
    for arguments, name in (
        ((reduced, NOISE, DATASET, key()), "first_failing_level"),
        ((brighter(), NOISE, DATASET, key()), "alteration"),
        ((noisy(), NOISE, DATASET, key(6)), "key"),
        ((brighter(), BRIGHTER, DATASET, None, 5, ("a",)), "class_names"),
        ((brighter(), BRIGHTER, DATASET, None, 5, ("a", "b", "c")), "class_names"),
    ):
        with pytest.raises(ValueError, match=name):
            reporting.write_failing(tmp_path / "x", *arguments)
    assert not (tmp_path / "x").exists()


def test_numbers_and_files_of_a_result():
    one = reports.assessment()
    found = reporting.logged(reports.results([one]), step=7)
    values = {name: (value, step) for name, value, step in found.metrics}
    assert values["gaussian_blur/robustness"] == (one.robustness, 7)
    levels = [
        (value, step)
        for name, value, step in found.metrics
        if name == "gaussian_blur/at_levels/level"
    ]
    assert levels == [(level, place) for place, level in enumerate(one.levels)]
    files = dict(found.files)
    assert list(files) == ["results.csv", "levels.csv", "gaussian_blur.json"]
    again = jaxrob.Assessment.from_json(files["gaussian_blur.json"])
    assert again.robustness == one.robustness
    assert files["results.csv"] == reporting.to_csv(reports.results([one]))


def test_what_is_not_known_is_left_out():
    answers = reports.curve([4.0] * 60, uncertainty=0.9, alpha=0.5)
    found = reporting.logged(reports.assessment(answers=answers, error_bound=None))
    assert all(math.isfinite(value) for _, value, _ in found.metrics)
    names = {name for name, _, _ in found.metrics}
    assert "gaussian_blur/interval_low" in names
    assert not {"gaussian_blur/robustness", "gaussian_blur/error_bound"} & names


def test_hostile_names_stay_apart_and_allowed():
    names = ("a b", "a_b", "A b", "../../x", "=1", "\u202e", "\n", "x" * 10_000, "roma")
    found = reporting.logged([reports.assessment(name=name) for name in names])
    metrics = {(name, step) for name, _, step in found.metrics}
    assert len(metrics) == len(found.metrics)
    assert all(re.fullmatch("[a-z0-9_/]{1,250}", name) for name, _ in metrics)
    # No name is a folder of another.
    whole = {name for name, _ in metrics}
    assert not any(f"{one}/" in other for one in whole for other in whole)
    files = [name for name, _ in found.files]
    assert len(set(files)) == len(files) == len(names) + 2
    assert all(re.fullmatch(r"[a-z0-9_]{1,250}\.(json|csv)", name) for name in files)


def test_two_of_one_alteration_are_refused():
    one = reports.assessment()
    with pytest.raises(ValueError, match="got 2 of 'gaussian blur'"):
        reporting.logged([one, one])
    with pytest.raises(ValueError, match="of one network"):
        reporting.logged([one, reports.other(one, alteration="zoom")])
    with pytest.raises(TypeError, match="step must be"):
        reporting.logged(one, step=0.5)


def test_mlflow_gives_back_the_same_numbers_and_files(tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow", reason="needs mlflow")
    monkeypatch.chdir(tmp_path)
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path}/runs.db")
    client = mlflow.MlflowClient()
    experiment = client.create_experiment("e", artifact_location=f"file:{tmp_path}/a")
    names = ("gaussian blur", "A/b", "\u202e=1", "x" * 10_000)
    third = {"error_bound": 1 / 3, "seconds": 1e-300}
    found = reporting.logged([reports.assessment(name=name, **third) for name in names])
    with mlflow.start_run(experiment_id=experiment) as run:
        for name, value, step in found.metrics:
            mlflow.log_metric(name, value, step=step)
        for name, content in found.files:
            mlflow.log_text(content, name)
    for wanted in {name for name, _, _ in found.metrics}:
        history = client.get_metric_history(run.info.run_id, wanted)
        read = sorted((one.step, one.value) for one in history)
        assert read == [(s, v) for name, v, s in found.metrics if name == wanted]
    for name, content in found.files:
        path = mlflow.artifacts.download_artifacts(
            run_id=run.info.run_id, artifact_path=name
        )
        with open(path, encoding="utf-8", newline="") as file:
            assert file.read() == content
    assert json.loads(found.files[-1].content)["alteration"] == "x" * 10_000
