"""--half_width, --budget and --curtail: as few images as the answer needs."""

import dataclasses

import numpy as np
import pytest

import jaxrob
from jaxrob import alterations, data, reporting, strategies

from .outcomes import check, only, succeeded

NUM_IMAGES = 3000
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
BLUR = "--alterations=gaussian_blur(0,6)"
DECIDED = "--require=decided_ratio>=0.5"


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """3,000 noisy digits, more than a few blocks."""
    digits, rng = data.digits("test"), np.random.default_rng(0)
    picked = rng.integers(len(digits), size=NUM_IMAGES)
    noisy = digits.images[picked] + rng.normal(0, 20, (NUM_IMAGES, 28, 28, 1))
    path = tmp_path_factory.mktemp("images") / "many.npz"
    labels = digits.labels[picked]
    np.savez(path, images=np.clip(noisy, 0, 255).astype(np.uint8), labels=labels)
    return path


@pytest.fixture
def few(jaxrob_command, images, tmp_path):
    """Runs an assessment of a blur with ASAP; what is given comes last."""

    def run(*arguments):
        planned = any(one.startswith("--plan") for one in arguments)
        asked = any(one.startswith("--alterations") for one in arguments)
        return jaxrob_command(
            "assess",
            "--classifier=net.py:net",
            f"--images={images}",
            *([] if planned else ["--threshold=0.6"]),
            *([] if asked or planned else [BLUR]),
            "--noprogress",
            f"--output={tmp_path / 'results'}",
            *arguments,
        )

    return run


@pytest.fixture(scope="module")
def truth(images, nearest):
    """The robustness of all images at 1,025 levels, without the command."""
    with np.load(images) as found:
        dataset = jaxrob.Dataset(found["images"], found["labels"])
    classifier = jaxrob.Classifier.from_host(nearest, 10)
    blur = alterations.gaussian_blur(0, 6)
    asap = strategies.ASAP(statistical_stopping=False)
    return jaxrob.assess(classifier, dataset, blur, 0.6, strategy=asap).robustness


@pytest.mark.parametrize("asked", ["--half_width=0.05", "--half_width=0.02"])
def test_a_half_width_is_kept_near_the_answer_of_all_images(
    few, truth, tmp_path, asked
):
    out = succeeded(few(asked, f"--report={tmp_path / 'report.md'}"))
    one, half_width = only(tmp_path / "results"), float(asked.partition("=")[2])
    low, high = one.dataset_interval
    # The interval holds it 95 times of 100: tests/assessment/test_few.py counts.
    assert (
        low - half_width <= truth <= high + half_width and high - low <= 2 * half_width
    )
    assert one.sampling.half_width == half_width and one.sampling.status == "precise"
    assert f"{low:.2%} - {high:.2%}" in out and f"asked: within {half_width}" in out
    assert f"{one.evaluations:,} altered ones were classified" in out
    assert f"{100 * low:.2f} to {100 * high:.2f} %" in (
        tmp_path / "report.md"
    ).read_text().replace("\\", "")


def test_curtailed_it_is_the_answer_of_all_images(few, truth, tmp_path):
    assert few("--curtail")[0] == 0
    one = only(tmp_path / "results")
    assert abs(one.robustness - truth) <= 1 / 1024 and one.sampling.error == 0


def test_evenly_spaced_levels(few, tmp_path):
    assert few("--half_width=0.05", "--levels=33")[0] == 0
    assert only(tmp_path / "results").diagnostics.points == 33


def test_a_budget_is_of_all_alterations_together(few, tmp_path):
    out = succeeded(few("--budget=8000", BLUR, "--alterations=zoom(1,2)"))
    found = reporting.read_results(tmp_path / "results").assessments
    assert sum(one.evaluations for one in found) <= 8000
    assert "at most 8,000 altered images in all" in out


def test_a_requirement_ends_early(few, tmp_path):
    few("--half_width=0.01")
    whole = only(tmp_path / "results")
    for least, status in ((0.05, 0), (0.95, 1)):
        found, _, err = few("--half_width=0.01", f"--require=robustness>={least}")
        one = only(tmp_path / "results")
        assert found == status, err
        assert one.sampling.status == "certain"
        assert one.evaluations < 0.5 * whole.evaluations
    assert "robustness is between" in err and "at least 0.95 is required" in err


def test_the_strictest_requirement_ends_it(few, tmp_path):
    texts = ("--require=robustness>=0.05", "--require=robustness>=0.95")
    assert few("--half_width=0.01", *texts)[0] == 1
    assert only(tmp_path / "results").dataset_interval.high < 0.95


def test_the_lower_end_does_not_end_early(few, tmp_path):
    few("--half_width=0.02")
    whole = only(tmp_path / "results")
    texts = ("--require=robustness.low>=0.05", "--require=robustness>=0.05")
    assert few("--half_width=0.02", *texts)[0] == 0
    assert only(tmp_path / "results").evaluations == whole.evaluations


