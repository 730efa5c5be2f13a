"""Requirements of one alteration and of all, and the files of what came of them."""

from xml.etree import ElementTree

import numpy as np
import pytest

from jaxrob import alterations, reporting
from jaxrob._command import catalogue
from jaxrob.reporting import Requirement

from .outcomes import check, succeeded

BOTH = "--alterations=brightness", "--alterations=contrast"
PLAN = """
name = "cameras"
date = 2026-03-02
threshold = 0.8
requirements = ["robustness>=0"]

[[alterations]]
name = "brightness"
lower = -0.5
upper = 0.5

[[alterations]]
name = "contrast"
lower = 0.05
upper = 1
requirements = ["robustness>=1", "accuracy<=1"]
"""


@pytest.mark.slow
def test_one_alteration_has_a_bound_of_its_own(assess, tmp_path):
    assert assess(*BOTH, "--require=brightness: robustness>=0.01")[0] == 0
    folder = tmp_path / "results"
    status, _, err = assess(*BOTH, "--require=contrast: robustness>=1")
    assert status == 1 and "good enough: contrast: robustness is 0" in err
    assert "brightness" not in err
    assert reporting.read_results(folder).requirements == (
        Requirement("robustness", 1.0, ">=", "contrast"),
    )
    # The folder does not lose that it failed.
    check(assess(*BOTH), 2, "would drop the requirement contrast: robustness >= 1")
    brightness = "--require=brightness: robustness>=0"
    check(assess(*BOTH, brightness), 2, "the requirement contrast: robustness")
    assert assess(*BOTH, "--require=robustness>=0")[0] == 0


@pytest.mark.parametrize(
    ("required", "says"),
    [
        ("brightnes: robustness>=1", "Did you mean bright"),
        ("mce<=0.7", "not assessed: contrast, defocus"),
        ("difference>=-0.02", "--earlier"),
    ],
)
def test_what_nothing_could_meet_is_refused_at_once(assess, tmp_path, required, says):
    required = f"--require={required}"
    check(assess("--classifier=net.py:raises", required), 2, says)
    assert not (tmp_path / "results").exists()


def test_few_images_know_robustness_alone(assess):
    check(assess("--budget=50", "--require=worst_class>=0"), 2, "needs all images")


def test_a_plan_has_requirements_of_one_alteration(assess, tmp_path):
    (tmp_path / "plan.toml").write_text(PLAN)
    status, _, err = assess(f"--plan={tmp_path / 'plan.toml'}")
    assert status == 1 and "contrast: robustness is 0" in err
    assert "brightness" not in err
    found = reporting.read_results(tmp_path / "results")
    assert found.requirements == (
        Requirement("robustness", 0.0),
        Requirement("robustness", 1.0, ">=", "contrast"),
        Requirement("accuracy", 1.0, "<=", "contrast"),
    )
    assert "the plan requires something else" not in reporting.to_markdown([found])


def test_a_loss_that_is_allowed(assess, tmp_path):
    assert assess("--levels=9")[0] == 0
    earlier = f"--earlier={tmp_path / 'results'}"
    again = "--levels=9", earlier, f"--output={tmp_path / 'new'}"
    status, _, err = assess(*again, "--require=difference>=-0.6")
    assert status == 0, err
    # The same network, but of 40 images: more is not sure.
    status, _, err = assess(*again, "--require=difference>=0.01")
    assert status == 1 and "not shown to be good enough" in err
    worse = *again, "--classifier=net.py:worse", f"--output={tmp_path / 'bad'}"
    status, _, err = assess(*worse, "--require=difference>=-0.02")
    assert status == 1 and "brightness: difference is not sure, between -" in err
    found = reporting.read_results(tmp_path / "bad")
    (difference,) = found.differences
    assert difference.value < -0.02
    (one,) = reporting.outcomes_of(found)
    assert one.state == "not shown" and one.value == difference.interval
    assert assess(*worse, "--require=difference>=-1")[0] == 0
    # A difference to nothing, and an earlier result for nothing.
    check(assess(earlier), 2, "no difference is required")
    other = *BOTH, earlier, "--require=contrast: difference>=-1"
    ran = assess(*other, f"--output={tmp_path / 'other'}")
    check(ran, 2, "no assessment of contrast")


def test_the_files_are_written_if_the_gate_fails(assess, tmp_path):
    junit, summary = tmp_path / "deep" / "gate.xml", tmp_path / "summary.md"
    summary.write_text("what another step wrote\n")
    given = (f"--junit={junit}", f"--summary={summary}")
    both = "--require=robustness>=1", "--require=accuracy>=0"
    status, out, _ = assess(*given, "--threshold=1", *both)
    assert status == 1 and f"wrote {junit}" in out
    suite = ElementTree.parse(junit).getroot()[0]
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    first, second = suite.findall("testcase")
    assert first.get("name") == "brightness: robustness >= 1"
    assert first.find("failure").get("type") == "not met" and len(second) == 0
    text = summary.read_text()
    assert text.startswith("what another step wrote\n\n## jaxrob: net.py:net\n")
    assert "brightness | ❌ not met | robustness" in text


def test_roma_writes_them_too(roma, tmp_path):
    junit, summary = tmp_path / "gate.xml", tmp_path / "summary.md"
    given = (f"--junit={junit}", f"--summary={summary}")
    succeeded(roma(*given, "--require=plr>=0"))
    (case,) = ElementTree.parse(junit).getroot()[0].findall("testcase")
    assert case.get("name") == "RoMA: plr >= 0" and len(case) == 0
    assert "RoMA | ✅ met | plr" in summary.read_text()


