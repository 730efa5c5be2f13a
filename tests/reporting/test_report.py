"""Reports as HTML and Markdown: what they say, and that names do no harm."""

import dataclasses
import html
import re

import numpy as np
import pytest

import jaxrob
from jaxrob import reporting
from jaxrob.reporting import (
    File,
    PlannedAlteration,
    Requirement,
    Run,
    read_report,
    read_results,
    to_html,
    to_markdown,
    write_results,
)
from jaxrob.reporting._pictures import first_to_fail

from . import reports as made
from .reports import XHTML, attack, both, lacking, parsed, roma, words

SVG = "{http://www.w3.org/2000/svg}"


HOSTILE = (
    "</style></svg></title><script>alert(1)</script> a | b || c ![x](http://evil.example)"
    "\"'><img src=//evil.example onerror=alert(1)> `code` ``more`` &amp; *em* ~~no~~ "
    "[y](javascript:alert(1)) {{ 7 * 7 }} {% raw %}",
    "right\u202eot tfel, zero\u200bwidth, nul\x00, half \ud800 ünïcödé 猫 🦉 नमस्ते",
    "# heading\n\n* list\n| table | <!-- comment -->",
)


def of_markdown(text):
    """Tokens, and the text as it is read."""
    from markdown_it import MarkdownIt

    reader = MarkdownIt("commonmark", {"html": True})
    tokens = reader.enable(["table", "strikethrough"]).parse(text)
    flat = [part for one in tokens for part in (one.children or [one])]
    texts = (one.content for one in flat if one.type in ("text", "text_special"))
    return flat, " ".join(texts)


def many_networks():
    """Three, of which one may answer "unknown"."""
    first, second = made.assessment(), made.assessment(np.full(60, 9.0))
    uncertain = np.linspace(0, 0.6, 9)[:, None]
    answers = made.curve(np.full(60, 2.6), uncertainty=uncertain, alpha=0.7)
    bayesian = made.assessment(answers=answers)
    return [
        made.results((first,)),
        made.results((made.other(second),), network="robust net"),
        made.results((made.other(bayesian),), network="Bayesian net"),
    ]


def test_what_an_assessor_needs_is_there():
    one = made.assessment(warnings=("The lens cap was on.", "It was at night."))
    found = made.results(
        (one,),
        reasons=("measured on the line in March",),
        plan=made.plan(),
        pictures=((made.picture(), made.picture(2.0, 4, 1, 2, "first failure")),),
    )
    page, text = both([found])
    low, high = one.confidence_interval
    wanted = (
        "c1a551f1e7" * 3,  # the network's digest
        "da7a" * 8,  # the data's
        "60 images, the same for every alteration and level",
        "0123456789abcdef" * 4,
        "plan's digest (SHA-256)",
        f"{100 * one.robustness:.1f} %",
        f"{100 * low:.1f} to {100 * high:.1f} %",
        "“owl” taken for “cat”",
        "The lens cap was on.",
        "in doubt, about gaussian blur: see",
        "Good enough: the one check is met.",
        "[0, 17]",
        "fill edge",
        "mean=(0.5)",
    )
    for shown in (words(page), of_markdown(text)[1]):
        assert not lacking(shown, *wanted)
        assert "beforehand" not in shown
        # The verdict comes first, then what was tested, then details.
        places = [shown.index(one) for one in ("Verdict", "What was tested", "Details")]
        assert places == sorted(places)
    parsed(page)
    assert page.count("<img ") == 2 and "data:image/png;base64," in page
    # Nothing is loaded from elsewhere.
    assert "default-src 'none'" in page
    forbidden = r"@import|url\(|<script(?! type=.application/json)|<link|<iframe"
    forbidden += r"|<object|@font|https?://|(?:src|href|srcset|action)=\"(?!#|data:)"
    assert not re.search(forbidden, page)
    assert_headings_skip_no_level(page)


