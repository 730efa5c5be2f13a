"""Plots of curves, measures, networks, confusions, categories, and examples."""

import dataclasses

import jax
import numpy as np
import pytest

from jaxrob import Alteration, metrics, reporting
from jaxrob.alterations import brightness, gaussian_noise

from . import reports as made
from .reports import counted

LEVELS = np.array([-1.0, -0.5, 0.0, 0.5, 1.0])
CORRECT = np.array([60, 100, 60, 80, 90])


DARKER = brightness(-1.0, 1.0)


def assessment(levels=LEVELS, correct=CORRECT, **changes):
    return counted(correct, 100, levels, **changes)


def lines_of(axes):
    by_size = {len(line.get_xdata()): line for line in axes.lines}
    curve = by_size.pop(max(by_size))
    flat = [line for line in axes.lines if line is not curve]
    (threshold,) = [x for x in flat if len(set(x.get_ydata())) == 1]
    (identity,) = [x for x in flat if len(set(x.get_xdata())) == 1]
    return curve, threshold, identity


def shaded(axes):
    boxes = [patch.get_extents().transformed(axes.transData.inverted())
             for patch in axes.patches]  # fmt: skip
    return [(box.x0, box.x1) for box in boxes]


def test_curve_threshold_and_identity():
    from matplotlib import colors, pyplot

    _, axes = pyplot.subplots()
    one = assessment(identity=0.25)
    assert reporting.plot(one, axes) is axes and one.plot(axes) is axes
    before, axes = reporting.plot(one), reporting.plot(one)
    assert len(pyplot.get_fignums()) == 2 and before.figure is not axes.figure
    curve, threshold, identity = lines_of(axes)
    np.testing.assert_array_equal(curve.get_xdata(), LEVELS)
    np.testing.assert_array_equal(curve.get_ydata(), CORRECT / 100)
    assert set(threshold.get_ydata()) == {0.8}
    assert set(identity.get_xdata()) == {0.25}
    assert threshold.get_linestyle() == "--" and identity.get_linestyle() == ":"
    assert not colors.same_color(curve.get_color(), threshold.get_color())
    # Few levels have markers.
    assert curve.get_marker() == "o"
    many = np.linspace(-1, 1, 1000)
    curve, *_ = lines_of(reporting.plot(assessment(many, np.full(1000, 90))))
    assert curve.get_marker() in ("None", None)


