"""--half_width, --budget and --curtail: as few images as the answer needs."""

import numpy as np
import pytest

from jaxrob import data, reporting

from .outcomes import check, only, succeeded

NUM_IMAGES = 700
PLAN = """
name = "few"
date = 2026-03-02
threshold = 0.6
half_width = 0.05
requirements = ["robustness>=0.1"]

[[alterations]]
name = "brightness"
lower = -0.9
upper = 0.0
"""
DARK = "--alterations=brightness(-0.9,0)"
DECIDED = "--require=decided_ratio>=0.5"


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """Noisy digits, more than a few blocks."""
    digits, rng = data.digits("test"), np.random.default_rng(0)
    picked = rng.integers(len(digits), size=NUM_IMAGES)
    noisy = digits.images[picked] + rng.normal(0, 20, (NUM_IMAGES, 28, 28, 1))
    path = tmp_path_factory.mktemp("images") / "many.npz"
    labels = digits.labels[picked]
    np.savez(path, images=np.clip(noisy, 0, 255).astype(np.uint8), labels=labels)
    return path


@pytest.fixture
def few(jaxrob_command, images, tmp_path):
    def run(*arguments):
        planned = any(one.startswith("--plan") for one in arguments)
        asked = any(one.startswith("--alterations") for one in arguments)
        return jaxrob_command(
            "assess",
            "--classifier=net.py:net",
            f"--images={images}",
            *([] if planned else ["--threshold=0.6"]),
            *([] if asked or planned else [DARK]),
            "--noprogress",
            "--pictures=0",
            f"--output={tmp_path / 'results'}",
            *arguments,
        )

    return run


@pytest.fixture(scope="module")
def truth(images, place):
    """The robustness of all images, by hand: the network is linear."""
    means = np.load(place / "means.npy")
    with np.load(images) as found:
        flat, labels = found["images"].reshape(NUM_IMAGES, -1) / 255, found["labels"]
    scale = 1 + np.linspace(-0.9, 0.0, 1025)[:, None, None]
    scores = 2 * scale * (flat @ means.T) - np.square(means).sum(1)
    return ((scores.argmax(-1) == labels).mean(1) >= 0.6).mean()


@pytest.mark.slow
def test_a_half_width_is_kept_near_the_answer_of_all_images(few, truth, tmp_path):
    report = tmp_path / "report.md"
    out = succeeded(few("--half_width=0.05", f"--report={report}"))
    one = only(tmp_path / "results")
    low, high = one.dataset_interval
    # The interval holds it 95 times of 100: tests/assessment/test_few.py counts.
    assert low - 0.05 <= truth <= high + 0.05 and high - low <= 0.1
    assert one.sampling.half_width == 0.05 and one.sampling.status == "precise"
    assert f"{low:.2%} - {high:.2%}" in out and "within 0.05" in out
    assert f"{one.evaluations:,} altered ones were classified" in out
    text = report.read_text().replace("\\", "")
    assert f"{100 * low:.2f} to {100 * high:.2f} %" in text


def test_curtailed_it_is_the_answer_of_all_images(few, truth, tmp_path):
    assert few("--curtail")[0] == 0
    one = only(tmp_path / "results")
    assert abs(one.robustness - truth) <= 2 / 1024 and one.sampling.error == 0


def test_a_budget_is_of_all_alterations_together(few, tmp_path):
    """Corruptions have no means from few images."""
    contrast = "--alterations=corruptions.contrast"
    report = f"--report={tmp_path / 'report.md'}"
    status, out, err = few("--budget=3000", DARK, contrast, report)
    found = reporting.read_results(tmp_path / "results").assessments
    assert status == 0 and sum(one.evaluations for one in found) <= 3000
    assert "at most 3,000 altered images in all" in out
    assert "benchmarks of corruptions publish are of all" in err
    assert "| contrast | not known |" in (tmp_path / "report.md").read_text()


@pytest.mark.slow
def test_the_strictest_requirement_ends_it_early(few, truth, tmp_path):
    near = f"--require=robustness>={truth - 0.001}"
    check(few("--half_width=0.02", near), 1, "robustness is not sure, between")
    whole = only(tmp_path / "results")
    loose, strict = ("--require=robustness>=0.05", "--require=robustness>=0.95")
    for asked, status in (((loose,), 0), ((loose, strict), 1)):
        found, _, err = few("--half_width=0.02", *asked)
        one = only(tmp_path / "results")
        assert found == status, err
        assert one.sampling.status == "certain"
        assert one.evaluations < 0.5 * whole.evaluations
    assert one.dataset_interval.high < 0.95
    assert "robustness is between" in err and "0.95 is required" in err
    # The lower end of an interval does not.
    assert few("--half_width=0.02", loose, "--require=robustness.low>=0.05")[0] == 0
    one = only(tmp_path / "results")
    assert one.sampling.status == "precise"
    assert one.evaluations > 0.5 * whole.evaluations


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--half_width=0.5"], "--half_width must"),
        (["--half_width=much"], "half_width"),
        (["--budget=0"], "--budget=0"),
        (["--labels_array=y"], "it has no array 'y'"),
        (["--curtail", "--measure=f1"], '--measure="f1"'),
        (["--half_width=0.1", "--require=robustness>=0", DECIDED], "decided_ratio"),
    ],
)
def test_what_does_not_go_together_is_refused_before_anything(
    few, tmp_path, arguments, says
):
    check(few(*arguments), 2, says)
    assert not (tmp_path / "results").exists()


def test_comparisons_need_all_images(few, jaxrob_command, tmp_path):
    assert few("--half_width=0.05", "--levels=33")[0] == 0
    assert only(tmp_path / "results").diagnostics.points == 33
    folder = f"{tmp_path / 'results'}"
    earlier = f"--regressions={folder}"
    check(
        few(earlier, f"--output={tmp_path / 'new'}"), 2, "--regressions", "few images"
    )
    check(few("--half_width=0.05", earlier), 2, "--regressions and --earlier")
    check(jaxrob_command("compare", folder, folder), 2, "all images")


def test_a_plan_may_say_it(few, tmp_path):
    path = tmp_path / "plan.toml"
    path.write_text(PLAN)
    report = tmp_path / "report.md"
    assert few(f"--plan={path}", f"--report={report}")[0] == 0
    (one,) = reporting.read_results(tmp_path / "results").assessments
    assert one.sampling.half_width == 0.05 and not one.sampling.curtail
    text = report.read_text()
    assert "half width 0.05" in text and "differ from the plan" not in text
    check(few(f"--plan={path}", "--budget=5000"), 2, "--budget: the plan says it")
    # One that does not say it leaves it to the flags.
    path.write_text(PLAN.replace("half_width = 0.05\n", ""))
    assert few(f"--plan={path}", "--half_width=0.1")[0] == 0
    assert only(tmp_path / "results").sampling.half_width == 0.1
