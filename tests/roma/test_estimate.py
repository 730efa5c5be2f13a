"""How the estimates of classes make those of inputs."""

import numpy as np

from jaxrob.roma._estimate import Estimate, summed


def test_inputs_without_a_class_that_may_be_mistaken_have_no_answer():
    estimate = Estimate(
        np.array(["importance", "splitting"]),
        np.log([1e-5, 3e-5]),
        np.array([0.1, 0.2]),
        np.array([100, 200]),
    )
    found = summed(estimate, np.array([1, 1]), 4)
    assert found.status.tolist() == ["untrusted", "splitting", "untrusted", "untrusted"]
    np.testing.assert_allclose(np.exp(found.log_probability), [0, 4e-5, 0, 0])
    # Relative errors of independent estimates: sqrt(1e-6**2 + 6e-6**2) / 4e-5.
    assert abs(found.standard_error[1] - 0.1520691) < 1e-6
    assert found.evaluations.tolist() == [0, 300, 0, 0]
