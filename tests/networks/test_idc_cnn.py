import io
import pickle
import zipfile

import jax
import numpy as np
import pytest

from jaxrob.data import idc_patches
from jaxrob.networks import IdcCNN, load_idc_weights

from ..data.files import Trap

SHAPES = {
    "conv2d_1/kernel": (3, 3, 3, 32),
    "conv2d_1/bias": (32,),
    "conv2d_2/kernel": (3, 3, 32, 64),
    "conv2d_2/bias": (64,),
    "conv2d_3/kernel": (3, 3, 64, 64),
    "conv2d_3/bias": (64,),
    "dense_1/kernel": (1024, 2),
    "dense_1/bias": (2,),
} | {
    f"batch_normalization_{i + 1}/{name}": (width,)
    for i, width in enumerate((32, 64, 64, 1024))
    for name in ("gamma", "beta", "moving_mean", "moving_variance")
}


def random_arrays(seed=0):
    rng = np.random.default_rng(seed)
    arrays = {}
    for name, shape in SHAPES.items():
        spread = 0.1 if name.endswith("kernel") else 0.5
        arrays[name] = rng.normal(0, spread, shape).astype(np.float32)
        if name.endswith(("variance", "gamma")):
            arrays[name] = np.abs(arrays[name]) + np.float32(0.5)
    return arrays


def save(path, arrays):
    np.savez_compressed(path, **arrays)
    return path


