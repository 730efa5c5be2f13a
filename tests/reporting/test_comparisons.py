"""Comparisons of networks: ranks, differences to earlier results, regressions."""

import dataclasses
import functools
import math
import warnings

import numpy as np
import pytest

import jaxrob
from jaxrob import reporting
from jaxrob._command import run
from jaxrob._metadata import ImageTable
from jaxrob.reporting import (
    Results,
    plot_ranks,
    quantities,
    rank_table,
    ranks,
    regressions,
    write_results,
)
from jaxrob.reporting._results import adjusted

from . import reports
from .test_gate import assess

_BASE = np.random.default_rng(5).uniform(0, 4, 400)


def _network(shift, noise=0.3, names=("blur",)):
    rng = np.random.default_rng([round(1000 * (shift + 5)), 0])
    limits = _BASE + shift + noise * rng.standard_normal(len(_BASE))
    found = []
    for name in names:
        one = reports.assessment(limits, name)
        source = one.provenance | {"classifier": f"{shift}"}
        found.append(dataclasses.replace(one, provenance=source))
    return tuple(found)


def _grouped(one, number):
    table = ImageTable(np.int32(np.arange(len(_BASE)) % number))
    return dataclasses.replace(one, curve=dataclasses.replace(one.curve, table=table))


@functools.cache
def three():
    (found,) = ranks({str(shift): _network(shift) for shift in (-1.0, 0.0, 1.0)})
    return found


def test_clear_close_and_tied():
    same = _network(0.0)
    given = {"worst": _network(-1.0), "one": same, "other": same, "best": _network(1.0)}
    (found,) = ranks(given)
    assert found.networks == ("best", "one", "other", "worst")
    np.testing.assert_array_equal(found.low, [1, 2, 2, 4])
    np.testing.assert_array_equal(found.high, [1, 3, 3, 4])
    assert found.could_be_first == ("best",)
    text = rank_table(found)
    assert "2-3" in text and text.endswith("could be first: best")
    # The order given does not matter where it is clear.
    shifts = ("1.0", "0.0", "-1.0")
    (other,) = ranks({shift: _network(float(shift)) for shift in shifts})
    assert three().networks == other.networks == ("1.0", "0.0", "-1.0")
    np.testing.assert_array_equal(three().low, other.low)


def test_two_networks_agree_with_the_comparison():
    """The same interval up to its critical value, so clear cases agree."""
    for shift, is_better in ((0.2, True), (0.005, False)):
        first, second = _network(shift, 0.05), _network(0.0, 0.05)
        (found,) = ranks({"first": first, "second": second})
        compared = jaxrob.compare(first[0], second[0])
        assert (compared.mean_interval.low > 0) == is_better
        assert (found.high[0] == 1) == is_better
        by_name = dict(zip(found.networks, found.values))
        difference = by_name["first"] - by_name["second"]
        assert difference == pytest.approx(compared.mean_difference)


def test_over_all_is_the_mean_over_alterations():
    given = {str(shift): _network(shift, names=("blur", "dust")) for shift in (0.0, 1)}
    blur, dust, every = ranks(given)
    assert [one.alteration for one in (blur, dust, every)] == ["blur", "dust", None]
    np.testing.assert_allclose(every.values, (blur.values + dust.values) / 2)
    assert "over all" in rank_table(every)
    # Groups are drawn, and few of them rank nothing, whichever alteration has them.
    for number, message in ((200, "their groups"), (4, "at least 6 images")):
        some = {
            name: (blur, _grouped(dust, number)) for name, (blur, dust) in given.items()
        }
        with pytest.raises((UserWarning, ValueError), match=message):
            ranks(some)


def test_networks_that_are_always_right_are_tied():
    right = (reports.assessment(np.full(60, 9.0)),)
    (found,) = ranks({name: right for name in ("a", "b", "c")})
    assert found.could_be_first == ("a", "b", "c")
    np.testing.assert_array_equal(found.values, 1.0)
    np.testing.assert_array_equal(found.high, 3)


def test_what_has_no_rank():
    one = _network(0.0)
    far = reports.curve(_BASE, levels=np.linspace(0.1, 3.8, 5))
    for arguments, says in (
        (({"a": one},), "at least two"),
        (({"a": one + one, "b": one},), "two assessments of blur"),
        (([one, one],), "mapping"),
        (({"a": one, "b": one}, 1.0), "confidence_level"),
        (({"a": one, "b": (reports.assessment(None, "blur", far),)},), "level in com"),
    ):
        with pytest.raises((TypeError, ValueError), match=says):
            ranks(*arguments)
    # Two to the power of -4 is above 5 %: of five, no exact test finds anything.
    right, wrong = (reports.assessment(np.full(5, end)) for end in (9.0, -1.0))
    with pytest.raises(ValueError, match="at least 6 images to rank 2 of them"):
        ranks({"right": (right,), "wrong": (wrong,)})


