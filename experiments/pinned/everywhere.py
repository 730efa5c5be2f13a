"""Results on a mesh, of the calls that shard over devices."""

from typing import Any

from jax.sharding import Mesh

import jaxrob
from jaxrob import adversarial, networks, roma, strategies, training
from pinned import limits, world


def measured(mesh: Mesh | None, journal: str) -> Any:
    """Returns the results by the name of the call."""
    given = {"key": world.KEY, "mesh": mesh}
    both = world.blur(), world.noise()
    found: dict[str, Any] = {}
    for name, data in (("whole", world.dataset()), ("batches", world.batches())):
        found[name] = jaxrob.evaluate(
            world.classifier(), data, world.noise(), [0.0, 0.1, 0.3], batch_size=20,
            **given,
        )  # fmt: skip
    found["counts"] = jaxrob.evaluate(
        world.stochastic(), world.dataset(), world.noise(), [0.3], reduced=True, **given
    )
    for run in ("first", "resumed"):
        found[run] = jaxrob.assess(
            world.classifier(), world.dataset(), both, 0.7, journal=journal,
            strategy=strategies.ASAP(16), **given,
        )  # fmt: skip
    found["few"] = limits.assessed(strategy=limits.few(half_width=0.1), mesh=mesh)
    found["sequential"] = jaxrob.compare_sequentially(
        limits.classifier(), limits.classifier(0.6), limits.dataset(), limits.dim, 0.7,
        strategy=strategies.FewImages(strategies.ASAP(64), half_width=0.1), **given,
    )  # fmt: skip
    found["roma"] = roma.assess(
        world.classifier(), world.grey()[:9], epsilon=0.15, num_samples=100,
        estimator="auto", budget=2000, **given,
    )  # fmt: skip
    few = world.classifier(), world.grey()[:9], world.labels()[:9]
    found["pgd"] = adversarial.pgd(*few, epsilon=0.1, steps=3, mesh=mesh)
    found["trained"] = training.fit(
        networks.MLP((4,), 3), world.dataset(), epochs=2, batch_size=12, **given
    )
    return found