def assert_headings_skip_no_level(page):
    levels = [int(tag) for tag in re.findall(r"<h(\d)[ >]", page)]
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in zip(levels, levels[1:]))


def test_a_verdict_for_each_requirement_and_alteration():
    good = made.assessment(np.full(60, 9.0), name="zoom")
    found = made.results(
        (made.assessment(), good),
        requirements=(
            Requirement("robustness", 0.75),
            Requirement("robustness.low", 0.5),
            Requirement("plr", 0.9),
        ),
        regressions=("zoom: it was better",),
    )
    page = to_html([found])
    rows = parsed(page).findall(f".//{XHTML}section[@id='verdict']//{XHTML}tr")
    cells = [["".join(cell.itertext()) for cell in row] for row in rows]
    cells = [row for row in cells if len(row) == 5 and row[1] != "verdict"]
    said = {(row[0], row[2]): row[1].strip() for row in cells}
    assert said == {
        ("gaussian blur", "robustness >= 0.75"): "✗ not met",
        ("gaussian blur", "robustness.low >= 0.5"): "✗ not met",
        ("RoMA", "plr >= 0.9"): "? not shown",
        ("zoom", "robustness >= 0.75"): "✓ met",
        ("zoom", "robustness.low >= 0.5"): "✓ met",
    }
    # Those that are not met come first.
    assert [row[1][0] for row in cells] == list("✗✗?✓✓")
    assert all((".low" in row[2]) == ("lower end" in row[3]) for row in cells)
    assert "gaussian blur 0 to 4 px; zoom 0 to 4 px" in page
    said = (
        "2 of 5 checks not met (gaussian blur robustness, gaussian blur robustness.low)"
    )
    assert f"Not good enough: {said}; 1 not shown (RoMA plr)" in page
    assert "worse than an earlier result in 1 respect" in page
    assert "zoom: it was better" in page


def test_a_value_just_short_does_not_look_met():
    least = 0.75
    short = made.assessment(np.full(60, 9.0))
    object.__setattr__(short, "robustness", np.nextafter(least, 0))
    found = made.results((short,), requirements=(Requirement("robustness", least),))
    page = to_html([found])
    assert "✗ not met" in page and ">0.75<" not in page
    object.__setattr__(short, "robustness", 1 - 1e-7)
    assert "100.0 %</b>" not in to_html([found])


def test_a_verdict_on_other_requirements_than_the_plan_says_so():
    plan = made.plan(requirements=(Requirement("robustness.low", 0.9),))
    words = "But the plan requires something else: robustness.low >= 0.9."
    asked = (Requirement("robustness", 0.25),)
    # Both a verdict and none.
    for requirements, before in ((asked, "the one check is met."), ((), "failed.")):
        found = made.results(plan=plan, requirements=requirements)
        assert f"{before} {words}" in html.unescape(to_html([found]))
    assert "But the plan requires" in to_markdown([found])
    for same in (
        made.results(plan=made.plan()),
        made.results(requirements=()),
        made.results(plan=plan, requirements=plan.requirements),
    ):
        assert "But the plan requires" not in to_markdown([same])


def test_results_that_differ_from_the_plan():
    plan = made.plan(
        alterations=(
            PlannedAlteration("gaussian_blur", 0.0, 3.0),
            PlannedAlteration("rain.py:zoom", 1.0, 2.0, {}, "why not"),
        ),
        threshold=0.9,
    )
    found = made.results((made.assessment(), made.assessment(name="fog")), plan=plan)
    for form in both([found]):
        assert not lacking(
            form,
            "the range was 0 to 4, the plan says 0 to 3",
            "zoom was planned but is not among the results",
            "fog was assessed but is not in the plan",
            "the plan says accuracy of at least 0.9",
        )
    same = made.results((made.assessment(),), plan=made.plan())
    for form in both([same]):
        assert "The results have the plan's alterations" in form
    for form in both([made.results()]):
        assert "There was no plan." in form and "no pictures, so none are" in form


