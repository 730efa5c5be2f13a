import datetime
import hashlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as drawn

from jaxrob import reporting
from jaxrob.reporting import Requirement, requirement
from jaxrob.reporting._requirements import QUANTITIES, requirement_text

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
# A few, because hypothesis takes seconds to list all characters.
ODD = "ab :;,>=<.\"'\\\n\t\x00é°漢\u202e"


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
    # A comment is another plan.
    assert reporting.read_plan(written(tmp_path, PLAN + "# x")).digest != plan.digest
    kept = [line for line in PLAN.splitlines() if line[:4] not in ("meas", "requ")]
    plan = reporting.read_plan(written(tmp_path, "\n".join(kept)))
    assert plan.measure == "accuracy" and plan.requirements == ()
    assert (plan.half_width, plan.budget, plan.curtail) == (None, None, False)
    few = "half_width = 0.02\nbudget = 10_000\ncurtail = true"
    plan = reporting.read_plan(written(tmp_path, few + PLAN))
    assert (plan.half_width, plan.budget, plan.curtail) == (0.02, 10_000, True)


# What stands there, what it becomes, what is named.
WRONG = [
    ("measure =", "mesure =", "'mesure'.; it may have"),
    ('name = "cameras"', "", "lacks 'name'"),
    ("2026-03-02", "2026-03-02T10:00:00", "date"),
    ("decided_ratio>=1", "beauty>=1", "quantity"),
    ("[", '["x>=1", ', r"requirements\[0\]"),
    # It names another, and is of all, where it is one's own.
    (
        "reason =",
        'requirements = ["zoom: robustness>=1"]\nreason =',
        r"alterations\[0\]: requirements are of 'rotation'",
    ),
    ("reason =", 'requirements = ["mce<=1"]\nreason =', r"alterations\[0\].*mce"),
    ("15.5", "-20.0", r"alterations\[0\]: lower"),
    ('"the mount gives way by 12°"', "3", "reason"),
    ('{ fill = "edge" }', "[" * 10**4 + "]" * 10**4, "plan.toml"),
    ("0.8", "9" * 10**4, "digits|must lie"),
    (PLAN[PLAN.index("[[") :], "alterations = []", "alterations"),
    (PLAN[PLAN.index("[[") :], "", "alterations"),
    ("threshold", "half_width = 0.5\nthreshold", "half_width"),
    ("threshold", 'curtail = "yes"\nthreshold', "curtail"),
]


@pytest.mark.parametrize(("before", "after", "says"), WRONG, ids=range(len(WRONG)))
def test_what_is_wrong_is_named(tmp_path, before, after, says):
    assert before in PLAN
    path = written(tmp_path, PLAN.replace(before, after, 1))
    with pytest.raises(ValueError, match=says) as error:
        reporting.read_plan(path)
    assert str(error.value).startswith(f"{path}: ")
    assert len(str(error.value)) < 1000


def test_no_text_and_no_file(tmp_path):
    with pytest.raises(ValueError, match="utf-8"):
        reporting.read_plan(written(tmp_path, b"\xff" + PLAN.encode()))
    with pytest.raises(ValueError, match="1048576"):
        reporting.read_plan(written(tmp_path, PLAN + "#" * 2**20))
    with pytest.raises(ValueError, match="folder"):
        reporting.read_plan(tmp_path)
    with pytest.raises(FileNotFoundError, match="none.toml"):
        reporting.read_plan(tmp_path / "none.toml")


ALLOWED = ("robustness", "robustness.low")


def test_requirements_are_read():
    for text in ("robustness>=0.9", " robustness >= 9e-1 "):
        assert requirement(text, ALLOWED) == Requirement("robustness", 0.9)
    of_phrase = requirement("BNN, unknown>=1", ("BNN, unknown",))
    assert of_phrase == Requirement("BNN, unknown", 1.0)
    found = requirement(" gaussian blur :robustness.low>= .5", list(QUANTITIES))
    assert found == Requirement("robustness.low", 0.5, ">=", "gaussian blur")


@pytest.mark.parametrize("allowed", [ALLOWED, tuple(QUANTITIES)])
def test_others_are_refused(allowed):
    texts = ["", "robustness>0.9", ">=0.9", "robustness>=0.9>=0.8", "beauty>=0.9"]
    texts += [f"robustness>={one}" for one in ("0,9", "0_9", "nan", "90", "-0.1")]
    if allowed != ALLOWED:
        texts += ["mce<=-0.1", "difference>=-1.5", "robustness<=1.5", "mce<=70"]
        texts += ["robustness.low<=0.5", "zoom: mce<=0.7", "zoom: plr>=0.7"]
        texts += [": robustness>=0.5", "zoom: robustness>=0.5:"]
    for text in texts:
        with pytest.raises(ValueError, match="text: "):
            requirement(text, allowed)


@settings(deadline=None, max_examples=30)
@given(
    quantity=drawn.sampled_from(
        [name for name, one in QUANTITIES.items() if one.of == "an alteration"]
    ),
    bound=drawn.floats(0, 1),
    at_most=drawn.booleans(),
    alteration=drawn.none() | drawn.text(ODD, min_size=1).map(str.strip).filter(bool),
)
def test_what_is_written_is_read_back(quantity, bound, at_most, alteration):
    sign = "<=" if at_most and not quantity.endswith(".low") else ">="
    one = Requirement(quantity, bound, sign, alteration)
    assert requirement(requirement_text(one), list(QUANTITIES)) == one
