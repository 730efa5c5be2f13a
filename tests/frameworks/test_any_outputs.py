"""Networks of other frameworks whose outputs are no classes, under a score."""

import jax
import numpy as np
import pytest

import jaxrob
from jaxrob import alterations

IMAGES = np.random.default_rng(0).random((40, 8, 8, 3)).astype(np.float32)
MASKS = IMAGES[..., 0] > 0.5
DATA = jaxrob.Dataset(IMAGES, MASKS)
BRIGHTER = alterations.brightness(-0.5, 0.5)
LEVELS = [0.0, 0.3]


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
    curve = jaxrob.evaluate(classifier, DATA, BRIGHTER, LEVELS, score=score)
    return curve.scores


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
        jaxrob.evaluate(
            jaxrob.Classifier.from_torch(Detector()), DATA, BRIGHTER, LEVELS
        )


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