@pytest.mark.parametrize(
    "changes, says",
    [
        ({"threshold": 0.7}, "threshold"),
        ({"upper": 5.0}, "upper"),
        ({"measure": "recall"}, "measure"),
        ({"name": "dust"}, "alterations"),
        ({"labels": "own answers"}, "own"),
        ({"fingerprint": "0"}, "images"),
    ],
)
def test_other_questions_are_refused(changes, says):
    if {"labels", "fingerprint"} & changes.keys():
        source = reports.assessment(name="blur").provenance
        source |= {"dataset": source["dataset"] | changes}
        changes = {"provenance": source}
    other = (reports.assessment(_BASE, **({"name": "blur"} | changes)),)
    with pytest.raises(ValueError, match=says):
        ranks({"a": _network(0.0), "b": other})


def test_shared_levels_alone_count():
    few = reports.curve(_BASE, levels=reports.LEVELS[::4])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        blurred = reports.assessment(None, "blur", few)
        (found,) = ranks({"a": _network(0.0, 0.0), "b": (blurred,)})
    assert found.num_levels == 3
    assert found.values[0] == found.values[1]
    np.testing.assert_array_equal(found.high, 2)


def test_figure_and_hostile_names():
    axes = plot_ranks(three())
    assert [one.get_text() for one in axes.get_yticklabels()] == list(three().networks)
    assert "accuracy" in axes.get_xlabel()
    hostile = "=cmd()\n<b>\x1b[31m\u202e$x$_" + "n" * 10_000
    (found,) = ranks({hostile: _network(0.0), "b": _network(1.0)})
    text = rank_table(found)
    assert len(text.splitlines()) == 5 and len(text) < 500
    assert not {"\x1b", "\u202e"} & set(text)
    plot_ranks(found).figure.canvas.draw()


def test_the_command(tmp_path, capsys):
    for shift in (-1.0, 0.0, 1.0):
        results = Results(f"net {shift}", None, _network(shift))
        write_results(tmp_path / "all" / str(shift), results)
    picture = tmp_path / "ranks.png"
    assert run.main(["rank", str(tmp_path / "all"), f"--figure={picture}"]) == 0
    assert "could be first: net 1.0" in capsys.readouterr().out
    assert picture.read_bytes().startswith(b"\x89PNG")
    two = [str(tmp_path / "all" / name) for name in ("-1.0", "0.0")]
    assert run.main(["rank", *two, "--confidence_level=0.9"]) == 0
    assert "could be first: net 0.0" in capsys.readouterr().out
    for words, message in (
        ([two[0]], "one network"),
        ([f"{two[0]}/results.json"], "got a file"),
        ([two[0], two[0]], "both hold results"),
        ([two[0], "nowhere"], "nowhere"),
        ([*two, "--figure=ranks.txt"], "ranks.txt"),
    ):
        assert run.main(["rank", *words]) == 2
        assert message in capsys.readouterr().err


def test_worse_means_surely_worse():
    old, slightly, much = (assess(f) for f in (1.0, 0.99, 0.8))
    assert regressions(old, much) == regressions(old, old) == []
    # Half of the images are right up to half of the factor.
    found = quantities(old)
    assert found["robustness"] == pytest.approx(0.5, abs=0.03)
    assert found["robustness.low"] < 0.47
    (line,) = regressions(much, old)
    assert line.startswith("dim: robustness is 0.4") and "it was 0.5" in line
    # A paired comparison tells apart what the intervals do not.
    assert quantities(slightly)["robustness"] > found["robustness.low"]
    beside = jaxrob.compare(slightly, old)
    highs = beside.confidence_interval.high, beside.mean_interval.high
    assert bool(regressions(slightly, old)) == (min(highs) < 0)
    (line,) = regressions(dataclasses.replace(old, threshold=0.6), old)
    assert "no comparison is possible" in line and "threshold" in line


def test_worse_where_both_are_accepted_everywhere():
    """The robustness is 1 of both, but one is wrong three times as often."""
    levels = np.linspace(0, 1, 5)
    old, new = (
        reports.assessment(
            answers=reports.curve(9 - 10 * (np.arange(1000) < wrong), levels)
        )
        for wrong in (50, 150)
    )
    assert new.robustness == old.robustness == 1
    (line,) = regressions(new, old)
    assert "mean over the range -0.1000, " in line
    assert regressions(old, new) == []


