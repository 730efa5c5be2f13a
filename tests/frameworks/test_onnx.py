"""ONNX files: answers, what their shapes say, and files that are refused."""

import hashlib

import jax
import numpy as np
import pytest

import jaxrob
from jaxrob import alterations

onnx = pytest.importorskip("onnx", reason="needs the extra jaxrob[onnx]")
pytest.importorskip("onnxruntime", reason="needs the extra jaxrob[onnx]")
helper, FLOAT = onnx.helper, onnx.TensorProto.FLOAT

RANDOM = np.random.default_rng(0)
IMAGES = RANDOM.integers(0, 256, (20, 6, 6, 3), dtype=np.uint8)
DATA = jaxrob.Dataset(IMAGES, RANDOM.integers(0, 4, 20), name="random")
WEIGHTS = RANDOM.normal(size=(108, 4)).astype(np.float32)
BRIGHTNESS = alterations.brightness()


def save(
    path,
    *last,
    shape=("N", 3, 6, 6),
    kind=FLOAT,
    returned=FLOAT,
    inputs=1,
    outputs=1,
    weights=WEIGHTS,
    flat=(-1, 108),
):
    """A network of one matrix product, and what comes after it."""
    nodes = [
        helper.make_node("Constant", [], ["lengths"], value_ints=flat),
        helper.make_node("Constant", [], ["axes"], value_ints=[2, 3]),
        helper.make_node("Reshape", ["x0", "lengths"], ["flat0"]),
        helper.make_node("Cast", ["flat0"], ["flat"], to=FLOAT),
        helper.make_node("MatMul", ["flat", "w"], ["y0"]),
    ]
    for number, name in enumerate(last):
        to = {"to": returned} if name == "Cast" else {}
        given = [f"y{number}", *["axes"] * (name == "Unsqueeze")]
        nodes.append(helper.make_node(name, given, [f"y{number + 1}"], **to))
    value = helper.make_tensor_value_info
    names = [f"y{len(last)}", "flat"]
    graph = helper.make_graph(
        nodes,
        "net",
        [value(f"x{number}", kind, shape) for number in range(inputs)],
        [
            value(names[0], returned, [shape[0], 4, *[1, 1] * ("Unsqueeze" in last)]),
            value(names[1], FLOAT, [shape[0], 108]),
        ][:outputs],
        [onnx.numpy_helper.from_array(weights, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.save(model, path)
    return path


def logits(images):
    return np.moveaxis(images, -1, 1).reshape(len(images), -1) @ WEIGHTS


def assert_answers(classifier, levels=(0.0,)):
    curve = jaxrob.evaluate(classifier, DATA, BRIGHTNESS, levels)
    for predicted, level in zip(curve.predicted, levels, strict=True):
        truth = logits(np.clip(IMAGES / np.float32(255) * (1 + level), 0, 1))
        np.testing.assert_array_equal(predicted, truth.argmax(1))


def test_answers_are_those_of_the_network(tmp_path):
    path = save(tmp_path / "net.onnx", "Unsqueeze")
    assert_answers(jaxrob.Classifier.from_onnx(path))
    classifier = jaxrob.Classifier.from_onnx(save(path))
    assert_answers(classifier, [-0.5, 0.3])
    source = jaxrob.provenance(classifier, DATA)["network"]
    assert source["name"] == "net.onnx" and source["version"].startswith("sha256:")


def test_outputs_are_read_from_the_last_operation(tmp_path):
    for outputs, *last in (
        ("probabilities", "Softmax"),
        ("sigmoid", "Sigmoid", "Identity"),
        ("logits", "LogSoftmax"),
    ):
        path = save(tmp_path / "net.onnx", *last)
        assert jaxrob.Classifier.from_onnx(path).outputs == outputs
    # Labels, and what they were made of, as skl2onnx writes them.
    model = onnx.load(save(path, "Softmax"))
    model.graph.node.append(helper.make_node("ArgMax", ["y1"], ["label"], axis=1))
    label = helper.make_tensor_value_info("label", onnx.TensorProto.INT64, ["N", 1])
    both = [label, *model.graph.output]
    del model.graph.output[:]
    model.graph.output.extend(both)
    onnx.save(model, path)
    classifier = jaxrob.Classifier.from_onnx(path)
    assert classifier.outputs == "probabilities"
    assert_answers(classifier)


def test_a_fixed_batch_is_filled(tmp_path):
    free = jaxrob.Classifier.from_onnx(save(tmp_path / "free.onnx"))
    path = save(tmp_path / "net.onnx", shape=(8, 3, 6, 6))
    fixed = jaxrob.Classifier.from_onnx(path)
    one, other = (
        jaxrob.evaluate(some, DATA, BRIGHTNESS, [-0.5, 0.3]) for some in (free, fixed)
    )
    np.testing.assert_array_equal(one.predicted, other.predicted)
    with pytest.raises(ValueError, match="batch_size must be 8, as the input"):
        jaxrob.Classifier.from_onnx(path, batch_size=4)
    # The input says any number, and a Reshape one.
    path = save(path, flat=(1, 108))
    assert_answers(jaxrob.Classifier.from_onnx(path))


def test_channels_last_is_read_from_the_shape(tmp_path):
    path = save(tmp_path / "net.onnx", shape=("N", 6, 6, 3))
    curve = jaxrob.evaluate(jaxrob.Classifier.from_onnx(path), DATA, BRIGHTNESS, [0.0])
    truth = (IMAGES / np.float32(255)).reshape(20, -1) @ WEIGHTS
    np.testing.assert_array_equal(curve.predicted[0], truth.argmax(1))


def test_other_types(tmp_path):
    kind = onnx.TensorProto.FLOAT16
    path = save(tmp_path / "net.onnx", "Cast", kind=kind, returned=kind)
    curve = jaxrob.evaluate(jaxrob.Classifier.from_onnx(path), DATA, BRIGHTNESS, [0.0])
    truth = logits(IMAGES / np.float32(255))
    assert (curve.predicted[0] == truth.argmax(1)).mean() >= 0.9
    # Bytes are the pixels times 255, unless a preprocessing says otherwise.
    path = save(path, kind=onnx.TensorProto.UINT8)
    curve = jaxrob.evaluate(jaxrob.Classifier.from_onnx(path), DATA, BRIGHTNESS, [0.0])
    truth = logits(np.float32(IMAGES)).argmax(1)
    np.testing.assert_array_equal(curve.predicted[0], truth)
    classifier = jaxrob.Classifier.from_onnx(path, **seeing(scale=(255, 255, 255)))
    found = jaxrob.provenance(classifier, DATA)["network"]["preprocessing"]
    assert found == {"scale": [255], "mean": [0], "std": [1]}


def seeing(**given):
    return {"preprocessing": jaxrob.Preprocessing(**given)}


@pytest.mark.parametrize(
    "made, settings, message",
    [
        ({"inputs": 2}, {}, "one input, the images; got 2: x0, x1"),
        ({"outputs": 2}, {}, "one output .* got 2"),
        ({"kind": onnx.TensorProto.UINT8}, seeing(scale=255, mean=0.1), "mean, std"),
        ({"kind": onnx.TensorProto.UINT8}, seeing(std=(0.3, 0.3, 0.4)), "mean, std"),
        ({"kind": onnx.TensorProto.INT8}, {}, "must be of floating numbers"),
        ({}, seeing(channels_first=False), "channels_first must be True, because"),
        ({}, seeing(size=(7, 6)), r"size must be \(6, 6\), because the input of"),
        ({"shape": ("N", 3, 12, 3)}, {}, "channels_first must be True or False, bec"),
        ({"shape": (1 << 40, 3, 6, 6)}, {}, "its input .* must be images"),
        ({"shape": (0, 3, 6, 6)}, {}, "its input .* must be images"),
        ({}, {"outputs": "score"}, "outputs must"),
    ],
)
def test_networks_that_are_refused(tmp_path, made, settings, message):
    path = save(tmp_path / "net.onnx", **made)
    with pytest.raises(ValueError, match=message):
        jaxrob.Classifier.from_onnx(path, **settings)


def test_outputs_of_bfloat16(tmp_path):
    kind = onnx.TensorProto.BFLOAT16
    path = save(tmp_path / "net.onnx", "Cast", returned=kind)
    with pytest.raises(ValueError, match="bfloat16|cannot run it"):
        jaxrob.Classifier.from_onnx(path)


def test_wrong_size_and_channels_of_images(tmp_path):
    classifier = jaxrob.Classifier.from_onnx(save(tmp_path / "net.onnx"))
    for images, message in (
        (IMAGES[:, :4], r"takes images of size=\(6, 6\); got 4x6"),
        (IMAGES[..., :1], r"failed on images of .*6, 6, 1\](.|\n)*Got: 1 Exp"),
    ):
        data = jaxrob.Dataset(images, DATA.labels)
        with pytest.raises(ValueError, match=message):
            jaxrob.evaluate(classifier, data, BRIGHTNESS, [0.0])


def test_lengths_that_the_file_leaves_open(tmp_path):
    path = save(tmp_path / "net.onnx", shape=("N", "C", "H", "W"))
    with pytest.raises(ValueError, match=r"of the shape \['B', '\?', '\?', '\?'\] may"):
        jaxrob.Classifier.from_onnx(path)
    assert_answers(jaxrob.Classifier.from_onnx(path, **seeing(channels_first=True)))


def test_a_file_cut_short_anywhere_is_refused_in_words(tmp_path):
    content = save(tmp_path / "whole.onnx").read_bytes()
    path = tmp_path / "net.onnx"
    cut = [content[:length] for length in range(0, len(content) - 1, 397)]
    for data in (*cut, b"\x80\x04K\x01.", bytes(1000)):
        path.write_bytes(data)
        with pytest.raises(ValueError, match="net.onnx"):
            jaxrob.Classifier.from_onnx(path)


def with_external(folder, location):
    """The network with its weights in another file, said to be at `location`."""
    path = save(folder / "net.onnx")
    model = onnx.load(path)
    (weights,) = model.graph.initializer
    onnx.external_data_helper.set_external_data(weights, location)
    weights.ClearField("raw_data")
    path.write_bytes(model.SerializeToString())
    return path


def test_weights_beside_the_file(tmp_path):
    (tmp_path / "weights.bin").write_bytes(WEIGHTS.tobytes())
    path = with_external(tmp_path, "weights.bin")
    classifier = jaxrob.Classifier.from_onnx(path)
    assert_answers(classifier)
    before = jaxrob.provenance(classifier, DATA)["network"]["version"]
    files = [path, tmp_path / "weights.bin"]
    own, weights = (hashlib.sha256(one.read_bytes()).hexdigest() for one in files)
    assert before == f"sha256:{own}, weights sha256:{weights}"
    (tmp_path / "weights.bin").write_bytes((2 * WEIGHTS).tobytes())
    changed = jaxrob.Classifier.from_onnx(path)
    assert jaxrob.provenance(changed, DATA)["network"]["version"] != before


@pytest.mark.parametrize(
    "location", ["../secret.bin", "{}/secret.bin", "link.bin", "no.bin"]
)
def test_weights_outside_the_folder(tmp_path, location):
    secret = tmp_path / "secret.bin"
    secret.write_bytes(WEIGHTS.tobytes())
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "link.bin").symlink_to(secret)
    path = with_external(folder, location.format(tmp_path))
    with pytest.raises(ValueError, match="they must lie in its own folder|not there"):
        jaxrob.Classifier.from_onnx(path)


def test_attacks_refuse_and_roma_splits(tmp_path):
    classifier = jaxrob.Classifier.from_onnx(save(tmp_path / "net.onnx"))
    with pytest.raises(ValueError, match="classifier must be differentiable"):
        jaxrob.adversarial.lbfgs(classifier, IMAGES, DATA.labels)
    given = {"num_samples": 100, "estimator": "auto", "key": jax.random.key(0)}
    found = jaxrob.roma.assess(classifier, IMAGES[:2], epsilon=0.05, **given)
    assert "importance" not in set(found.status)
