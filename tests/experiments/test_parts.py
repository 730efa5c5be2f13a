"""What the experiments' scripts are made of, on cases of known truth."""

import dataclasses
import functools
import json
import math

import jax
import numpy as np
import pytest
from checks import near_threshold, of_intervals, rare_regions
from common import baselines, intervals
from common.known_modes import EPSILON, LOGIT
from common.quadrature import Quadrature, robustness_by_quad
from corruptions_2019 import cells, replay
from gpu import kernels, ledger
from pinned import kept
from pinned.differences import Intended, compared, report
from scipy import integrate, ndimage, stats

import jaxrob
from jaxrob import alterations
from jaxrob.strategies import Task, sample

from ..alterations.pictures import random_image
from ..metrics.test_corruption_error import NAMES, RESNET50, table

DETERMINISTIC = [a for a in alterations.presets.cnn_2020() if not a.stochastic]


@pytest.mark.slow
@pytest.mark.parametrize("alteration", DETERMINISTIC, ids=lambda a: a.name)
def test_opencv_alters_as_jaxrob(alteration):
    # Smooth, because rounding matters most at edges.
    y, x = np.mgrid[:20, :24][..., None] / 20
    image = (127 + 60 * np.sin(4 * x + 3 * y) + 60 * y).astype(np.uint8)
    for level in (alteration.lower, alteration.upper):
        theirs = baselines.opencv_alter(alteration, image.shape, float(level))(image)
        ours = jax.jit(alteration)(image.astype(np.float32) / 255, level)
        off = np.abs(theirs.reshape(image.shape) - 255 * np.asarray(ours))
        # OpenCV rounds to bytes, and positions to 1/32 of a pixel.
        assert off.max() < 2


def test_opencv_noise_has_the_variance():
    noise = next(a for a in alterations.presets.cnn_2020() if a.stochastic)
    image = np.full((200, 200, 1), 128, np.uint8)
    altered = baselines.opencv_alter(noise, image.shape, noise.upper)(image)
    assert np.var(altered / 255) == pytest.approx(noise.upper, rel=0.05)
    assert altered.mean() == pytest.approx(128, abs=0.5)


# Accuracies at severities 1 to 5 as RobustBench publishes them (model_info/imagenet/
# corruptions/unaggregated_results.csv), to three digits; and its own means of them.
ALEXNET = """.311 .181 .072 .021 .006 .294 .160 .073 .020 .012 .223 .115 .056 .014 .005
.340 .262 .150 .085 .052 .349 .241 .113 .080 .064 .417 .295 .179 .102 .070
.303 .231 .194 .163 .131 .279 .114 .132 .085 .050 .379 .198 .105 .099 .062
.315 .232 .157 .121 .056 .550 .514 .464 .389 .291 .350 .233 .109 .027 .009
.471 .302 .440 .357 .190 .475 .450 .267 .129 .086 .486 .452 .423 .349 .256"""
ALEXNET, RESNET_50 = (
    dict(zip((name.replace(" ", "_") for name in NAMES), table(text).tolist()))
    for text in (ALEXNET, RESNET50)
)
MEANS = {"AlexNet": 0.2112, "Standard_R50": 0.3948}
MCE = {"AlexNet": 1.0, "Standard_R50": 0.7638}


@pytest.fixture
def published(tmp_path):
    pairs = [(name, severity) for name in ALEXNET for severity in range(1, 6)]
    rows = [["", *(name for name, _ in pairs)], ["", *(str(s) for _, s in pairs)]]
    for model, cells_of in (("AlexNet", ALEXNET), ("Standard_R50", RESNET_50)):
        rows.append([model, *(str(cells_of[name][s - 1]) for name, s in pairs)])
    path = tmp_path / "unaggregated_results.csv"
    path.write_text("\n".join(map(",".join, rows)) + "\n")
    (tmp_path / "AlexNet.json").write_text('{"clean_acc": "56.24"}')
    (tmp_path / "Standard_R50.json").write_text('{"clean_acc": "76.72"}')
    return path


def test_published_table_has_the_published_means(published):
    found = replay.table(replay.read(published), 0.5)
    for model, mean in MEANS.items():
        assert found[model]["mean accuracy"] == pytest.approx(mean, abs=5e-4)
        assert found[model]["mCE"] == pytest.approx(MCE[model], abs=1e-3)
    # ResNet-50 loses and regains half of the images under the elastic transform: of its
    # five gaps one is accepted, three are crossed and one is not.
    cell = found["Standard_R50"]["corruptions"]["elastic_transform"]
    assert (cell["low"], cell["high"]) == (0.2, 0.8)
    assert found["Standard_R50"]["corruptions"]["brightness"]["bound"] == 0
    text = replay.lines(found)
    assert "monotone" in text[-1] and "not known" not in text[-1]


