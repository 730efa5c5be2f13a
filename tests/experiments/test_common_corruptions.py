"""`common_corruptions.py` on curves and tables of known truth."""

import math

import numpy as np
import pytest
from common import holm
from corruptions_2019 import cells, replay

# Accuracies at severities 1 to 5 as RobustBench publishes them (model_info/imagenet/
# corruptions/unaggregated_results.csv), to three digits; and its own means of them.
ALEXNET = {
    "gaussian_noise": (0.311, 0.181, 0.072, 0.021, 0.006),
    "shot_noise": (0.294, 0.160, 0.073, 0.020, 0.012),
    "impulse_noise": (0.223, 0.115, 0.056, 0.014, 0.005),
    "defocus_blur": (0.340, 0.262, 0.150, 0.085, 0.052),
    "glass_blur": (0.349, 0.241, 0.113, 0.080, 0.064),
    "motion_blur": (0.417, 0.295, 0.179, 0.102, 0.070),
    "zoom_blur": (0.303, 0.231, 0.194, 0.163, 0.131),
    "snow": (0.279, 0.114, 0.132, 0.085, 0.050),
    "frost": (0.379, 0.198, 0.105, 0.099, 0.062),
    "fog": (0.315, 0.232, 0.157, 0.121, 0.056),
    "brightness": (0.550, 0.514, 0.464, 0.389, 0.291),
    "contrast": (0.350, 0.233, 0.109, 0.027, 0.009),
    "elastic_transform": (0.471, 0.302, 0.440, 0.357, 0.190),
    "pixelate": (0.475, 0.450, 0.267, 0.129, 0.086),
    "jpeg_compression": (0.486, 0.452, 0.423, 0.349, 0.256),
}
RESNET_50 = {
    "gaussian_noise": (0.602, 0.488, 0.312, 0.142, 0.029),
    "shot_noise": (0.583, 0.449, 0.286, 0.103, 0.035),
    "impulse_noise": (0.485, 0.386, 0.290, 0.113, 0.024),
    "defocus_blur": (0.591, 0.515, 0.381, 0.275, 0.182),
    "glass_blur": (0.536, 0.397, 0.171, 0.131, 0.103),
    "motion_blur": (0.636, 0.534, 0.375, 0.216, 0.145),
    "zoom_blur": (0.526, 0.430, 0.356, 0.284, 0.219),
    "snow": (0.547, 0.312, 0.349, 0.234, 0.165),
    "frost": (0.611, 0.437, 0.306, 0.286, 0.226),
    "fog": (0.609, 0.560, 0.467, 0.402, 0.236),
    "brightness": (0.736, 0.722, 0.696, 0.650, 0.589),
    "contrast": (0.643, 0.582, 0.466, 0.210, 0.054),
    "elastic_transform": (0.668, 0.451, 0.546, 0.412, 0.170),
    "pixelate": (0.638, 0.643, 0.460, 0.293, 0.209),
    "jpeg_compression": (0.664, 0.623, 0.600, 0.479, 0.325),
}
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
    found = holm.adjusted([0.01, 0.04, 0.03, 0.005])
    np.testing.assert_allclose(found, [0.03, 0.06, 0.06, 0.02])
