"""`common_corruptions.py` on curves and tables of known truth."""

import math

import numpy as np
import pytest
from common import intervals
from corruptions_2019 import cells, replay

from ..metrics.test_corruption_error import NAMES, RESNET50, table

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
    """Writes a table in RobustBench's form, with the files beside it."""
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
        found = cells.failing(levels, np.array(values), 0.7)
        assert found == pytest.approx(expected)


def test_holm_adjusts_as_r_does():
    # p.adjust(c(0.01, 0.04, 0.03, 0.005), "holm") of R.
    found = intervals.adjusted([0.01, 0.04, 0.03, 0.005])
    np.testing.assert_allclose(found, [0.03, 0.06, 0.06, 0.02])
