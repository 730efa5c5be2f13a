"""Cases of `jaxrob.evaluate`: answers at given levels."""

import numpy as np
from numpy_reference import answers

import jaxrob
from random_cases import agreement
from random_cases.alterations import inside


def evaluated(found, rng, setting):
    """Compares the answers at random levels."""
    pair = setting.structure.pairs[rng.integers(len(setting.structure.pairs))]
    levels = inside(rng, pair.alteration, rng.integers(1, 8))
    reduced = rng.random() < 0.25
    setting.note(pair.alteration.name, f"levels {levels.tolist()}")
    curve = jaxrob.evaluate(
        setting.classifier,
        setting.dataset,
        pair.alteration,
        levels,
        reduced=reduced,
        **setting.arguments,
    )
    found.equal(curve.levels, levels, "curve.levels")
    if reduced:
        check_reduced(found, curve, setting.truth, pair)
        return
    agreement.check_answers(found, curve, setting.truth, pair, rng)
    alpha = setting.random_alpha(rng)
    setting.note(f"alpha {alpha}")
    curve = curve.with_unknown(alpha)
    found.equal(curve.alpha, alpha, "curve.alpha")
    counts = agreement.check_curve(found, curve, alpha, pair.alteration.identity)
    agreement.check_measures(found, counts)


def check_reduced(found, curve, truth, pair):
    """Counts, where no near tie leaves them open."""
    expected = truth.answers(pair, curve.levels)
    sure = (expected.margin >= agreement.NEAR_TIE).all(1)
    counts = answers.confusion(
        expected.predicted.astype(int),
        np.zeros(expected.predicted.shape, bool),
        truth.labels,
        truth.num_classes,
    )
    found.equal(curve.confusion[sure], counts[sure], "confusion of a reduced curve")
    found.tally["answers"] += expected.predicted.size
    agreement.check_counts(found, curve, curve.confusion)
