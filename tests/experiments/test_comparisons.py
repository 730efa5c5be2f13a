"""The study of comparisons, in a small setting."""

from checks import of_comparisons


def test_equal_networks_seldom_differ_from_few_images():
    shape = of_comparisons.SHAPES["equal, steep"]
    rows = of_comparisons.few(4, 0, sizes=(1, 5))
    assert len(rows) == 2 * len(of_comparisons.SHAPES)
    assert not any(row[-1] for row in rows), "none differ from fewer than six images"
    assert of_comparisons.truth(shape)[:2] == (0, 0)


def test_families_and_power_are_shares():
    for row in of_comparisons.families(2, 0, num_images=10):
        assert 0 <= row[-2] <= 1 and 0 <= row[-1] <= 1
