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
    shared = set(np.float32(results[0].levels)) & set(np.float32(results[1].levels))
    if not shared:
        try:
            jaxrob.compare(*results)
        except ValueError as error:
            found.expect("no level in common" in str(error), "refused", str(error))
        else:
            found.expect(False, "compared without a shared level")
        return
    there = jaxrob.compare(*results)
    found.expect(len(there.levels) == len(shared), "shared levels", there.levels)
    difference, (low, high) = there.difference, there.confidence_interval
    expected = results[0].robustness - results[1].robustness
    found.close(difference, expected, "difference")
    back = jaxrob.compare(*results[::-1])
    back_low, back_high = back.confidence_interval
    found.close(back.difference, -expected, "difference, swapped")
    low_mean, high_mean = there.mean_interval
    found.expect(low_mean <= there.mean_difference <= high_mean, "mean", low_mean)
    found.close(back.mean_interval, (-high_mean, -low_mean), "mean, swapped")
    if np.isnan(expected):
        return
    found.expect(-1 <= low <= difference <= high <= 1, "interval", (low, high))
    found.close((back_low, back_high), (-high, -low), "interval, swapped")
