"""Networks of other frameworks: outputs that are no classes, and errors."""

import os
import traceback

import jax
import numpy as np
import pytest
from flax import linen

import jaxrob
from jaxrob import alterations

IMAGES = np.random.default_rng(0).random((40, 8, 8, 3)).astype(np.float32)
MASKS = IMAGES[..., 0] > 0.5
DATA = jaxrob.Dataset(IMAGES, MASKS)
BRIGHTER = alterations.brightness(-0.5, 0.5)
LEVELS = [0.0, 0.3]
CLASSES = jaxrob.Dataset(IMAGES[:8], np.arange(8) % 2)


def altered(level):
    alter = jax.vmap(lambda image: BRIGHTER(image, level, jax.random.key(0)))
    return np.asarray(jax.jit(alter)(IMAGES))


def agreement(found, masks):
    return (found == masks).mean((1, 2))


def by_hand(found):
    """The scores of a function from images to masks."""
    return np.stack([agreement(found(altered(level)), MASKS) for level in LEVELS])


def reds(images):
    return images[..., 0] > 0.6


def scored(classifier, score):
    return jaxrob.evaluate(classifier, DATA, BRIGHTER, LEVELS, score=score).scores


def test_torch_module_with_a_list_for_each_image():
    torch = pytest.importorskip("torch", reason="needs the extra jaxrob[torch]")

    class Detector(torch.nn.Module):
        def forward(self, images):
            return [{"mask": one[0] > 0.6, "note": "none"} for one in images]

    classifier = jaxrob.Classifier.from_torch(Detector(), "any", batch_size=16)

    def score(outputs, masks):
        return agreement(np.stack([one["mask"] for one in outputs]), masks)

    np.testing.assert_array_equal(scored(classifier, score), by_hand(reds))

    with pytest.raises(ValueError, match='got list.*needs outputs="any"'):
        detector = jaxrob.Classifier.from_torch(Detector())
        jaxrob.evaluate(detector, DATA, BRIGHTER, LEVELS)


def test_torch_items_with_masks():
    """In memory, read again and as batches they score as arrays do."""
    torch = pytest.importorskip("torch", reason="needs the extra jaxrob[torch]")
    images = torch.tensor(IMAGES).permute(0, 3, 1, 2)
    source = torch.utils.data.TensorDataset(images, torch.tensor(MASKS))
    batches = torch.utils.data.DataLoader(source, batch_size=16)
    network = jaxrob.Classifier(lambda _, x: x[..., 0], outputs="any")
    score = jaxrob.Score(lambda found, masks: ((found > 0.5) == masks).mean((1, 2)))
    for data in (
        jaxrob.Dataset.from_items(source, channels_first=True),
        jaxrob.Dataset.from_items(source, channels_first=True, max_bytes=5000),
        jaxrob.Dataset.from_batches(batches, channels_first=True),
    ):
        curve = jaxrob.evaluate(network, data, BRIGHTER, LEVELS, score=score)
        expected = by_hand(lambda images: images[..., 0] > 0.5)
        np.testing.assert_allclose(curve.scores, expected, atol=0.02)


def test_torch_module_with_a_tuple():
    torch = pytest.importorskip("torch", reason="needs the extra jaxrob[torch]")

    class Segmenter(torch.nn.Module):
        def forward(self, images):
            return {"red": images[:, 0].bfloat16().float(), "two": (images, None)}

    classifier = jaxrob.Classifier.from_torch(Segmenter(), "any")

    def score(outputs, masks):
        assert outputs["two"][0].shape == (len(masks), 3, 8, 8)
        return agreement(outputs["red"] > 0.6, masks)

    np.testing.assert_allclose(scored(classifier, score), by_hand(reds), atol=0.02)


def test_onnx_file_with_two_outputs(tmp_path):
    onnx = pytest.importorskip("onnx", reason="needs the extra jaxrob[onnx]")
    pytest.importorskip("onnxruntime", reason="needs the extra jaxrob[onnx]")
    helper = onnx.helper
    outputs = {"same": "Identity", "negative": "Neg"}
    nodes = [helper.make_node(kind, ["x"], [name]) for name, kind in outputs.items()]
    given, *returned = (
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["B", 3, 8, 8])
        for name in ("x", *outputs)
    )
    graph = helper.make_graph(nodes, "two", [given], returned)
    opset = [helper.make_opsetid("", 13)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=8)
    path = tmp_path / "two.onnx"
    onnx.save(model, path)
    classifier = jaxrob.Classifier.from_onnx(path, "any")

    def score(outputs, masks):
        return agreement(-outputs["negative"][:, 0] > 0.6, masks)

    np.testing.assert_array_equal(scored(classifier, score), by_hand(reds))
    with pytest.raises(ValueError, match="one output"):
        jaxrob.Classifier.from_onnx(path)


