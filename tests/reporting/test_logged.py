"""What trackers of experiments are given; MLflow gives it back."""

import json
import math
import re

import pytest

import jaxrob
from jaxrob import reporting

from . import reports


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
    one = reports.assessment(
        answers=reports.curve([4.0] * 60, uncertainty=0.9, alpha=0.5), error_bound=None
    )
    found = reporting.logged(one)
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
