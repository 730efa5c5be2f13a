"""Models of timm, with random weights."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrob
from jaxrob import alterations

torch = pytest.importorskip("torch", reason="needs the extra jaxrob[timm]")
timm = pytest.importorskip("timm", reason="needs the extra jaxrob[timm]")
Image = pytest.importorskip("PIL.Image", reason="timm's transforms need it")

RANDOM = np.random.default_rng(0)
PICTURES = RANDOM.integers(0, 256, (3, 40, 48, 3), dtype=np.uint8)
SMALL = {"input_size": (3, 32, 32)}


def model(name="test_resnet", num_classes=5, **config):
    torch.manual_seed(0)
    overlay = SMALL | config
    return timm.create_model(
        name, num_classes=num_classes, pretrained_cfg_overlay=overlay
    ).eval()


@pytest.mark.parametrize("name", ["test_resnet", "test_convnext"])
def test_answers_are_those_of_the_model(name):
    """Of pictures that its own transform resized and cropped."""
    net = model(name, mean=(0.1, 0.5, 0.9), std=(0.2, 0.4, 0.6))
    config = timm.data.resolve_model_data_config(net)
    *resize, _, _ = timm.data.create_transform(**config).transforms
    whole = timm.data.create_transform(**config)
    pictures = [Image.fromarray(one) for one in PICTURES]
    with torch.no_grad():
        truth = net(torch.stack([whole(one) for one in pictures])).numpy()
    for step in resize:
        pictures = [step(one) for one in pictures]
    images = np.stack(list(map(np.asarray, pictures)))
    classifier = jaxrob.Classifier.from_timm(net)
    ours = classifier.raw_outputs(jnp.float32(images) / 255)[0]
    np.testing.assert_allclose(ours, truth, rtol=1e-4, atol=1e-5 * np.abs(truth).max())
    data = jaxrob.Dataset(images, np.arange(3))
    curve = jaxrob.evaluate(classifier, data, alterations.brightness(), [0.0])
    np.testing.assert_array_equal(curve.predicted[0], truth.argmax(1))
    assert classifier.class_names is None
    with pytest.raises(ValueError, match=r"takes images of size=\(32, 32\); got 6x6"):
        classifier.num_classes((6, 6, 3))


def test_names_of_the_weights():
    names = ["a", "b", "c", "d", "e"]
    found = jaxrob.Classifier.from_timm(model(label_names=names))
    assert found.class_names == tuple(names)
    other = jaxrob.Classifier.from_timm(model(num_classes=4, label_names=names))
    assert other.class_names is None
    given = jaxrob.Classifier.from_timm(model(), class_names=names[::-1])
    assert given.class_names == tuple(names[::-1])
    with pytest.raises(ValueError, match="class_names must be 5"):
        jaxrob.Classifier.from_timm(model(), class_names=names[:2])


def test_a_size_of_ones_own_and_a_gradient():
    classifier = jaxrob.Classifier.from_timm(model(), size=24)
    x = jnp.float32(PICTURES[:, :24, :24]) / 255
    gradient = jax.grad(lambda x: classifier.raw_outputs(x)[0, :, 1].sum())(x)
    assert gradient.shape == x.shape and gradient.any()


@pytest.mark.parametrize("name", ["vit_tiny_patch16_224", "mixer_s16_224"])
def test_the_size_that_a_model_was_made_with(name):
    """The settings of its weights say 224."""
    net = timm.create_model(name, num_classes=5, img_size=(32, 48))
    assert timm.data.resolve_model_data_config(net)["input_size"] == (3, 224, 224)
    assert jaxrob.Classifier.from_timm(net).num_classes((32, 48, 3)) == 5
    plain = jaxrob.Classifier.from_timm(timm.create_model("test_vit", num_classes=5))
    assert plain.num_classes((160, 160, 3)) == 5


def test_a_network_in_place_of_a_classifier():
    """The error names what takes it: a model of timm is torch's, too."""
    data = jaxrob.Dataset(PICTURES, np.arange(3))
    for name, net in (("timm", model()), ("torch", torch.nn.Linear(2, 2))):
        with pytest.raises(TypeError, match=rf"say jaxrob.Classifier.from_{name}\("):
            jaxrob.assess(net, data, alterations.brightness())


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: model(num_classes=0), "must have classes; .*features"),
        (lambda: torch.nn.Linear(2, 2), "model must be what timm.create_model returns"),
        (lambda: "resnet10t", "model must be what timm.create_model returns; got 'res"),
    ],
)
def test_what_is_refused(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        jaxrob.Classifier.from_timm(make())
