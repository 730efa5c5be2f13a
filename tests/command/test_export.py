"""What `jaxrob export` and `--failing` write."""

import csv
import json

from jaxrob import reporting

from .outcomes import check, only, succeeded


def test_tables_of_a_folder(assess, jaxrob_command, tmp_path):
    succeeded(assess())
    folder = f"{tmp_path / 'results'}"
    found = reporting.read_results(folder)
    files = {
        "csv": reporting.to_csv(found),
        "levels_csv": reporting.to_csv(found, rows="levels"),
        "latex": reporting.to_latex(found),
    }
    asked = [f"--{name}={tmp_path / 'new' / name}" for name in files]
    said = succeeded(jaxrob_command("export", folder, *asked))
    assert said.count("wrote ") == 3
    for name, text in files.items():
        assert (tmp_path / "new" / name).read_text() == text
    check(jaxrob_command("export", folder), 2, "--csv=...")
    same = [f"--{name}={tmp_path / 'x'}" for name in ("csv", "latex")]
    check(jaxrob_command("export", folder, *same), 2, "another file")
    none = f"--roma_csv={tmp_path / 'x'}"
    check(jaxrob_command("export", folder, none), 2, "'roma'")
    check(jaxrob_command("export", f"{tmp_path / 'y'}", none), 2, "no such")
    check(jaxrob_command("export", folder, "--csv=/proc/x"), 2, "/proc/x")
    assert not (tmp_path / "x").exists()


def test_pictures_that_fail_first(assess, tmp_path):
    folder = tmp_path / "failing"
    said = succeeded(assess(f"--failing={folder}", "--alterations=brightness"))
    assert f"wrote {folder / 'brightness'}/: " in said
    with open(folder / "brightness" / "failing.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    first = only(tmp_path / "results").first_failing_level
    assert rows and all(float(one["level"]) == first[int(one["index"])] for one in rows)
    assert all(one["source"].endswith(".png") for one in rows)
    tasks = json.loads((folder / "brightness" / "tasks.json").read_text())
    assert len(tasks) == len(rows)
    check(assess(f"--failing={folder}"), 2, "it must be empty")
    few = f"--failing={tmp_path / 'x'}", "--half_width=0.1"
    check(assess(*few), 2, "--failing needs")
