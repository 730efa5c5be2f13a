import jax
import numpy as np
import pytest

from jaxrob import Alteration
from jaxrob.alterations import brightness, gaussian_noise
from jaxrob.reporting import examples, figure, plot

from .reports import counted

LEVELS = np.array([-1.0, -0.5, 0.0, 0.5, 1.0])
CORRECT = np.array([60, 100, 60, 80, 90])


DARKER = brightness(-1.0, 1.0)


def assessment(levels=LEVELS, correct=CORRECT, **changes):
    """Right answers of 100 images at each level."""
    return counted(correct, 100, levels, **changes)


def lines_of(axes):
    """The curve, the threshold and the identity, by what they are."""
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
    assert plot(one, axes) is axes and one.plot(axes) is axes
    assert len(pyplot.get_fignums()) == 1
    axes = plot(one)
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
    curve, *_ = lines_of(plot(assessment(many, np.full(1000, 90))))
    assert curve.get_marker() in ("None", None)


def test_accepted_intervals_are_shaded():
    axes = plot(assessment())
    np.testing.assert_allclose(shaded(axes), [(-0.75, -0.25), (0.5, 1)], atol=1e-9)
    axes = plot(assessment(threshold=0.5))
    np.testing.assert_allclose(shaded(axes), [(-1, 1)], atol=1e-9)
    assert shaded(plot(assessment(threshold=1.0, correct=CORRECT // 2))) == []


def drawn_images(whole):
    panels = [axes for axes in whole.axes if axes.images]
    return panels, [axes.images[0].get_array() for axes in panels]


def test_a_strip_of_examples_under_each_panel():
    # The last one leaves the range of a picture.
    shift = Alteration("shift", lambda image, level: image + level, 0.0, 5.0)
    alterations = [DARKER, gaussian_noise(0.0, 0.2), shift]
    image = np.full((6, 5, 3), 128, np.uint8)
    results = [
        *(assessment(), assessment(lower=0.0, upper=0.2, alteration="noise")),
        assessment(lower=0.0, upper=5.0, alteration="shift"),
    ]
    whole = figure(
        results, alterations, image, jax.random.key(0), columns=2, num_examples=3
    )
    panels, strips = drawn_images(whole)
    assert len(whole.axes) == 6 and len(panels) == 3
    for strip in strips:
        assert strip.shape[:2] == (6, 3 * 6 - 1)
        assert strip.min() >= 0 and strip.max() <= 1
    dark, same, light = (np.asarray(strips[0])[:, i : i + 5] for i in (0, 6, 12))
    assert (dark == 0).all() and (light == 1).all()
    np.testing.assert_allclose(same, 128 / 255, atol=1e-6)
    labels = [text.get_text() for text in panels[1].get_xticklabels()]
    assert labels == ["0", "0.1", "0.2"]
    for some, one in ((results[:2], alterations[:1]), ([], [])):
        with pytest.raises(ValueError, match="as many|empty"):
            figure(some, one, image, jax.random.key(0))


def test_examples():
    image = np.random.default_rng(0).random((6, 5, 3), np.float32)
    got = examples(DARKER, image, np.array([0.0, -0.5, 0.0]), None)
    assert got.shape == (3, 6, 5, 3) and got.dtype == np.float32
    np.testing.assert_array_equal(got[0], image)
    np.testing.assert_allclose(got[1], image / 2, atol=1e-6)
    with pytest.raises(ValueError, match="levels"):
        examples(DARKER, image, np.array([1.6]), None)


def test_matplotlib_is_asked_for(hide):
    hide("matplotlib")
    with pytest.raises(ImportError, match=r"\[command\]"):
        plot(assessment())
