"""Cases of `jaxrob.compare`: two networks on the same images."""

import numpy as np

import jaxrob
from random_cases import assessing, draw


def compared(found, rng, setting):
    """The difference is of both robustnesses; swapped it is the mirror image."""
    pair = setting.structure.pairs[rng.integers(len(setting.structure.pairs))]
    asked = assessing.random_question(rng, setting, pair)
    asked = asked._replace(scoring={}, measure="accuracy")
    setting.note(pair.alteration.name, asked)
    _, other = draw.random_network(rng, setting.structure)
    second = asked._replace(strategy=assessing.random_strategy(rng), rule=None)
    setting.note(second.strategy)
    results = [
        jaxrob.assess(
            classifier,
            setting.dataset,
            pair.alteration,
            **setting.arguments,
            **one.arguments,
        )
        for classifier, one in ((setting.classifier, asked), (other, second))
    ]
    assessing.check(found, rng, setting, asked, pair, results[0])
    difference, (low, high), confidence = jaxrob.compare(*results)
    expected = results[0].robustness - results[1].robustness
    found.close(difference, expected, "difference")
    found.equal(confidence, 0.95, "confidence")
    mirrored, (back_low, back_high), _ = jaxrob.compare(*results[::-1])
    found.close(mirrored, -expected, "difference, swapped")
    if np.isnan(expected):
        return
    found.expect(-1 <= low <= difference <= high <= 1, "interval", (low, high))
    found.close((back_low, back_high), (-high, -low), "interval, swapped")
