"""Cases of `jaxrob.evaluate`: answers at given levels, with and without a journal."""

import functools
import pathlib

import numpy as np
from numpy_reference import answers

import jaxrob
from random_cases import agreement
from random_cases.alterations import inside

JOURNALS = ("none", "none", "new", "truncated", "more levels")


def evaluated(found, rng, setting):
    """Compares the answers at random levels."""
    pair = setting.structure.pairs[rng.integers(len(setting.structure.pairs))]
    levels = inside(rng, pair.alteration, rng.integers(1, 8))
    journal = str(rng.choice(JOURNALS))
    reduced = rng.random() < 0.25
    setting.note(pair.alteration.name, f"levels {levels.tolist()}", journal)
    arguments = {**setting.arguments, "reduced": reduced}
    evaluate = functools.partial(jaxrob.evaluate, setting.classifier, setting.dataset)
    if journal != "none":
        path = pathlib.Path(setting.folder, "journal")
        arguments["journal"] = path
    if journal in ("truncated", "more levels"):
        before = arguments | setting.other_way()
        known = levels[: rng.integers(1, len(levels) + 1)]
        evaluate(pair.alteration, known, **before)
        if journal == "truncated":
            truncate(rng, path, setting)
    curve = evaluate(pair.alteration, levels, **arguments)
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


def truncate(rng, path, setting):
    """Cuts a journal at a random byte, as a crash does."""
    kept = int(rng.integers(0, path.stat().st_size + 1))
    setting.note(f"kept {kept} bytes")
    with path.open("r+b") as file:
        file.truncate(kept)


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