def convolve(x, kernel, bias, stride=1):
    """Keras's 'same': what padding cannot share equally goes below and right."""
    size, side = x.shape[1], len(kernel)
    total = max((-(-size // stride) - 1) * stride + side - size, 0)
    border = total // 2, total - total // 2
    padded = np.pad(x, ((0, 0), border, border, (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (side, side), (1, 2))
    windows = windows[:, ::stride, ::stride]
    return np.einsum("bhwcij,ijco->bhwo", windows, kernel) + bias


def pool(x, side):
    """A rest of rows and columns is left out."""
    number, height, width, channels = x.shape
    rows, columns = height // side, width // side
    x = x[:, : rows * side, : columns * side]
    return x.reshape(number, rows, side, columns, side, channels).max((2, 4))


def reference(arrays, images):
    """C_o in float64 from the Keras arrays, on images in the weights' own order."""
    w = {name: array.astype(np.float64) for name, array in arrays.items()}

    def normalise(x, i):
        layer = f"batch_normalization_{i}"
        deviation = np.sqrt(w[f"{layer}/moving_variance"] + 1e-3)
        x = (x - w[f"{layer}/moving_mean"]) / deviation
        return x * w[f"{layer}/gamma"] + w[f"{layer}/beta"]

    def block(x, i, stride):
        x = convolve(x, w[f"conv2d_{i}/kernel"], w[f"conv2d_{i}/bias"], stride)
        return normalise(np.maximum(x, 0), i)

    x = pool(block(images.astype(np.float64), 1, stride=2), 3)
    x = pool(block(block(x, 2, stride=1), 3, stride=1), 2)
    x = normalise(np.maximum(x.reshape(len(x), -1), 0), 4)
    return 1 / (1 + np.exp(-(x @ w["dense_1/kernel"] + w["dense_1/bias"])))


def test_against_numpy(tmp_path):
    arrays = random_arrays()
    variables = load_idc_weights(save(tmp_path / "w.npz", arrays))
    images = np.random.default_rng(1).random((1, 50, 50, 3), np.float32)
    for order, flipped in (("rgb", images), ("bgr", images[..., ::-1])):
        found = jax.jit(IdcCNN(channel_order=order).apply)(variables, images)
        expected = reference(arrays, flipped)
        assert np.abs(expected - 0.5).max() < 0.5  # not saturated
        np.testing.assert_allclose(found, expected, atol=2e-5)
    assert np.abs(found - reference(arrays, images)).max() > 1e-3
    with pytest.raises(ValueError, match="channel_order"):
        IdcCNN(channel_order="grb")


def test_inner_parts_of_names_are_allowed(tmp_path):
    arrays = random_arrays()
    longer = {
        "/".join([name.split("/")[0], *name.split("/")]): array
        for name, array in arrays.items()
    }
    variables = load_idc_weights(save(tmp_path / "w.npz", longer))
    np.testing.assert_array_equal(
        variables["params"]["Conv_1"]["kernel"], arrays["conv2d_2/kernel"]
    )
    longer["conv2d_1/kernel"] = arrays["conv2d_1/kernel"]
    with pytest.raises(ValueError, match="conv2d_1/kernel twice"):
        load_idc_weights(save(tmp_path / "w.npz", longer))


@pytest.mark.parametrize("name", ["conv2d_1/kernel", "dense_1/bias"])
def test_every_array_is_checked(tmp_path, name):
    path = tmp_path / "w.npz"
    arrays = random_arrays()
    original = arrays.pop(name)
    with pytest.raises(ValueError, match=rf"missing arrays \['{name}'\]"):
        load_idc_weights(save(path, arrays))
    for wrong in (
        original[..., :-1],
        original[None],
        original.astype(np.int32),
        original.astype(np.complex64),
    ):
        with pytest.raises(ValueError, match=f"{name}: "):
            load_idc_weights(save(path, arrays | {name: wrong}))
    for value in (np.nan, np.inf):
        wrong = original.copy()
        wrong.flat[-1] = value
        with pytest.raises(ValueError, match=f"{name}: 1 values not finite"):
            load_idc_weights(save(path, arrays | {name: wrong}))


def test_superfluous_array(tmp_path):
    arrays = random_arrays() | {"dense_2/bias": np.zeros(2, np.float32)}
    with pytest.raises(ValueError, match=r"superfluous \['dense_2/bias'\]"):
        load_idc_weights(save(tmp_path / "w.npz", arrays))


def test_nothing_is_unpickled(tmp_path):
    path, trace = tmp_path / "w.npz", tmp_path / "trace"
    path.write_bytes(pickle.dumps(Trap(trace)))
    with pytest.raises(ValueError, match="not a readable npz"):
        load_idc_weights(path)
    arrays = random_arrays()
    arrays["dense_1/bias"] = np.array([Trap(trace), 0], object)
    with pytest.raises(ValueError, match="dense_1/bias"):
        load_idc_weights(save(path, arrays))
    assert not trace.exists()


def test_files_cut_short(tmp_path):
    path = save(tmp_path / "w.npz", random_arrays())
    data = path.read_bytes()
    for length in (0, 100, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:length])
        with pytest.raises(ValueError, match="w.npz"):
            load_idc_weights(path)
    with pytest.raises(FileNotFoundError):
        load_idc_weights(tmp_path / "nothing.npz")


@pytest.mark.parametrize(
    "shape, length",
    [*[((2**40, 2), 8), ((3,), 8)], *[((2,), length) for length in (0, 7, 9)]],
)
def test_array_whose_header_lies(tmp_path, shape, length):
    """Of its shape, or of the number of bytes behind it."""
    arrays = random_arrays()
    arrays.pop("dense_1/bias")
    path = save(tmp_path / "w.npz", arrays)
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        buffer, {"descr": "<f4", "fortran_order": False, "shape": shape}
    )
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("dense_1/bias.npy", buffer.getvalue() + bytes(length))
    with pytest.raises(ValueError, match="w.npz.*dense_1/bias"):
        load_idc_weights(path)


@pytest.mark.slow
def test_published_accuracy(real_folder):
    folder = real_folder("idc")
    dataset = idc_patches(folder / "images")
    variables = load_idc_weights(folder / "idc_cnn_weights.npz")
    images = np.float32(dataset.images) / 255
    found = np.asarray(jax.jit(IdcCNN().apply)(variables, images))
    assert (found.argmax(1) == dataset.labels).sum() == 183

    with np.load(folder / "idc_cnn_weights.npz", allow_pickle=False) as arrays:
        expected = reference(dict(arrays), images[..., ::-1])
    np.testing.assert_allclose(found, expected, atol=1e-4)
    # In the wrong order of colours the same weights do worse.
    other = np.asarray(IdcCNN(channel_order="rgb").apply(variables, images))
    assert (other.argmax(1) == dataset.labels).sum() < 183