def test_every_monotone_curve_is_within_the_bound():
    rng = np.random.default_rng(0)
    for _ in range(40):
        clean, *accuracy = rng.uniform(size=6)
        found = replay.robustness(clean, np.array(accuracy), 0.5)
        # Monotone from point to point, by random powers of the fraction between.
        share = np.linspace(0, 1, 400, endpoint=False)
        points = np.array([clean, *accuracy])
        powers = np.exp(rng.normal(0, 2, 5))
        values = np.concatenate(
            [a + (b - a) * share**p for a, b, p in zip(points, points[1:], powers)]
        )
        truth = np.mean(values >= 0.5)
        assert found["low"] - 1e-9 <= truth <= found["high"] + 1e-9
        assert abs(found["robustness"] - truth) <= found["bound"] + 1e-3


@pytest.mark.parametrize(
    "old, new, message",
    [
        ("0.311", "1.311", "AlexNet"),
        ("0.311", "much", "not a table"),
        (",1,2,", ",6,2,", "no severity 1 of gaussian_noise"),
    ],
)
def test_other_tables_are_refused(published, old, new, message):
    published.write_text(published.read_text().replace(old, new, 1))
    with pytest.raises(ValueError, match=message):
        replay.read(published)


def test_failing_level():
    levels = np.array([0.0, 1, 2, 3])
    for values, expected in (
        ((0.9, 0.8, 0.6, 0.9), 1.5),
        ((0.9, 0.8, 0.7, 0.7), math.inf),
        ((0.6, 0.8, 0.9, 0.9), 0.0),
        ((0.7, 0.6, 0.5, 0.4), 0.0),
        ((0.8, 0.8, 0.8, 0.6), 2.5),
    ):
        assert cells.failing(levels, np.array(values), 0.7) == pytest.approx(expected)


def test_holm_adjusts_as_r_does():
    # p.adjust(c(0.01, 0.04, 0.03, 0.005), "holm") of R.
    found = intervals.adjusted([0.01, 0.04, 0.03, 0.005])
    np.testing.assert_allclose(found, [0.03, 0.06, 0.06, 0.02])


@pytest.mark.slow
def test_intervals_hold_in_a_small_setting():
    rows = of_intervals.counts(50, 0)
    rows += of_intervals.categories(2, 0, sizes=(2,))
    rows += of_intervals.populations(2, 0, num_inputs=20)
    rows += of_intervals.robustness(2, 0)
    assert len(rows) == 12 + 12 + 12 + 6
    assert not any(row[-1] for row in rows), "none is too short"


@pytest.mark.slow
def test_the_blurs_kernel_equals_scipys_and_0_is_the_image():
    # More than a program's pixels, and a rest.
    image = random_image((29, 23, 3))
    form = functools.partial(kernels.blur_by_shifts, reach=10, interpret=True)
    blur = jax.jit(jax.vmap(form, (None, 0)))
    sigmas = np.float32([0.0, 0.4, 2.0])
    same, *blurred = blur(np.moveaxis(image, -1, 0), sigmas)
    np.testing.assert_array_equal(same, image)
    for sigma, found in zip(sigmas[1:], blurred):
        truth = ndimage.gaussian_filter(
            image.astype(float), (sigma, sigma, 0), mode="nearest", truncate=10
        )
        np.testing.assert_allclose(found, truth, rtol=0, atol=3e-6)


def test_the_ledger_goes_on_after_a_failure_and_where_the_time_was_over(
    tmp_path, capsys
):
    path, about = tmp_path / "day.json", {"device": "none"}
    done = []

    def task(name, programs=1, fails=False):
        def run(rows):
            if fails:
                raise ValueError("no memory")
            done.append(name)
            return "well", {"after": list(rows)}

        return ledger.Task(name, programs, run)

    def parts(fails):
        long = task("long", programs=10**6)
        return {"one": [task("a"), task("b", fails=fails), task("c")], "two": [long]}

    assert not ledger.work(parts(True), ledger.opened(path, about), path, 60, 1.0)
    out = capsys.readouterr().out
    assert "FAILED: ValueError: no memory" in out and "the time is over" in out
    kept = json.loads(path.read_text())["parts"]
    assert "no memory" in kept["one"]["b"]["failed"] and "two" not in kept
    # The rows that were done stay, and the others are done.
    assert ledger.work(parts(False), ledger.opened(path, about), path, 1e9, 1.0)
    assert done == ["a", "c", "b", "long"]
    with pytest.raises(ledger.app.UsageError, match="device"):
        ledger.opened(path, {"device": "another"})