def test_three_networks_one_of_them_with_unknown():
    page = to_html(many_networks())
    tree = parsed(page)
    # One figure holds all three curves, distinguished by more than their colour.
    side = tree.find(f".//{XHTML}section[@id='side-by-side']//{SVG}svg")
    lines = side.findall(f"{SVG}polyline")
    lines = [line for line in lines if "line" in line.get("class")]
    assert len({line.get("class") for line in lines}) == 3
    assert len({line.get("style") for line in lines}) == 3
    # Letters of 11 units are 9 pixels high on a phone.
    assert float(side.get("viewBox").split()[2]) <= 400
    assert_headings_skip_no_level(page)


def test_beside_an_earlier_result():
    new, old = made.assessment(), made.assessment(np.full(60, 9.0))
    now, before = made.results((new,)), made.results((made.other(old),))
    page, text = both([now], [before])
    found = jaxrob.compare(new, made.other(old))
    for shown in (words(page), of_markdown(text)[1]):
        assert "less robust, beyond" in shown
        assert f"{100 * found.difference:+.1f} points" in shown
    assert "more robust, beyond" in to_html([before], [now])
    assert "no difference" in to_html([now], [now])
    # One for each network, or one for all.
    assert to_html([now, before], [now]).count("beside the earlier result") == 2


def test_local_probabilities_and_attacks():
    requirements = (Requirement("plr", 0.8),)
    found = made.results(roma=roma(), attack=attack(), requirements=requirements)
    mean = 100 * (1 - np.linspace(0.01, 0.2, 12).mean())
    for shown in both([found]):
        assert f"{mean:.3f} %" in shown and "5 (55.6 % of those attacked)" in shown
    # RoMA alone is a report too, with or without names.
    alone = made.results((), roma=roma(), class_names=None, requirements=requirements)
    assert "class 2" in to_html([alone])


def hostile_results(name):
    source = made.assessment().provenance
    named = {"alteration": name, "settings": {name: name}, "versions": {name: name}}
    one = made.assessment(
        name=name,
        unit=name[:20],
        strategy=name,
        warnings=(name,),
        provenance=source | named,
    )
    planned = PlannedAlteration(name, 0, 1, {"fill": name}, name)
    return made.results(
        (one,),
        network=name,
        class_names=(name, "x", "y"),
        reasons=(name,),
        regressions=(name,),
        plan=made.plan(name=name, alterations=(planned,)),
        roma=roma(),
        attack=attack(),
        pictures=((made.picture(2.0, 4, 1, 0, "first failure"),),),
    )


# What a page may hold.
TAGS = set(
    "html head body meta title style header main nav section article h1 h2 h3 h4 p div "
    "table caption thead tbody tr th td ul ol li a b em code span img script figure "
    "svg rect line text polyline polygon circle br".split()
)


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_names_are_text_and_nothing_else(name):
    kind = made.results(network="net")
    page, text = both([hostile_results(name), kind], [kind])
    page.encode(), text.encode()  # Half a character could not be written.
    tree = parsed(page)
    tags = [str(one.tag).partition("}")[2] for one in tree.iter()]
    assert set(filter(None, tags)) <= TAGS
    # The data, which no browser runs.
    scripts = tree.findall(f".//{XHTML}script")
    assert [one.get("type") for one in scripts] == ["application/json"]
    for one in tree.iter():
        assert not any(key.startswith("on") for key in one.attrib)
        for key in ("href", "src"):
            assert one.get(key, "#").startswith(("#", "data:image/png;base64,"))
    seen = " ".join(name.split()) if name[0] != "r" else "right(U+202E)ot"
    assert seen in words(page)
    tokens, shown = of_markdown(text)
    kinds = {one.type for one in tokens}
    assert not kinds & {
        *("html_block", "html_inline", "link_open", "image", "code_inline", "fence"),
        *("code_block", "s_open", "hr", "blockquote_open", "ordered_list_open"),
    }
    for part in re.findall(r"[A-Za-z0-9]+", seen.replace("(U+202E)", " ")):
        assert part in shown
    # No name makes a table's row longer: its cells are those of the head.
    for block in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        cells = {len(re.findall(r"(?<!\\)\|", row)) for row in block.splitlines()}
        assert len(cells) == 1, block
    # Ids do not repeat, and links lead to them.
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'href="#([^"]+)"', page)) <= set(ids)
    # Headings are those of the report.
    headings = {one.tag for one in tokens if one.type == "heading_open"}
    assert headings <= {"h1", "h2", "h3", "h4"}


