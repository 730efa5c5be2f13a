"""The study of comparisons, at a small setting."""

from checks import of_comparisons, of_intervals


def test_equal_networks_seldom_differ_from_few_images():
    shape = of_comparisons.SHAPES["equal, steep"]
    rows = of_comparisons.few(4, 0, sizes=(1, 5))
    assert len(rows) == 2 * len(of_comparisons.SHAPES)
    assert not any(row[-1] for row in rows), "none differ from fewer than six images"
    assert of_comparisons.truth(shape)[:2] == (0, 0)


def test_families_and_power_are_shares():
    for row in of_comparisons.families(2, 0, num_images=10):
        assert 0 <= row[2] <= row[3] <= 1 and row[2] <= row[-1] <= 1
    for row in of_comparisons.equal(2, 0, sizes=(5,)):
        assert row[3:5] == (0, 0)


def test_intervals_hold_in_a_small_setting():
    rows = of_intervals.counts(200, 0)
    rows += of_intervals.categories(3, 0, sizes=(2, 5))
    rows += of_intervals.populations(3, 0, num_inputs=20)
    rows += of_intervals.robustness(3, 0)
    assert len(rows) == 12 + 24 + 12 + 6
    assert not any(row[-1] for row in rows), "none is too short"