def test_accepted_intervals_are_shaded():
    axes = reporting.plot(assessment())
    np.testing.assert_allclose(shaded(axes), [(-0.75, -0.25), (0.5, 1)], atol=1e-9)
    axes = reporting.plot(assessment(threshold=0.5))
    np.testing.assert_allclose(shaded(axes), [(-1, 1)], atol=1e-9)
    assert shaded(reporting.plot(assessment(threshold=1.0, correct=CORRECT // 2))) == []


def test_a_strip_of_examples_under_each_panel():
    # The last one leaves the range of a picture.
    shift = Alteration("shift", lambda image, level: image + level, 0.0, 5.0)
    alterations = [DARKER, gaussian_noise(0.0, 0.2), shift]
    image = np.full((6, 5, 3), 128, np.uint8)
    results = [
        *(assessment(), assessment(lower=0.0, upper=0.2, alteration="gaussian noise")),
        assessment(lower=0.0, upper=5.0, alteration="shift"),
    ]
    whole = reporting.figure(
        results, alterations, image, jax.random.key(0), columns=2, num_examples=3
    )
    panels = [axes for axes in whole.axes if axes.images]
    strips = [axes.images[0].get_array() for axes in panels]
    assert len(whole.axes) == 6 and len(panels) == 3
    for strip in strips:
        assert strip.shape[:2] == (6, 3 * 6 - 1)
        assert strip.min() >= 0 and strip.max() <= 1
    dark, same, light = (np.asarray(strips[0])[:, i : i + 5] for i in (0, 6, 12))
    assert (dark == 0).all() and (light == 1).all()
    np.testing.assert_allclose(same, 128 / 255, atol=1e-6)
    labels = [text.get_text() for text in panels[1].get_xticklabels()]
    assert labels == ["0", "0.1", "0.2"]
    for some, one in ((results[:2], alterations[1::-1]), (results, alterations[:2])):
        with pytest.raises(ValueError, match="alterations"):
            reporting.figure(some, one, image, jax.random.key(0))


def test_examples():
    image = np.random.default_rng(0).random((6, 5, 3), np.float32)
    got = reporting.examples(DARKER, image, np.array([0.0, -0.5, 0.0]), None)
    assert got.shape == (3, 6, 5, 3) and got.dtype == np.float32
    np.testing.assert_array_equal(got[0], image)
    np.testing.assert_allclose(got[1], image / 2, atol=1e-6)
    with pytest.raises(ValueError, match="levels"):
        reporting.examples(DARKER, image, np.array([1.6]), None)


def test_matplotlib_is_asked_for(hide):
    hide("matplotlib")
    with pytest.raises(ImportError, match=r"\[command\]"):
        reporting.plot(assessment())


def with_unknown():
    uncertain = np.linspace(0, 0.6, 9)[:, None]
    uncertain = uncertain + np.linspace(-0.1, 0.1, 60)
    answers = made.curve(np.arange(60) / 15, uncertainty=uncertain, alpha=0.7)
    return made.assessment(answers=answers)


def curves(axes):
    return {
        line.get_label(): line
        for line in axes.lines
        if len(line.get_xdata()) == 9 and not line.get_label().startswith("_")
    }


def test_measures_with_their_bands():
    one = with_unknown()
    axes = reporting.plot_measures(one)
    found = curves(axes)
    assert list(found) == ["accuracy", "decided ratio", "effectiveness"]
    np.testing.assert_array_equal(found["accuracy"].get_ydata(), one.curve.accuracy)
    decided = found["decided ratio"].get_ydata()
    np.testing.assert_allclose(decided, 1 - one.curve.indecision)
    effective = found["effectiveness"].get_ydata()
    np.testing.assert_array_equal(effective, one.curve.effectiveness)
    # Of the first band the outline holds the ends of Wilson's interval.
    low, high = metrics.bands(one.curve.confusion, "accuracy")
    outline = axes.collections[0].get_paths()[0].vertices[:, 1]
    assert set(np.round(low, 9)) <= set(np.round(outline, 9))
    assert set(np.round(high, 9)) <= set(np.round(outline, 9))
    assert "60 images" in axes.get_xlabel()
    # All decided: the three would be one line.
    assert list(curves(reporting.plot_measures(made.assessment()))) == ["accuracy"]


def test_networks_that_coincide_are_distinguishable():
    one = made.assessment()
    axes = reporting.plot_networks([one, one, one], ["a", "_b", "$c$"])
    found = list(curves(axes).values())
    widths = [line.get_linewidth() for line in found]
    sizes = [line.get_markersize() for line in found]
    assert widths == sorted(set(widths), reverse=True)
    assert sizes == sorted(set(sizes), reverse=True)
    for part in ("get_linestyle", "get_color", "get_marker"):
        assert len({str(getattr(line, part)()) for line in found}) == 3
    axes.figure.canvas.draw()  # No formula is seen in a name.
    assert len([text.get_text() for text in axes.get_legend().get_texts()]) == 3
    # On the picture each of them can be seen.
    from matplotlib import colors

    pixels = np.asarray(axes.figure.canvas.buffer_rgba())[..., :3].reshape(-1, 3)
    for line in found:
        colour = np.round(255 * np.array(colors.to_rgb(line.get_color())))
        assert (np.abs(pixels - colour).max(-1) < 12).sum() > 60


def test_networks_must_share_what_they_are_asked():
    one = made.assessment()
    with pytest.raises(ValueError, match="alteration"):
        reporting.plot_networks(
            [one, dataclasses.replace(one, alteration="zoom")], ["a", "b"]
        )
    with pytest.raises(ValueError, match="as many"):
        reporting.plot_networks([one], ["a", "b"])
    with pytest.raises(ValueError, match="at most 6"):
        reporting.plot_networks([one] * 7, list("abcdefg"))
    with pytest.raises(TypeError, match="axes of matplotlib"):
        reporting.plot_measures(one, axes=3)


def test_confusion_at_a_level():
    one = with_unknown()
    axes = reporting.plot_confusion(one, 2.1, ("cat", "dog", "$owl"))
    counts = one.curve.confusion[4]  # The level 2 is next to 2.1.
    shares = axes.images[0].get_array()
    np.testing.assert_allclose(shares, counts / counts.sum(-1, keepdims=True))
    assert axes.get_title() == "gaussian blur at 2 px"
    labels = [text.get_text() for text in axes.get_xticklabels()]
    assert labels == ["cat", "dog", r"\$owl", "unknown"]
    written = {text.get_text() for text in axes.texts}
    assert written == {str(count) for count in counts.ravel() if count}
    axes = reporting.plot_confusion(made.assessment(), 4.0)
    assert axes.images[0].get_array().shape == (3, 3)
    with pytest.raises(ValueError, match="level must lie in"):
        reporting.plot_confusion(one, 5.0)
    with pytest.raises(ValueError, match="as many as the classes; got 1 for 3"):
        reporting.plot_confusion(one, 0.0, ("cat",))


def test_categories_of_roma():
    chance = np.where(np.arange(30) % 3 == 1, 0.3, 0.01) * np.linspace(0.8, 1.2, 30)
    result = made.roma(30, log_adversarial_probability=np.log(chance))
    axes = reporting.plot_categories(result, made.NAMES)
    labels = [text.get_text() for text in axes.get_yticklabels()]
    assert labels[0] == "dog (10 of 10)" and len(labels) == 3
    np.testing.assert_allclose(axes.lines[0].get_xdata()[0], 1 - chance[1::3].mean())
    assert len(axes.collections[0].get_segments()) == 3