def test_among_several_one_difference_by_chance_is_none():
    """Eight in the tail of one: each p-value is 2 %, which none of eight may be."""
    found = jaxrob.compare(assess(0.8), assess(1.0))
    interval = jaxrob.metrics.ConfidenceInterval(-0.2, -0.01)
    one = dataclasses.replace(
        found,
        confidence_interval=interval,
        mean_interval=interval,
        p_value=0.02,
        mean_p_value=0.3,
    )
    (alone,) = adjusted([one])
    assert (alone.p_value, alone.mean_p_value) == (0.04, 0.3) and alone.is_worse
    several = adjusted([one] + 7 * [dataclasses.replace(one, p_value=0.5)])
    assert several[0].p_value == pytest.approx(0.32)
    assert not any(one.is_worse for one in several)
    # One that no chance explains stays one, and NaN does not count.
    surely = dataclasses.replace(one, p_value=0.0002, mean_p_value=np.nan)
    first, second = adjusted([surely, dataclasses.replace(one, p_value=0.03)])
    assert first.p_value == pytest.approx(0.0006)
    assert (first.side, first.mean_side) == (-1, 0)
    assert second.p_value == 0.06 and not second.is_worse


def test_earlier_assessments_of_folders_and_files(tmp_path):
    one = reports.assessment()
    folder, file = tmp_path / "folder", tmp_path / "one.json"
    reporting.write_results(folder, reporting.Results("net", None, (one,)))
    file.write_text(one.to_json())
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "elsewhere" / "latest.json"
    link.symlink_to(file)
    read = reporting.earlier_assessments
    for path in (folder, file, link):
        (found,) = read([path], [one.alteration])
        np.testing.assert_array_equal(found.values, one.values)
        with pytest.raises(ValueError, match=str(path)):
            read([path], ["another"])
    assert len(read([folder, file], [one.alteration])) == 2
    assert read([], ["blur"]) == []
    with pytest.raises(ValueError, match="nowhere.json: "):
        read([tmp_path / "nowhere.json"], ["blur"])
    file.write_text("{}")
    with pytest.raises(ValueError, match="one.json: "):
        read([file], ["blur"])


def test_each_measure_and_range_has_its_own_regressions():
    good, bad = assess(1.0), assess(0.45)
    assert regressions([good], []) == regressions([good], [bad]) == []
    assert regressions([bad], [good]) == regressions(bad, good)
    renamed = dataclasses.replace(good, alteration="another")
    assert regressions([renamed], [good]) == ["dim: it is not assessed any more"]
    other = dataclasses.replace(good, measure="effectiveness")
    assert regressions([good, other], [good, other]) == []
    found = regressions([other, bad], [good, other])
    assert len(found) == 1 and found[0].startswith("dim: robustness is 0")
    for new, old in (([bad, good], [good]), ([good], [good, bad])):
        with pytest.raises(ValueError, match="two of 'dim'"):
            regressions(new, old)
        with pytest.raises(ValueError, match="two of 'dim'"):
            reporting.differences(new, old)


def test_differences_are_those_of_compare(tmp_path):
    now, then = reports.assessment(np.full(60, 2.0)), reports.assessment()
    (alone,) = reporting.differences([now], [then])
    assert reporting.differences([now], [reports.assessment(name="zoom")]) == ()
    assert alone.value == pytest.approx(now.robustness - then.robustness)
    assert alone.interval == alone.joint_interval
    pair = [now, dataclasses.replace(now, alteration="zoom")]
    old = [then, dataclasses.replace(then, alteration="zoom")]
    first, second = reporting.differences(pair, old)
    assert first.joint_interval.low <= first.interval.low
    assert first.interval.high <= first.joint_interval.high
    assert second.alteration == "zoom"
    # What cannot be compared is not known, and says why.
    (other,) = reporting.differences([now], [dataclasses.replace(then, threshold=0.3)])
    assert math.isnan(other.value) and "threshold" in other.reason
    # Of several earlier ones that of its measure, in a report and the command too.
    measures, folders = ("accuracy", "effectiveness"), [tmp_path / "1", tmp_path / "2"]
    both = [[dataclasses.replace(x, measure=m) for m in measures] for x in (then, now)]
    assert not any(math.isnan(one.value) for one in reporting.differences(*both[::-1]))
    old, new = (Results("net", None, some) for some in both)
    assert "no comparison" not in reporting.to_markdown([new], [old])
    for folder, one in zip(folders, (old, new)):
        write_results(folder, one)
    assert run.main(["compare", *map(str, folders)]) == 0