@pytest.mark.slow
def test_a_thousand_classes_stay_readable():
    number = 1000
    limits = np.random.default_rng(0).uniform(-1, 5, number)
    answers = made.curve(limits, made.LEVELS[::2], number)
    names = tuple(f"class of the number {k} " + "n" * 60 for k in range(number))
    # Noise is what compresses least.
    image = np.random.default_rng(1).integers(0, 256, (224, 224, 3), np.uint8)
    shown = made.picture(1.0, 4, 4, 3, "first failure")
    shown = shown._replace(image=image, digest=made.picture_digest(image))
    found = made.results(
        (made.assessment(answers=answers),),
        class_names=names,
        pictures=((shown,) * 16,),
    )
    page, text = both([found])
    assert len(page.encode()) < 1_500_000 and len(text.encode()) < 100_000
    assert "The 10 worst of 1000 classes" in page
    assert "1,000 images, the same for every alteration" in page
    assert re.search(r"reduced to at most \d+ pixels a side", page)
    assert page.count("<tr>") < 300


def test_wrong_arguments_are_refused():
    for error, arguments, says in (
        (TypeError, (made.results(),), r"results .*\[results\]"),
        (ValueError, ([],), "results"),
        (TypeError, ([1],), "jaxrob.reporting.Results"),
        (ValueError, ([made.results()] * 3, [made.results()] * 2), "earlier"),
    ):
        with pytest.raises(error, match=says):
            to_markdown(*arguments)


def test_a_section_of_a_users_own():
    def mine(results):
        rows = [(one.alteration, "<b>") for one in results[0].assessments]
        return reporting.Section("My own", [reporting.Table(("of", "is"), rows)])

    page = to_html([made.results()], sections=[mine])
    assert parsed(page).find(f".//{XHTML}section[@id='own-1']") is not None
    assert page.index("My own</h2>") < page.index(">Warnings</h2>")
    text = to_markdown([made.results()], sections=[mine])
    assert "| gaussian blur | &lt;b&gt; |" in text
    with pytest.raises(TypeError, match="sections"):
        to_html([made.results()], sections=[lambda results: "text"])


RUN = Run(
    "jaxrob assess --images='a b'",
    "2026-03-01T10:00:00+00:00",
    "Linux-6.1-x86_64",
    "A. Tester",
    "Lab of Tests",
    (File("network", "net.onnx", "ab" * 32), File("pictures", "pets", None)),
    ("pets: 2 of 60 pictures were left out",),
)


def page_of(tmp_path, *found):
    path = tmp_path / "report.html"
    path.write_text(to_html(found), "utf-8")
    return path


def test_the_numbers_are_read_back_to_the_bit(tmp_path):
    one = made.assessment()
    page = page_of(tmp_path, made.results((one,)))
    (network,) = read_report(page)["networks"]
    (stored,) = network["assessments"]
    assert stored["robustness"] == one.robustness
    assert stored["confidence_interval"] == list(one.confidence_interval)
    np.testing.assert_array_equal(stored["levels"], one.levels)
    np.testing.assert_array_equal(stored["values"], one.values)
    assert network["requirements"][0]["quantity"] == "robustness"