@pytest.mark.slow
def test_the_script_runs_whole_where_there_is_no_gpu(run, tmp_path):
    code, out, err = run("gpu_day.py", f"--output={tmp_path}")
    assert code == 1 and "there is no GPU" in out + err
    code, out, err = run(
        "gpu_day.py", "--tiny", f"--output={tmp_path}", "--seconds=900"
    )
    assert code == 0, out + err
    parts = json.loads((tmp_path / "gpu_day.json").read_text())["parts"]
    assert len(parts) == 5 and all(parts.values()) and "time is over" not in out
    assert parts["forms"]["blur, 28x28x1, kernel"]["differs"] < 3e-6


def test_the_mean_of_many_is_near_students():
    values = np.random.default_rng(0).normal(3, 2, 400)
    found = intervals.over_inputs(np.mean, values)
    np.testing.assert_allclose(found, intervals.student_t(values), atol=0.03)
    assert found == intervals.over_inputs(np.mean, values)
    # There is none where the inputs do not tell.
    for values in (np.zeros(50), np.ones(1), np.zeros(1)):
        assert np.isnan(intervals.over_inputs(np.mean, values)).all()


@pytest.mark.slow
def test_it_holds_as_often_as_it_says_where_few_inputs_differ():
    """A tenth of the inputs at one of two values, the others at zero."""
    held, rng = 0, np.random.default_rng(1)
    for _ in range(30):
        values = rng.choice([0.0, 0.1, 1.0], 300, p=[0.9, 0.05, 0.05])
        low, high = intervals.over_inputs(np.mean, values)
        held += low <= 0.055 <= high
    assert held >= stats.binom.ppf(0.001, 30, 0.95)


def test_levels_that_are_decided_contradict_no_images():
    """Of levels that few images show on their neighbours' side, wrongly."""
    for half_width, curtail in ((0.0, True), (0.02, True), (0.0, False)):
        rng = np.random.default_rng([0, 0, 90])
        asked = {"half_width": half_width, "curtail": curtail}
        shape = near_threshold.bowl(rng)
        assert not near_threshold.turning(shape, rng, 32, **asked).wrong


def test_drawn_answers_have_the_accuracy_of_their_curve():
    rng = np.random.default_rng(0)
    for kind in (
        *near_threshold.SHAPES,
        *near_threshold.OTHERS,
        *near_threshold.TURNING,
    ):
        shape = kind(rng)
        right = near_threshold.answers(shape, 1000, 0.0, rng)
        for level in (0.0, 0.3, 1.0):
            expected = np.clip(shape(np.array(level)), 0, 1)
            assert abs(right(level).mean() - expected) <= 0.001


FEW = ("assessing.thresholds", "comparing.measures")


def all_few():
    return {name: kept.result(kept.cases(name)[name]) for name in FEW}


@pytest.fixture(scope="module")
def before():
    return all_few()


def found(before, intended=()):
    return compared(before, all_few(), intended)


@pytest.mark.slow
def test_another_run_gives_the_same(before, tmp_path):
    kept.write(tmp_path / "kept", before)
    again = kept.read(tmp_path / "kept")
    assert not any(kept.RAISED in one for one in again.values())
    verdict = found(again)
    assert not verdict.found, report(verdict, 9)
    assert before["assessing.thresholds"]["warnings"]


@pytest.mark.slow
def test_a_number_that_moves_by_one_bit_is_found(before, monkeypatch):
    exact = jaxrob.compare

    def other(*assessments):
        found = exact(*assessments)
        moved = math.nextafter(found.mean_difference, 1)
        return dataclasses.replace(found, mean_difference=moved)

    monkeypatch.setattr(jaxrob, "compare", other)
    differences = found(before).found
    assert {(one.case, one.path) for one in differences} == {
        ("comparing.measures", f"value.{measure}.{place}")
        for measure in ("f1", "recall", "effectiveness")
        for place in ("mean_difference", "to_json.mean_difference", "to_json.digest")
    }
    # An entry of the list covers them; an entry that covers nothing is reported.
    stale = Intended("assessing.*", "value.*.levels.*", "other levels")
    elsewhere = Intended("training.*", "*", "of cases that are not run")
    digest = Intended("comparing.*", "*.digest", "of it")
    intended = [Intended("comparing.*", "*.mean_difference", "one bit"), digest, stale]
    verdict = found(before, [*intended, elsewhere])
    assert not verdict.found and verdict.unused == [stale]
    assert verdict.intended[intended[0]] == 6
    assert "intended: one bit: 6 differences" in report(verdict, 9)


