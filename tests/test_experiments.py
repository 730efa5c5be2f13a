"""The scripts, run as their users run them, at small settings."""

import json
import os
import pathlib
import subprocess
import sys

import jaxrob

EXPERIMENTS = pathlib.Path(__file__).parents[1] / "experiments"


def run(script, *arguments, **environment):
    done = subprocess.run(
        [sys.executable, EXPERIMENTS / script, *arguments],
        env=os.environ | environment,
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stdout, done.stderr


def test_quickstart(tmp_path):
    code, out, err = run(
        "quickstart.py",
        "--model=mlp",
        "--epochs=3",
        "--num_images=100",
        "--levels=5",
        "--noprogress",
        f"--output={tmp_path}",
    )
    assert code == 0, err
    names = {path.stem for path in tmp_path.glob("*.json")}
    assert names == {
        "horizontal_translation",
        "vertical_translation",
        "rotation",
        "brightness",
        "zoom",
        "gaussian_noise",
        "gaussian_blur",
        "jpeg_compression",
    }
    for name in names:
        text = (tmp_path / f"{name}.json").read_text()
        assessment = jaxrob.Assessment.from_json(text)
        assert f"{assessment.robustness:.2%}" in out
        # Five of five hundred digits; the network has learnt something.
        unaltered = assessment.values[assessment.levels == assessment.identity]
        assert unaltered > 0.7
    assert (tmp_path / "robustness.png").read_bytes().startswith(b"\x89PNG")


def test_quickstart_says_what_it_lacks(tmp_path):
    code, _, err = run(
        "quickstart.py",
        "--dataset=mnist",
        f"--data_dir={tmp_path}",
        f"--output={tmp_path}",
    )
    assert code != 0
    assert "FileNotFoundError" in err and "digits" in err and str(tmp_path) in err


def test_throughput(tmp_path):
    code, out, err = run(
        "throughput.py",
        "--networks=mlp,idc_cnn",
        "--num_images=20",
        "--num_levels=2",
        "--repeats=1",
        "--batch_sizes=10,20",
        f"--output={tmp_path}",
        JAXROB_DATA_DIR=str(tmp_path),
    )
    assert code == 0, err
    document = json.loads((tmp_path / "throughput.json").read_text())
    assert [result["network"] for result in document["results"]] == ["mlp", "idc_cnn"]
    for result in document["results"]:
        assert result["dataset"] == "noise"
        assert len(result["alterations"]) == 8
        for row in result["alterations"]:
            assert row["images_per_second"] > 0
            assert row["alteration"] in out