@pytest.mark.parametrize("flag", ["junit", "summary"])
def test_a_file_that_cannot_be_is_refused_at_once(assess, tmp_path, flag):
    for name, rows in (("brightness", np.zeros((5, 28, 28, 1))), ("labels", range(5))):
        np.save(tmp_path / f"{name}.npy", rows)
    check(assess(f"--recorded={tmp_path}"), 2, "brightness is the name of two")
    check(assess(f"--{flag}={tmp_path}"), 2, "there is a folder of that name")
    (tmp_path / "file").write_text("")
    wrong = tmp_path / "file" / "gate.xml"
    check(assess(f"--{flag}={wrong}"), 2, f"--{flag}={wrong}", "cannot be written")
    assert not (tmp_path / "results").exists()


def test_an_interrupted_run_leaves_no_file(assess, interrupted, tmp_path):
    junit = tmp_path / "gate.xml"
    files = f"--junit={junit}", f"--summary={tmp_path / 's.md'}"
    status, _, _ = assess(*BOTH, *files, "--require=robustness>=0")
    assert status not in (0, 1)
    found = reporting.read_results(tmp_path / "results")
    (one,) = reporting.unmet(found.requirements, found)
    assert one.startswith("contrast: robustness is not known")
    assert not junit.exists() and not (tmp_path / "s.md").exists()
    assert not list(tmp_path.glob("*.part"))


@pytest.mark.slow
def test_each_reason_stays_with_its_alteration(monkeypatch, assess, tmp_path):
    """Also if one name of the plan stands for several."""
    several = [alterations.brightness(), alterations.contrast()]
    monkeypatch.setattr(catalogue, "PRESETS", ("several",))
    monkeypatch.setattr(catalogue, "_of_benchmark", lambda *_: several)
    plan = tmp_path / "plan.toml"
    named = '[[alterations]]\nname = "{}"\nlower = {}\nupper = {}\nreason = "{}"\n'
    plan.write_text(
        PLAN.partition("[[")[0]
        + named.format("several", 0, 5, "as published")
        + named.format("gaussian_noise", 0, 0.2, "the lens")
        + "settings = { clip = false }\n"
    )
    assert assess(f"--plan={plan}")[0] == 0
    found = reporting.read_results(tmp_path / "results")
    names = [one.alteration for one in found.assessments]
    assert dict(zip(names, found.reasons)) == {
        "brightness": "as published",
        "contrast": "as published",
        "gaussian noise": "the lens",
    }


def test_one_file_has_one_content(assess, tmp_path):
    (tmp_path / "link").symlink_to(tmp_path, target_is_directory=True)
    same = f"--junit={tmp_path / 'a.xml'}", f"--summary={tmp_path / 'link' / 'a.xml'}"
    check(assess(*BOTH, *same), 2, "--junit and --summary both name")
    assert not (tmp_path / "a.xml").exists()


@pytest.mark.slow
def test_a_domain_has_requirements_a_plan_and_a_place_in_the_report(
    jaxrob_command, tmp_path
):
    (tmp_path / "levels.csv").write_text("contrast;brightness\n1;0,1\n0,9;-0,2\n")
    plan = PLAN.replace('"robustness>=1", "accuracy<=1"', "")
    plan = plan.replace("robustness>=0", "accepted_volume.low>=0.99")
    (tmp_path / "plan.toml").write_text(plan)

    def run(*more):
        return jaxrob_command(
            "domain", "--classifier=net.py:net", "--images=pictures", "--channels=grey",
            "--noprogress", f"--output={tmp_path / 'results'}", "--half_width=0.3",
            f"--report={tmp_path / 'report.md'}", *more,
        )  # fmt: skip

    levels = f"--profile={tmp_path / 'levels.csv'}"
    status, _, err = run(f"--plan={tmp_path / 'plan.toml'}", levels)
    assert status == 1 and "brightness + contrast: accepted_volume.low is" in err
    (found,) = reporting.outcomes_of(reporting.read_results(tmp_path / "results"))
    assert found.state != "met"
    text = (tmp_path / "report.md").read_text("utf-8")
    assert "| 2. contrast |" in text and "2 recorded levels" in text
    assert "operating box" in text or "Within the box" in text
    assert "No alteration was" not in text and "40 images" in text
    assert "at corners of the box" in text
    assert "| profile: " in text and "levels.csv | SHA-256 digest " in text
    # The folder does not lose that it failed.
    check(run(*BOTH), 2, "would drop the requirement accepted_volume.low")
    (tmp_path / "levels.csv").write_text("contrast\n1\n")
    check(run(*BOTH, levels), 2, "no column brightness")
    (tmp_path / "levels.csv").write_text("")
    check(run(*BOTH, levels), 2, "no column brightness")
    check(run(*BOTH, "--levels=3"), 2, "--levels")
    unknown = "--nobox,box.volume>=0", "--groups=site,accepted_volume.low>=0"
    for one in (*unknown, "--box,failure_probability.high<=1"):
        flag, _, asked = one.partition(",")
        check(run(*BOTH, flag, f"--require={asked}"), 2, asked.partition(".")[0])
    check(run(*BOTH, "--require=failure_probability.high>=1"), 2, "an upper end")
