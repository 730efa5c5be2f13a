"""Folders of results, and plans."""

import datetime
import json
import shutil

import numpy as np
from documents import assessments, attack_result, roma_result
from mutations import Seed, Target

from jaxrob import reporting
from jaxrob.metrics import ConfidenceInterval
from jaxrob.reporting._results import picture_digest

PLAN = """
name = "cameras"
date = 2026-03-02
threshold = 0.8
requirements = ["robustness.low>=0.5", "mce<=1.2", "blur: accuracy<=1"]

[[alterations]]
name = "rotation"
lower = -15.0
upper = 15.0
settings = { fill = "edge" }
reason = "the mount"
"""


def plan_target():
    def check(found):
        assert type(found.date) is datetime.date and len(found.digest) == 64
        assert 0 <= found.threshold <= 1 and found.alterations
        for one in found.alterations:
            assert -1e308 < one.lower < one.upper < 1e308

    return Target("plan", [Seed(PLAN.encode())], reporting.read_plan, check)


def folder_targets(folder):
    """The index and the pictures, each beside files that are whole."""
    whole = folder / "whole"
    reporting.write_results(whole, _results(folder))
    index = (whole / "results.json").read_bytes()
    npz = (whole / "pictures.npz").read_bytes()

    def reader(name):
        def read(path):
            # The folder is named after the file, as errors have to.
            beside = path.with_name(f"{path.name} of {name}")
            if not beside.exists():
                shutil.copytree(whole, beside)
            shutil.copy(path, beside / name)
            return reporting.read_results(beside)

        return read

    values = [
        Seed(json.loads(index), lambda value: json.dumps(value).encode())
        for _ in range(3)
    ]
    again = folder / "again"

    def check(found):
        for assessment, pictures in zip(found.assessments, found.pictures, strict=True):
            for one in pictures:
                assert assessment.lower <= one.level <= assessment.upper
                assert one.image is None or picture_digest(one.image) == one.digest
        reporting.write_results(again, found)
        text = (again / "results.json").read_bytes()
        reporting.write_results(again, reporting.read_results(again))
        assert (again / "results.json").read_bytes() == text

    return (
        Target("results", [Seed(index), *values], reader("results.json"), check),
        Target("pictures", [Seed(npz)], reader("pictures.npz"), check),
    )


def _results(folder):
    (folder / "plan.toml").write_text(PLAN)
    image = np.arange(60, dtype=np.uint8).reshape(4, 5, 3)
    shown = reporting.Picture(image, picture_digest(image), 1.0, 3, 0, 2, "upper end")
    return reporting.Results(
        network="net",
        class_names=("a", "b", "c"),
        assessments=tuple(assessments()),
        reasons=("because", None),
        pictures=((shown,), (shown, shown)),
        roma=roma_result(),
        attack=attack_result(),
        requirements=(
            reporting.Requirement("plr.low", 0.5),
            reporting.Requirement("difference", -0.5, "<=", "a: b"),
        ),
        differences=(
            reporting.Difference(
                "blur",
                -0.1,
                ConfidenceInterval(-0.2, 0.1),
                ConfidenceInterval(-0.3, 0.2),
            ),
        ),
        regressions=("worse",),
        plan=reporting.read_plan(folder / "plan.toml"),
    )
