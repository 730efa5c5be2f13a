import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from skimage import metrics

from jaxrob import adversarial

quick = settings(deadline=None, max_examples=30)
pixels = st.floats(0, 1, width=32)


def pairs(seed, shape):
    rng = np.random.default_rng(seed)
    a = rng.random(shape, np.float32)
    b = np.clip(a + rng.normal(0, 0.1, shape), 0, 1).astype(np.float32)
    return a, b


def test_by_hand():
    # Means 1/2 and 1/4, variances 1/4 and 1/16, covariance 1/8.
    p = np.array([0, 1, 0, 1], np.float32).reshape(1, 2, 2, 1)
    similarity = adversarial.structural_similarity(p, p / 2)
    expected = 0.2501 * 0.2509 / (0.3126 * 0.3134)
    np.testing.assert_allclose(similarity, [expected], rtol=1e-12)
    # Constant images: the means alone. Opposite ones: the covariance is -1/4.
    flat = np.full((1, 2, 2, 1), 0.5, np.float32)
    similarity = adversarial.structural_similarity(flat, 2 * flat)
    np.testing.assert_allclose(similarity, [1.0001 / 1.2501], rtol=1e-12)
    similarity = adversarial.structural_similarity(p, 1 - p)
    np.testing.assert_allclose(similarity, [(0.0009 - 0.5) / 0.5009], rtol=1e-12)


def test_whole_image_is_skimages_single_window():
    a, b = pairs(0, (5, 9, 9, 1))
    expected = [
        metrics.structural_similarity(
            p, q, win_size=9, data_range=1.0, use_sample_covariance=False
        )
        for p, q in zip(a[..., 0].astype(float), b[..., 0].astype(float))
    ]
    similarity = adversarial.structural_similarity(a, b)
    np.testing.assert_allclose(similarity, expected, rtol=1e-9)


@pytest.mark.parametrize("shape", [(4, 28, 28, 1), (3, 11, 20, 3)])
def test_windowed_is_skimages(shape):
    a, b = pairs(1, shape)
    expected = [
        metrics.structural_similarity(
            p,
            q,
            data_range=1.0,
            gaussian_weights=True,
            sigma=1.5,
            use_sample_covariance=False,
            channel_axis=-1,
        )
        for p, q in zip(a.astype(float), b.astype(float))
    ]
    np.testing.assert_allclose(
        adversarial.windowed_similarity(a, b), expected, atol=2e-5
    )


@quick
@given(st.data(), hnp.array_shapes(min_dims=4, max_dims=4, max_side=4))
def test_symmetric_bounded_and_one_for_the_image_itself(data, shape):
    a = data.draw(hnp.arrays(np.float32, shape, elements=pixels))
    b = data.draw(hnp.arrays(np.float32, shape, elements=pixels))
    similarity = adversarial.structural_similarity(a, b)
    assert similarity.shape == shape[:1] and similarity.dtype == np.float64
    assert (np.abs(similarity) <= 1 + 1e-12).all()
    np.testing.assert_allclose(
        similarity, adversarial.structural_similarity(b, a), rtol=1e-12
    )
    np.testing.assert_array_equal(adversarial.structural_similarity(a, a), 1)


def test_tells_images_apart_that_float32_cannot():
    a, _ = pairs(2, (1, 28, 28, 1))
    b = a.copy()
    b[0, 3, 3, 0] -= 1e-5
    similarity = adversarial.structural_similarity(a, b)
    assert np.float32(similarity[0]) == 1 and similarity[0] < 1


def test_refusals():
    image = np.zeros((2, 12, 12, 1), np.float32)
    for function in (
        adversarial.structural_similarity,
        adversarial.windowed_similarity,
    ):
        with pytest.raises(
            ValueError, match=r"b must have the shape \[N, H, W, C\] with N = 2"
        ):
            function(image, image[:1])
        with pytest.raises(ValueError, match=r"a must have the shape \[N, H, W, C\]"):
            function(image[0], image[0])
        with pytest.raises(TypeError, match="floating"):
            function(image, image.astype(np.uint8))
    with pytest.raises(ValueError, match="at least 11 x 11"):
        adversarial.windowed_similarity(image[:, :10], image[:, :10])


@pytest.mark.parametrize("value", [300.0, -0.1, np.nan])
def test_pixels_that_are_none(value):
    image = np.full((1, 12, 12, 1), 0.5, np.float32)
    for function in (
        adversarial.structural_similarity,
        adversarial.windowed_similarity,
    ):
        with pytest.raises(ValueError, match="b must (lie in|be finite).*; got"):
            function(image, np.full_like(image, value))
