"""Image classifiers of transformers and timm, with random weights."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrob
from jaxrob import alterations

torch = pytest.importorskip("torch", reason="needs the extra jaxrob[transformers]")
transformers = pytest.importorskip(
    "transformers", reason="needs the extra jaxrob[transformers]"
)
pytest.importorskip("torchvision", reason="needs the extra jaxrob[transformers]")
timm = pytest.importorskip("timm", reason="needs the extra jaxrob[timm]")
Image = pytest.importorskip("PIL.Image", reason="timm's transforms need it")

from_transformers = jaxrob.Classifier.from_transformers
RANDOM = np.random.default_rng(0)
PICTURES = [RANDOM.integers(0, 256, (48, w, 3), dtype=np.uint8) for w in (64, 40, 48)]
NAMES = ("ant", "bee", "cat", "dog", "elk")
SIZE = {"height": 32, "width": 32}
DATA = jaxrob.Dataset(RANDOM.integers(0, 256, (3, 40, 48, 3), np.uint8), np.arange(3))


def vit(config="ViT", model="ViTForImageClassification", **settings):
    settings = {"num_labels": 5, "image_size": 32, "patch_size": 8} | settings
    config = getattr(transformers, f"{config}Config")(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=16, initializer_range=0.5, **settings,
    )  # fmt: skip
    torch.manual_seed(0)
    return getattr(transformers, model)(config)


def resnet():
    config = transformers.ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic",
        num_labels=5,
    )  # fmt: skip
    torch.manual_seed(0)
    return transformers.ResNetForImageClassification(config)


def deit():
    """It returns three arrays of the shape `[B, K]`."""
    return vit("DeiT", "DeiTForImageClassificationWithTeacher")


def of(name, **settings):
    return getattr(transformers, f"{name}ImageProcessor")(**settings)


@pytest.mark.parametrize(
    "make, processor",
    [
        (vit, lambda: of("ViT", size=SIZE)),
        (vit, lambda: of("CLIP", size={"shortest_edge": 40}, crop_size=SIZE)),
        (deit, lambda: of("DeiT", size={"height": 36, "width": 40}, crop_size=SIZE)),
        # It enlarges to 32 / 0.875, and crops to 32 pixels.
        (resnet, lambda: of("ConvNext", size={"shortest_edge": 32})),
        # It divides by the standard deviation twice.
        (resnet, lambda: of("EfficientNet", size=SIZE, image_std=[0.4, 0.5, 0.6])),
        (resnet, lambda: of("ViT", size=SIZE, do_rescale=False, image_mean=[99.0] * 3)),
    ],
    ids=["vit", "clip", "deit", "convnext", "efficientnet", "bytes"],
)
def test_answers_are_those_of_the_model(make, processor):
    """Of pictures that its own processor resized and cropped."""
    model, processor = make().eval(), processor()
    with torch.no_grad():
        truth = model(**processor(images=PICTURES, return_tensors="pt")).logits.numpy()
    resized = {"do_rescale": False, "do_normalize": False}
    if hasattr(processor, "include_top"):
        resized["include_top"] = False
    found = processor(images=PICTURES, return_tensors="np", **resized)["pixel_values"]
    images = np.moveaxis(np.uint8(found), 1, -1)
    check_answers(from_transformers(model, processor), images, truth)


def check_answers(classifier, images, truth):
    """Those of a model that takes 32 x 32 pixels."""
    ours = classifier.raw_outputs(jnp.float32(images) / 255)[0]
    np.testing.assert_allclose(ours, truth, rtol=1e-4, atol=1e-5 * np.abs(truth).max())
    data = jaxrob.Dataset(images, np.arange(3))
    curve = jaxrob.evaluate(classifier, data, alterations.brightness(), [0.0])
    np.testing.assert_array_equal(curve.predicted[0], truth.argmax(1))
    with pytest.raises(ValueError, match=r"takes images of size=\(32, 32\); got 6x6"):
        classifier.num_classes((6, 6, 3))


def test_the_configuration_names_the_classes():
    names = dict(enumerate(NAMES))
    processor = of("ViT", size=SIZE)
    assert from_transformers(vit(id2label=names), processor).class_names == NAMES
    assert from_transformers(vit(), processor).class_names is None
    given = from_transformers(vit(id2label=names), processor, class_names=NAMES[::-1])
    assert given.class_names == NAMES[::-1]
    with pytest.raises(ValueError, match="class_names must be 5"):
        from_transformers(vit(), processor, class_names=NAMES[1:])


def test_the_processor_beside_the_weights(tmp_path):
    vit().save_pretrained(tmp_path)
    model = transformers.AutoModelForImageClassification.from_pretrained(tmp_path)
    with pytest.raises(ValueError, match="processor must be given, because none was"):
        from_transformers(model)
    of("ViT", size=SIZE, image_mean=[0.1, 0.2, 0.3]).save_pretrained(tmp_path)
    found = from_transformers(model).apply_fn.preprocessing
    assert found.mean == (0.1, 0.2, 0.3) and found.size == (32, 32)


def test_pictures_that_are_not_resized_may_have_any_size_or_one_of_ones_own():
    classifier = from_transformers(resnet(), of("ViT", do_resize=False, size=SIZE))
    assert classifier.num_classes((40, 24, 3)) == 5
    keeping = of("CLIP", do_center_crop=False, size={"shortest_edge": 32})
    assert from_transformers(resnet(), keeping, size=(32, 48)).num_classes((32, 48, 3))


@pytest.mark.parametrize(
    "make, processor, message",
    [
        (vit, lambda: of("MobileViT"), "no more than resize, .* MobileViTImageProc"),
        (vit, lambda: of("CLIP", do_center_crop=False), "size must be given, because"),
        (lambda: vit(num_labels=1), lambda: of("ViT"), "from_torch with outputs=.log"),
        (
            lambda: vit(problem_type="multi_label_classification"),
            lambda: of("ViT"),
            "'multi_label_classification'",
        ),
        (lambda: vit().vit, lambda: of("ViT"), "an image classifier, .* ViTMod"),
        (vit, lambda: None, "because the model was not loaded from a folder"),
        (lambda: torch.nn.Linear(2, 2), lambda: of("ViT"), "must be a model of transf"),
        (vit, lambda: {"size": 32}, "must be an image processor of transformers"),
        (lambda: vit(num_channels=1), lambda: of("ViT"), "take pictures of 1 channels"),
    ],
)
def test_what_is_refused(make, processor, message):
    with pytest.raises((ValueError, TypeError), match=message):
        from_transformers(make(), processor())


SMALL = {"input_size": (3, 32, 32)}


def model(name="test_resnet", num_classes=5, **config):
    torch.manual_seed(0)
    overlay = SMALL | config
    return timm.create_model(
        name, num_classes=num_classes, pretrained_cfg_overlay=overlay
    ).eval()


@pytest.mark.parametrize("name", ["test_resnet", "test_convnext"])
def test_answers_are_those_of_a_model_of_timm(name):
    """Of pictures that its own transform resized and cropped."""
    net = model(name, mean=(0.1, 0.5, 0.9), std=(0.2, 0.4, 0.6))
    config = timm.data.resolve_model_data_config(net)
    *resize, _, _ = timm.data.create_transform(**config).transforms
    whole = timm.data.create_transform(**config)
    pictures = [Image.fromarray(one) for one in DATA.images]
    with torch.no_grad():
        truth = net(torch.stack([whole(one) for one in pictures])).numpy()
    for step in resize:
        pictures = [step(one) for one in pictures]
    images = np.stack(list(map(np.asarray, pictures)))
    classifier = jaxrob.Classifier.from_timm(net)
    check_answers(classifier, images, truth)
    assert classifier.class_names is None


def test_names_of_the_weights():
    names = ["a", "b", "c", "d", "e"]
    found = jaxrob.Classifier.from_timm(model(label_names=names))
    assert found.class_names == tuple(names)
    other = jaxrob.Classifier.from_timm(model(num_classes=4, label_names=names))
    assert other.class_names is None


def test_timm_with_a_size_of_ones_own_and_a_gradient():
    classifier = jaxrob.Classifier.from_timm(model(), size=24)
    x = jnp.float32(DATA.images[:, :24, :24]) / 255
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
    for name, net in (("timm", model()), ("torch", torch.nn.Linear(2, 2))):
        with pytest.raises(TypeError, match=rf"say jaxrob.Classifier.from_{name}\("):
            jaxrob.assess(net, DATA, alterations.brightness())


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: model(num_classes=0), "must have classes; .*features"),
        (lambda: torch.nn.Linear(2, 2), "model must be what timm.create_model returns"),
        (lambda: "resnet10t", "model must be what timm.create_model returns; got 'res"),
    ],
)
def test_what_is_refused_of_timm(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        jaxrob.Classifier.from_timm(make())