def test_keras_model_with_two_outputs():
    keras = pytest.importorskip("keras", reason="needs the extra jaxrob[keras]")
    inputs = keras.Input((8, 8, 3))
    outputs = {"half": inputs * 0.5, "mean": keras.ops.mean(inputs, (1, 2, 3))}
    model = keras.Model(inputs, outputs)
    classifier = jaxrob.Classifier.from_keras(model, "any")

    def score(outputs, masks):
        return agreement(outputs["half"][..., 0] > 0.3, masks)

    np.testing.assert_allclose(scored(classifier, score), by_hand(reds), atol=0.02)
    with pytest.raises(ValueError, match="one of outputs"):
        jaxrob.Classifier.from_keras(model)


def functions(error):
    return [frame.name for frame in traceback.extract_tb(error.__traceback__)]


def own_code(images):
    raise LookupError("no such layer")


@pytest.mark.parametrize(
    "run",
    [
        lambda one: jaxrob.evaluate(one, CLASSES, alterations.brightness(), [0.0]),
        lambda one: jaxrob.assess(one, CLASSES, alterations.brightness()),
        lambda one: jaxrob.roma.assess(one, IMAGES[:3], key=jax.random.key(0)),
    ],
)
def test_what_is_printed_of_an_error_on_the_host(run):
    with pytest.raises(LookupError) as caught:
        run(jaxrob.Classifier.from_host(own_code, 2))
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert frames[-1].name == "own_code"
    assert sum(frame.filename != __file__ for frame in frames) <= 3
    printed = "".join(traceback.format_exception(caught.value))
    assert "pure_callback failed" not in printed
    assert "raised by the host function on a batch of the shape" in printed


def of_linen():
    class Net(linen.Module):
        @linen.compact
        def __call__(self, images):
            return own_code(images)

    return jaxrob.Classifier.from_linen(Net(), {})


def of_torch():
    torch = pytest.importorskip("torch", reason="needs the extra jaxrob[torch]")

    class Net(torch.nn.Module):
        def forward(self, images):
            return own_code(images)

    return jaxrob.Classifier.from_torch(torch.nn.Sequential(Net()))


def of_keras():
    os.environ.setdefault("KERAS_BACKEND", "jax")
    keras = pytest.importorskip("keras", reason="needs the extra jaxrob[keras]")

    class Net(keras.Model):
        def call(self, images):
            return own_code(images)

    net = Net()
    net.built = True
    return jaxrob.Classifier.from_keras(net)


def of_equinox():
    equinox = pytest.importorskip("equinox", reason="needs the extra jaxrob[equinox]")

    class Net(equinox.Module):
        def __call__(self, image):
            return own_code(image)

    return jaxrob.Classifier.from_equinox(Net())


@pytest.mark.parametrize("make", [of_linen, of_torch, of_keras, of_equinox])
def test_the_cause_begins_with_the_users_code(make):
    classifier = make()
    with pytest.raises(
        ValueError, match="(?s)failed on images.*Error: .*no such layer"
    ) as caught:
        jaxrob.evaluate(classifier, CLASSES, alterations.brightness(), [0.0])
    assert functions(caught.value.__cause__)[1:] == ["own_code"]


def test_frameworks_layers_alone():
    """There is no code of the user's to begin with."""
    torch = pytest.importorskip("torch", reason="needs the extra jaxrob[torch]")
    classifier = jaxrob.Classifier.from_torch(torch.nn.Linear(5, 2))
    with pytest.raises(ValueError, match="failed on images") as caught:
        jaxrob.evaluate(classifier, CLASSES, alterations.brightness(), [0.0])
    assert functions(caught.value.__cause__)[-1] == "forward"
    assert functions(caught.value.__cause__)[0] != "program_of"


def test_errors_of_our_own_stay_whole():
    classifier = jaxrob.Classifier.from_host(lambda images: images[:, :2], 2)
    with pytest.raises(ValueError, match="host function must return") as caught:
        jaxrob.evaluate(classifier, CLASSES, alterations.brightness(), [0.0])
    assert functions(caught.value)[-1] == "_check"


def test_a_setting_of_jax_keeps_all_frames():
    classifier = jaxrob.Classifier.from_host(own_code, 2)
    before = jax.config.jax_traceback_filtering
    jax.config.update("jax_traceback_filtering", "off")
    try:
        with pytest.raises(LookupError) as caught:
            jaxrob.evaluate(classifier, CLASSES, alterations.brightness(), [0.0])
    finally:
        jax.config.update("jax_traceback_filtering", before)
    assert "evaluate_queue" in functions(caught.value)
