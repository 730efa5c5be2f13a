"""The regions have the exact volume that they claim."""

import jax
import numpy as np
import pytest
from checks import rare_regions
from common.known_modes import EPSILON, LOGIT
from scipy import stats

DRAWS = 60_000


@pytest.mark.slow
def test_regions_are_as_probable_as_they_are_said_to_be():
    rng = np.random.default_rng(0)
    u = rng.uniform(-1, 1, (DRAWS, 10)).astype(np.float32)
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
