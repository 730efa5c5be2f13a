"""Ranks of networks: tables, figures and what is refused."""

import dataclasses
import functools
import warnings

import numpy as np
import pytest

import jaxrob
from jaxrob._command import run
from jaxrob.reporting import Results, plot_ranks, rank_table, ranks, write_results

from . import reports

_BASE = np.random.default_rng(5).uniform(0, 4, 400)


def _network(shift, noise=0.3, names=("blur",), seed=0, **changes):
    rng = np.random.default_rng([round(1000 * (shift + 5)), seed])
    limits = _BASE + shift + noise * rng.standard_normal(len(_BASE))
    found = []
    for name in names:
        one = reports.assessment(limits, name, **changes)
        source = one.provenance | {"classifier": f"{shift} {seed}"}
        found.append(dataclasses.replace(one, provenance=source))
    return tuple(found)


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
    (other,) = ranks(
        {shift: _network(float(shift)) for shift in ("1.0", "0.0", "-1.0")}
    )
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
        assert by_name["first"] - by_name["second"] == pytest.approx(
            compared.mean_difference
        )


def test_over_all_is_the_mean_over_alterations():
    given = {str(shift): _network(shift, names=("blur", "dust")) for shift in (0.0, 1)}
    blur, dust, every = ranks(given)
    assert (blur.alteration, dust.alteration, every.alteration) == (
        "blur",
        "dust",
        None,
    )
    np.testing.assert_allclose(every.values, (blur.values + dust.values) / 2)
    assert "over all" in rank_table(every)


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
        (found,) = ranks(
            {"a": _network(0.0, 0.0), "b": (reports.assessment(None, "blur", few),)}
        )
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
    out = capsys.readouterr().out
    assert "could be first: net 1.0" in out
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