def test_what_is_not_sure_does_not_pass(few, truth):
    ran = few("--half_width=0.05", f"--require=robustness>={truth - 0.001}")
    check(ran, 1, "robustness is not sure, between")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--half_width=0.5"], "--half_width must lie in [0, 0.5)"),
        (["--half_width=0.1", "--measure=f1"], '--measure="f1" needs all images'),
        (["--curtail", "--measure=precision"], '--measure="precision" needs all'),
        (
            ["--budget=10", DECIDED],
            "--require: decided_ratio needs all images",
        ),
        (
            ["--half_width=0.1", "--require=robustness>=0", DECIDED],
            "What goes with them: robustness",
        ),
        (["--budget=0"], "budget"),
        (["--half_width=-0.1"], "half_width"),
        (["--half_width=much"], "half_width"),
    ],
)
def test_what_does_not_go_together_is_refused_before_anything(
    few, tmp_path, arguments, says
):
    check(few(*arguments), 2, says)
    assert not (tmp_path / "results").exists()


def test_comparisons_need_all_images(few, jaxrob_command, tmp_path):
    assert few("--half_width=0.05")[0] == 0
    folder = f"{tmp_path / 'results'}"
    earlier = f"--regressions={folder}"
    check(few(earlier, f"--output={tmp_path / 'new'}"), 2, "is from few images")
    ran = few("--half_width=0.05", earlier)
    check(ran, 2, "compare the answers on every image")
    ran = jaxrob_command("compare", folder, folder)
    check(ran, 2, "must be assessed on all images")


def test_a_plan_may_say_it(few, tmp_path):
    path = tmp_path / "plan.toml"
    path.write_text(PLAN)
    report = tmp_path / "report.md"
    assert few(f"--plan={path}", f"--report={report}")[0] == 0
    one = only(tmp_path / "results")
    assert one.sampling.half_width == 0.05 and not one.sampling.curtail
    text = report.read_text()
    assert "half width 0.05" in text and "differ from the plan" not in text
    check(few(f"--plan={path}", "--budget=5000"), 2, "--budget: the plan says it")
    # One that does not say it leaves it to the flags.
    path.write_text(PLAN.replace("half_width = 0.05\n", ""))
    assert few(f"--plan={path}", "--half_width=0.1")[0] == 0
    assert only(tmp_path / "results").sampling.half_width == 0.1


def test_a_report_says_where_a_plan_was_not_followed(few, tmp_path):
    path = tmp_path / "plan.toml"
    path.write_text(PLAN)
    assert few(f"--plan={path}")[0] == 0
    found = reporting.read_results(tmp_path / "results")
    (one,) = found.assessments
    sampling = one.sampling._replace(half_width=0.1)
    changed = (dataclasses.replace(one, sampling=sampling),)
    text = reporting.to_markdown([dataclasses.replace(found, assessments=changed)])
    assert "number of images was not chosen as the plan says, half width 0.05" in text


def test_a_dry_run_says_what_it_takes_at_most(few):
    out = succeeded(few("--half_width=0.05", "--levels=21", "--dry_run"))
    assert "--half_width=0.05: at most about 63,000 of these" in out
    assert "time: at most about" in out
    out = few("--budget=4000", "--curtail", "--levels=21", "--dry_run")[1]
    assert "--budget=4000 --curtail: at most about 4,000 of these" in out


def test_corruptions_have_no_means_from_few_images(few, tmp_path):
    noise = "--alterations=corruptions.gaussian_noise"
    report = tmp_path / "report.md"
    status, _, err = few("--half_width=0.1", noise, f"--report={report}")
    assert status == 0 and "benchmarks of corruptions publish are of all" in err
    assert "| gaussian noise | not known |" in report.read_text()


def test_the_help_says_what_goes_together(jaxrob_command):
    out = jaxrob_command("assess", "--help")[1]
    assert "How many images are looked at:" in out
    for flag in ("--half_width", "--budget", "--[no]curtail"):
        assert f"  {flag}\n" in out


def test_an_interruption_goes_on_from_the_journal(few, tmp_path, monkeypatch):
    known = jaxrob.assess

    def interrupted(*arguments, **named):
        known(*arguments, **named)
        raise KeyboardInterrupt

    arguments = ("--classifier=net.py:made", "--half_width=0.1")
    journal = f"--journal={tmp_path / 'journal'}"
    with monkeypatch.context() as patched:
        patched.setattr(jaxrob, "assess", interrupted)
        status, _, err = few(*arguments, journal)
    assert status == 3 and "no alteration is finished" in err
    assert "a rerun with the same flags goes on" in err
    assert few(*arguments, journal)[0] == 0
    again = only(tmp_path / "results")
    assert few(*arguments, f"--output={tmp_path / 'other'}")[0] == 0
    fresh = only(tmp_path / "other")
    np.testing.assert_array_equal(again.curve.confusion, fresh.curve.confusion)
    assert again.dataset_interval == fresh.dataset_interval
