"""Plots of measures, networks, confusions, categories and failures."""

import dataclasses

import numpy as np
import pytest

from jaxrob import metrics
from jaxrob.reporting import (
    plot_categories,
    plot_confusion,
    plot_measures,
    plot_networks,
)

from . import reports as made


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
    axes = plot_measures(one)
    found = curves(axes)
    assert list(found) == ["accuracy", "decided ratio", "effectiveness"]
    np.testing.assert_array_equal(found["accuracy"].get_ydata(), one.curve.accuracy)
    np.testing.assert_allclose(
        found["decided ratio"].get_ydata(), 1 - one.curve.indecision
    )
    np.testing.assert_array_equal(
        found["effectiveness"].get_ydata(), one.curve.effectiveness
    )
    # Of the first band the outline holds the ends of Wilson's interval.
    low, high = metrics.bands(one.curve.confusion, "accuracy")
    outline = axes.collections[0].get_paths()[0].vertices[:, 1]
    assert set(np.round(low, 9)) <= set(np.round(outline, 9))
    assert set(np.round(high, 9)) <= set(np.round(outline, 9))
    assert "60 images" in axes.get_xlabel()
    # All decided: the three would be one line.
    assert list(curves(plot_measures(made.assessment()))) == ["accuracy"]


def test_networks_that_coincide_are_distinguishable():
    one = made.assessment()
    axes = plot_networks([one, one, one], ["a", "_b", "$c$"])
    found = list(curves(axes).values())
    widths = [line.get_linewidth() for line in found]
    sizes = [line.get_markersize() for line in found]
    assert widths == sorted(set(widths), reverse=True)
    assert sizes == sorted(set(sizes), reverse=True)
    for part in ("get_linestyle", "get_color", "get_marker"):
        assert len({str(getattr(line, part)()) for line in found}) == 3
    axes.figure.canvas.draw()  # No formula is seen in a name.
    legend = [text.get_text() for text in axes.get_legend().get_texts()]
    assert len(legend) == 3
    # On the picture each of them can be seen.
    from matplotlib import colors

    pixels = np.asarray(axes.figure.canvas.buffer_rgba())[..., :3].reshape(-1, 3)
    for line in found:
        colour = np.round(255 * np.array(colors.to_rgb(line.get_color())))
        assert (np.abs(pixels - colour).max(-1) < 12).sum() > 60


def test_networks_must_share_what_they_are_asked():
    one = made.assessment()
    with pytest.raises(ValueError, match="alteration"):
        plot_networks([one, dataclasses.replace(one, alteration="zoom")], ["a", "b"])
    with pytest.raises(ValueError, match="as many"):
        plot_networks([one], ["a", "b"])
    with pytest.raises(ValueError, match="at most 6"):
        plot_networks([one] * 7, list("abcdefg"))
    with pytest.raises(TypeError, match="axes of matplotlib"):
        plot_measures(one, axes=3)


def test_confusion_at_a_level():
    one = with_unknown()
    axes = plot_confusion(one, 2.1, ("cat", "dog", "$owl"))
    counts = one.curve.confusion[4]  # The level 2 is next to 2.1.
    shares = axes.images[0].get_array()
    np.testing.assert_allclose(shares, counts / counts.sum(-1, keepdims=True))
    assert axes.get_title() == "gaussian blur at 2 px"
    labels = [text.get_text() for text in axes.get_xticklabels()]
    assert labels == ["cat", "dog", r"\$owl", "unknown"]
    written = {text.get_text() for text in axes.texts}
    assert written == {str(count) for count in counts.ravel() if count}
    axes = plot_confusion(made.assessment(), 4.0)
    assert axes.images[0].get_array().shape == (3, 3)
    with pytest.raises(ValueError, match="level must lie in"):
        plot_confusion(one, 5.0)
    with pytest.raises(ValueError, match="as many as the classes; got 1 for 3"):
        plot_confusion(one, 0.0, ("cat",))


def test_categories_of_roma():
    chance = np.where(np.arange(30) % 3 == 1, 0.3, 0.01) * np.linspace(0.8, 1.2, 30)
    result = made.roma(30, log_adversarial_probability=np.log(chance))
    axes = plot_categories(result, made.NAMES)
    labels = [text.get_text() for text in axes.get_yticklabels()]
    assert labels[0] == "dog (10 of 10)" and len(labels) == 3
    found = axes.lines[0].get_xdata()
    np.testing.assert_allclose(found[0], 1 - chance[1::3].mean())
    assert len(axes.collections[0].get_segments()) == 3
