"""The study of comparisons, at a small setting."""

import pytest
from checks import of_intervals


@pytest.mark.slow
def test_intervals_hold_in_a_small_setting():
    rows = of_intervals.counts(50, 0)
    rows += of_intervals.categories(2, 0, sizes=(2,))
    rows += of_intervals.populations(2, 0, num_inputs=20)
    rows += of_intervals.robustness(2, 0)
    assert len(rows) == 12 + 12 + 12 + 6
    assert not any(row[-1] for row in rows), "none is too short"
