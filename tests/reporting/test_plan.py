import datetime
import hashlib

import pytest

from jaxrob import reporting

PLAN = """
name = "cameras"
date = 2026-03-02
threshold = 0.8
measure = "f1"
requirements = ["robustness.low >= 0.5", "decided_ratio>=1"]

[[alterations]]
name = "rotation"
lower = -15
upper = 15.5
settings = { fill = "edge" }
reason = "the mount gives way by 12°"

[[alterations]]
name = "rain.py:rain"
lower = 0.0
upper = 1.0
"""


def written(folder, text):
    path = folder / "plan.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_all_that_it_says(tmp_path):
    path = written(tmp_path, PLAN)
    plan = reporting.read_plan(path)
    assert plan.name == "cameras" and plan.date == datetime.date(2026, 3, 2)
    assert plan.digest == hashlib.sha256(path.read_bytes()).hexdigest()
    assert plan.threshold == 0.8 and plan.measure == "f1"
    assert plan.requirements == (
        reporting.Requirement("robustness.low", 0.5),
        reporting.Requirement("decided_ratio", 1.0),
    )
    first, second = plan.alterations
    assert (first.name, first.lower, first.upper) == ("rotation", -15.0, 15.5)
    assert first.settings == {"fill": "edge"}
    assert first.reason == "the mount gives way by 12°"
    assert second == reporting.PlannedAlteration("rain.py:rain", 0.0, 1.0)


def test_what_may_be_left_out(tmp_path):
    kept = [line for line in PLAN.splitlines() if line[:4] not in ("meas", "requ")]
    plan = reporting.read_plan(written(tmp_path, "\n".join(kept)))
    assert plan.measure == "accuracy" and plan.requirements == ()


def test_a_comment_is_another_plan(tmp_path):
    plans = [
        reporting.read_plan(written(tmp_path, text)) for text in (PLAN, PLAN + "# x")
    ]
    assert plans[0].digest != plans[1].digest


# By name: what stands there, what it becomes, what is named.
WRONG = {
    "unknown": ("measure =", "mesure =", "'mesure'.; it may have"),
    "unknown of an alteration": ("reason =", "why =", r"alterations\[0\] has .*'why'"),
    "no name": ('name = "cameras"', "", "lacks 'name'"),
    "no range": ("upper = 15.5", "", r"alterations\[0\] lacks 'upper'"),
    "date as a text": ("2026-03-02", '"2026-03-02"', "date must be a day, written wit"),
    "date and time": ("2026-03-02", "2026-03-02T10:00:00", "date must be a day"),
    "no day": ("2026-03-02", "2026-13-02", "at line 3"),
    "threshold": ("0.8", "1.8", r"threshold must lie in \[0, 1\]"),
    "threshold as a text": ("0.8", '"0.8"', "threshold must be a number"),
    "threshold true": ("0.8", "true", "threshold must be a number"),
    "threshold nan": ("0.8", "nan", r"threshold must lie in \[0, 1\]"),
    "measure": ('"f1"', '"beauty"', "measure must be the name of a measure"),
    "requirement": ("decided_ratio>=1", "decided_ratio>1", "a requirement is written"),
    "quantity": ("decided_ratio>=1", "beauty>=1", "the quantity must be one of"),
    "which requirement": ("[", '["x>=1", ', r"requirements\[0\]: the quantity must be"),
    "named where it is one's own": (
        "reason =",
        'requirements = ["zoom: robustness>=1"]\nreason =',
        r"alterations\[0\]: requirements are of 'rotation' already",
    ),
    "of all where it is one's own": (
        "reason =",
        'requirements = ["mce<=1"]\nreason =',
        r"alterations\[0\]: requirements must be of an alteration; mce is of all",
    ),
    "requirements as a text": ("[", '"', "plan.toml: "),
    "range turned around": ("15.5", "-20.0", r"alterations\[0\]: lower must be below"),
    "range infinite": ("15.5", "inf", "upper must be finite"),
    "setting nested": ('"edge"', '["edge"]', "settings.fill must be a text"),
    "settings as a text": ('{ fill = "edge" }', '"edge"', "settings must be an object"),
    "reason as a number": ('"the mount gives way by 12°"', "3", "reason must be a te"),
    "no TOML": ("threshold = 0.8", "threshold 0.8", "at line 4"),
    "twice": ("measure", "threshold = 0.8\nmeasure", "(?i)overwrite"),
    "deep": ('{ fill = "edge" }', "[" * 10**4 + "]" * 10**4, "plan.toml: "),
    "a number of many digits": ("0.8", "9" * 10**4, "digits|must lie"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_named(tmp_path, name):
    before, after, message = WRONG[name]
    assert before in PLAN
    path = written(tmp_path, PLAN.replace(before, after, 1))
    with pytest.raises(ValueError, match=message) as error:
        reporting.read_plan(path)
    assert str(error.value).startswith(f"{path}: ")
    assert len(str(error.value)) < 1000


def test_no_alteration(tmp_path):
    head = PLAN.partition("[[")[0]
    for text in (head, f"{head}alterations = []"):
        with pytest.raises(ValueError, match=r"no \[\[alterations\]\]"):
            reporting.read_plan(written(tmp_path, text))


def test_no_text_and_no_file(tmp_path):
    with pytest.raises(ValueError, match="utf-8"):
        reporting.read_plan(written(tmp_path, b"\xff" + PLAN.encode()))
    with pytest.raises(ValueError, match="at most 1048576 are read"):
        reporting.read_plan(written(tmp_path, PLAN + "#" * 2**20))
    with pytest.raises(ValueError, match="not a regular file but a folder"):
        reporting.read_plan(tmp_path)


def test_how_few_images_a_plan_asks_for(tmp_path):
    def read(settings):
        text = PLAN.replace("threshold", f"{settings}\nthreshold")
        plan = reporting.read_plan(written(tmp_path, text))
        return plan.half_width, plan.budget, plan.curtail

    asked = "half_width = 0.02\nbudget = 10_000\ncurtail = true"
    assert read(asked) == (0.02, 10_000, True)
    assert read("") == (None, None, False)
    for wrong in ("half_width = 0.5", "budget = 0", 'curtail = "yes"', "budget = 1.5"):
        with pytest.raises(ValueError, match=wrong.partition(" ")[0]):
            read(wrong)


def test_no_plan_is_said_plainly(tmp_path):
    path = tmp_path / "none.toml"
    with pytest.raises(FileNotFoundError) as error:
        reporting.read_plan(path)
    assert str(error.value) == f"{path}: expected a plan there, a TOML file"