@pytest.mark.parametrize(
    "one, other",
    [
        (0.0, -0.0),
        (1, True),
        (np.zeros(3), np.zeros(3, np.float32)),
        (np.zeros((2, 3)), np.zeros((3, 2))),
        (np.zeros(500), np.r_[np.zeros(100), 1e-300, np.zeros(399)]),
        (jax.random.key(0), jax.random.key(1)),
        ([1, 2], [1, 2, 3]),
        ({"a": None}, {}),
        ("a\nb\nc", "a\nB\nc"),
    ],
)
def test_what_is_another_value(one, other):
    def differences(first, second):
        given = [json.loads(json.dumps(kept.kept(each))) for each in (first, second)]
        return compared({"case": given[0]}, {"case": given[1]}, ()).found

    assert differences(one, other)
    assert not differences(one, one) and not differences(other, other)


@pytest.mark.slow
def test_the_script(run, tmp_path):
    path = tmp_path / "kept"
    asked = "--only=measuring.[cu]*", "--most=3"
    code, out, err = run("pins.py", f"--keep={path}", *asked)
    assert code == 0 and "2 cases" not in err, err
    document = json.loads(path.read_text())
    document["cases"]["measuring.calibration"]["value"]["area"]["digest"] = "another"
    path.write_text(json.dumps(document))
    code, out, err = run("pins.py", f"--compare={path}", *asked)
    assert code == 1 and "measuring.calibration: 1 differences" in out
    assert "value.area.digest" in out
    code, out, err = run("pins.py", *asked)
    assert code == 1 and "give either --keep or --compare" in out + err


THRESHOLD = 0.8


def steps(crossings, first):
    """1 or 0, changing at each crossing; `first` is the value below all of them."""
    return lambda x: (np.searchsorted(crossings, x) + first) % 2 * 1.0


def quad(function, lower, upper, limit):
    """What quad finds: the share (NaN if it failed) and the points in order."""
    points = []

    def integrand(x):
        points.append(x)
        return float(function(np.array([x]))[0] >= THRESHOLD)

    integral, _, _, *message = integrate.quad(
        integrand, lower, upper, limit=limit, full_output=1
    )
    return np.clip((np.nan if message else integral) / (upper - lower), 0, 1), points


RANDOM = np.random.default_rng(0).random(50)
CHAOS = steps(np.sort(RANDOM), 0)


@pytest.mark.parametrize(
    ("function", "lower", "upper", "limit"),
    [
        (lambda x: 0 * x + 0.79, -3.0, 177.0, 24),
        (lambda x: 0 * x + THRESHOLD, -0.5, 0.5, 2),
        *((steps([place], 1), 0.0, 1.0, limit) for place in RANDOM[:3]
          for limit in (24, 60)),
        (steps([-1.0, 2.5, 2.5 + 1e-6], 0), -4.0, 4.0, 40),
        # As JPEG quality: between two integers nothing changes.
        (lambda x: np.where(np.round(x) <= 41, 0.9, 0.3), 0.0, 100.0, 60),
        # Beyond the paper's 1,024 points.
        (CHAOS, 0.0, 1.0, 24),
    ],
)  # fmt: skip
def test_same_levels_same_share_same_failures_as_quad(function, lower, upper, limit):
    expected, points = quad(function, lower, upper, limit)
    task = Task(lower, upper, threshold=THRESHOLD)
    found, _ = sample(Quadrature(limit), task, function)
    levels = found.levels
    share = robustness_by_quad(levels, found.values, THRESHOLD, (lower, upper))
    assert share == expected or np.isnan([share, expected]).all()
    np.testing.assert_array_equal(np.sort(points[: len(levels)]), levels)
    # The last bisection cannot save quad, and is left out.
    left = len(points) - len(levels)
    assert left == 0 or (left == 42 and np.isnan(share))
    few = robustness_by_quad(levels[1:], found.values[1:], THRESHOLD, (lower, upper))
    assert np.isnan(few)


DRAWS = 60_000


@pytest.mark.slow
def test_regions_are_as_probable_as_they_are_said_to_be():
    u = np.random.default_rng(0).uniform(-1, 1, (DRAWS, 10)).astype(np.float32)
    images = (0.5 + EPSILON * u).reshape(DRAWS, 10, 1, 1)
    logits = jax.jit(rare_regions._logits)
    regions = rare_regions.FOUND_WITH + rare_regions.LEFT_ASIDE
    found = list(rare_regions.cases(regions, 10, 1e-3, 1))
    assert [case.name for case in found] == [region.name for region in regions]
    for case in found:
        values = np.asarray(logits(case.classifier.variables, images))
        hits = (values[:, 1] - values[:, 0] >= LOGIT).sum()
        p = np.exp(case.log_probability)
        assert 1e-4 < stats.binomtest(int(hits), DRAWS, p).pvalue, case.name
    # In two dimensions some of the regions exist.
    fitting = list(rare_regions.cases(regions, 2, 1e-3, 1))
    assert all(region.size <= 2 for region in regions if region.name in {
        case.name for case in fitting
    }) and len(fitting) < len(regions)  # fmt: skip