def test_names_cannot_end_the_data(tmp_path):
    name = "</script><b><!--<script>]]>&lt;\u2028\x00"
    run = RUN._replace(command=name, tester=name, machine=name, warnings=(name,))
    page = page_of(tmp_path, made.results(network=name, runs=(run,)))
    assert page.read_text("utf-8").count("<script") == 1
    (network,) = read_report(page)["networks"]
    assert network["name"] == network["runs"][0]["tester"] == name
    for text in ("<p>hello</p>", "\0\xff"):
        page.write_text(text, "utf-8")
        with pytest.raises(ValueError, match="has no data"):
            read_report(page)


def test_runs_are_kept_beside_the_results(tmp_path):
    alone, known = tmp_path / "alone", tmp_path / "known"
    write_results(alone, made.results())
    write_results(known, made.results(runs=(RUN,)))
    assert read_results(known).runs == (RUN,)
    same = {one.name: one.read_bytes() for one in alone.iterdir()}
    there = {one.name: one.read_bytes() for one in known.iterdir()}
    (runs,) = there.keys() - same.keys()
    assert runs.startswith("runs-") and there.pop(runs) and there == same
    write_results(known, made.results())
    assert {one.name for one in known.iterdir()} == same.keys()


def test_ranks_keep_their_warnings():
    one, other = made.assessment(), made.other(made.assessment())
    keys = [
        dataclasses.replace(
            each, provenance=each.provenance | {"stochastic": True, "key": [0, at]}
        )
        for at, each in enumerate((one, other))
    ]
    pair = [made.results((each,), network=str(at)) for at, each in enumerate(keys)]
    with pytest.warns(jaxrob.RobustnessWarning, match="from other keys"):
        forms = made.both(pair)
    for form in forms:
        assert "Warning: the two assessments of gaussian blur drew" in form


def texts(*assessments, **changes):
    """Both forms as they are read, nearly."""
    found = made.results(assessments or (made.assessment(),), **changes)
    page = re.sub(r"<style>.*?</style>", "", to_html([found]), flags=re.DOTALL)
    return html.unescape(re.sub(r"<[^>]+>", "", page)), to_markdown([found])


def test_the_levels_that_decide_are_all_in_the_table():
    levels = np.linspace(0, 4, 257)
    one = made.assessment(answers=made.curve(np.repeat([1.003, 3.001], 30), levels))
    page, text = texts(one)
    rows = re.findall(r"^\| ([\d.]+) \| [\d.]+ % \|.* (?:yes|no) \|$", text, re.M)
    beside = np.flatnonzero(np.diff(one.values >= 0.8))
    for index in (*beside, *(beside + 1)):
        assert f"{levels[index]:.4g}" in rows
    assert f"{len(rows)} of 257 levels" in text and "of 257 levels" in page


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["right", "linear"])
def test_the_levels_named_add_up_to_the_share(rule):
    levels = np.array([-2, -1.5, -0.25, 0, 0.5, 1, 1.75, 2.5, 4])
    answers = made.curve(np.tile([0.2, 1.3, 2.7], 20), levels)
    changes = {"rule": rule, "lower": -2.0, "threshold": 0.3}
    for text in texts(made.assessment(answers=answers, **changes)):
        named = re.search(r"where the level is ([^.]*(?:\.\d[^.]*)*) px\.", text)
        parts = re.findall(r"(-?[\d.]+) to (-?[\d.]+)", named[1])
        width = sum(float(high) - float(low) for low, high in parts)
        assert f"over {100 * width / 6:.1f} % of" in text.replace("*", "")
        assert "another estimate" not in text
    for text in texts(made.assessment(rule="count")):
        assert "The levels named are another estimate" in text


def test_images_fail_first_from_the_level_nearest_to_unaltered():
    """Of 60 images 6 are wrong at -0.25 already, so perhaps unaltered too."""
    levels = np.array([-1.0, -0.25, 0.5, 4.0])
    limits = np.repeat([-1.0, 0.0, 9.0], [6, 14, 40])
    one = made.assessment(answers=made.curve(limits, levels), lower=-1.0)
    assert first_to_fail(one) == list(range(6, 20))
