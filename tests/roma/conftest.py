"""What the tests of RoMA share."""

import jax
import pytest


@pytest.fixture(scope="module")
def optimised():
    """XLA's optimisations, where computing takes longer than compiling."""
    before = jax.config.values["jax_disable_most_optimizations"]
    jax.config.update("jax_disable_most_optimizations", False)
    yield
    jax.config.update("jax_disable_most_optimizations", before)
