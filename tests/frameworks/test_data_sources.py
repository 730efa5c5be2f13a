"""Data as torch, Grain, TensorFlow and Hugging Face hold them: the answers of arrays.

tests/test_data_sources.py has what needs none of them.
"""

import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

import jaxrob
from jaxrob import Dataset, alterations

from ..linear import linear

IMAGES = np.random.default_rng(0).integers(0, 256, (40, 12, 10, 3), dtype=np.uint8)
WEIGHTS = np.random.default_rng(1).normal(size=(360, 3)).astype(np.float32)
LABELS = (IMAGES.reshape(40, -1) / 255 @ WEIGHTS).argmax(1)
NAMES = ("cat", "dog", "owl")
BLUR = alterations.gaussian_blur(0.0, 2.0)


CLASSIFIER = jaxrob.Classifier(linear, jnp.asarray(WEIGHTS), class_names=NAMES)


def check(dataset, names=NAMES, images=IMAGES):
    """Its answers are those of the arrays, to the bit."""
    expected = Dataset(images, LABELS, NAMES)
    strategy = jaxrob.strategies.Uniform(5)
    found, wanted = (
        jaxrob.assess(CLASSIFIER, one, BLUR, strategy=strategy)
        for one in (dataset, expected)
    )
    assert dataset.class_names == names
    np.testing.assert_array_equal(found.curve.labels, LABELS)
    np.testing.assert_array_equal(found.curve.predicted, wanted.curve.predicted)
    np.testing.assert_array_equal(found.curve.confidence, wanted.curve.confidence)
    assert found.robustness == wanted.robustness and 0 < found.robustness < 1


def check_names_are_compared(dataset):
    other = jaxrob.Classifier(linear, jnp.asarray(WEIGHTS), class_names=NAMES[::-1])
    with pytest.raises(ValueError, match="class_names of the classifier and of"):
        jaxrob.evaluate(other, dataset, BLUR, [0.0])


def rows():
    pairs = zip(IMAGES, map(int, LABELS))
    return [{"image": image, "label": label} for image, label in pairs]


@pytest.fixture
def torch():
    return pytest.importorskip("torch", reason="needs the extra jaxrob[torch]")


@pytest.fixture
def datasets():
    return pytest.importorskip("datasets", reason="needs datasets")


def torch_dataset(torch, transform):
    """Like torchvision's: `classes`, and a transform of pictures."""

    class Pictures(torch.utils.data.Dataset):
        classes = list(NAMES)

        def __len__(self):
            return len(IMAGES)

        def __getitem__(self, index):
            return transform(Image.fromarray(IMAGES[index])), int(LABELS[index])

    return Pictures()


def to_tensor(torch):
    """Does what torchvision's `ToTensor` does."""
    return lambda one: torch.tensor(np.asarray(one)).permute(2, 0, 1) / 255


def test_torch_items(torch):
    dataset = Dataset.from_items(torch_dataset(torch, lambda one: one))
    check(dataset)
    check_names_are_compared(dataset)
    floats = torch_dataset(torch, to_tensor(torch))
    as_floats = np.float32(IMAGES) / np.float32(255)
    check(Dataset.from_items(floats, channels_first=True), images=as_floats)
    with pytest.raises(ValueError, match="item 0 of dataset: .*channels_first=True"):
        Dataset.from_items(floats)
    part = torch.utils.data.Subset(floats, range(40))
    streamed = Dataset.from_items(part, channels_first=True, max_bytes=10_000)
    check(streamed, images=as_floats)
    normalised = torch_dataset(torch, lambda one: (to_tensor(torch)(one) - 0.5) / 0.2)
    with pytest.raises(ValueError, match="normalisation"):
        Dataset.from_items(normalised, channels_first=True)


def test_torch_loaders(torch):
    floats = torch_dataset(torch, to_tensor(torch))
    loader = torch.utils.data.DataLoader
    dataset = Dataset.from_batches(loader(floats, batch_size=7), channels_first=True)
    check(dataset, images=np.float32(IMAGES) / np.float32(255))
    check_names_are_compared(dataset)
    first = torch.tensor(IMAGES).permute(0, 3, 1, 2)
    tensors = torch.utils.data.TensorDataset(first, torch.tensor(LABELS))
    batches = loader(tensors, batch_size=16)
    check(Dataset.from_batches(batches, NAMES, channels_first=True))
    shuffled = loader(tensors, batch_size=16, shuffle=True)
    shuffled = Dataset.from_batches(shuffled, channels_first=True)
    list(shuffled.batches())
    with pytest.raises(ValueError, match="Leave out shuffling"):
        list(shuffled.batches())
    with pytest.raises(TypeError, match="iterable more than once"):
        Dataset.from_batches(iter(batches))


def test_grain_sources():
    grain = pytest.importorskip("grain", reason="needs grain")
    items = grain.MapDataset.source(rows())
    for source in (items, items.to_iter_dataset()):
        check(Dataset.from_items(source, NAMES))
        check(Dataset.from_batches(source.batch(16), NAMES))
    sampler = grain.samplers.SequentialSampler(len(IMAGES), grain.sharding.NoSharding())
    loader = grain.DataLoader(
        data_source=rows(), sampler=sampler, operations=[grain.transforms.Batch(16)]
    )
    check(Dataset.from_batches(loader, NAMES))
    with pytest.raises(ValueError, match="must end; got RepeatMapDataset"):
        Dataset.from_items(items.repeat())


def test_tensorflow_sources():
    tensorflow = pytest.importorskip("tensorflow", reason="needs tensorflow")
    source = tensorflow.data.Dataset.from_tensor_slices((IMAGES, LABELS))
    check(Dataset.from_items(source, NAMES))
    check(Dataset.from_batches(source.batch(16), NAMES))
    mapped = tensorflow.data.Dataset.from_tensor_slices(
        {"image": IMAGES, "label": LABELS}
    )
    mapped = mapped.batch(16).prefetch(2)
    mapped.class_names = list(NAMES)  # As Keras's readers of folders do.
    check(Dataset.from_batches(mapped))
    check_names_are_compared(Dataset.from_batches(mapped))
    with pytest.raises(ValueError, match="batches must end"):
        Dataset.from_batches(source.batch(16).repeat())


def hugging_face(datasets):
    features = datasets.Features(
        {"image": datasets.Image(), "label": datasets.ClassLabel(names=list(NAMES))}
    )
    pictures = {"image": [Image.fromarray(one) for one in IMAGES], "label": LABELS}
    return datasets.Dataset.from_dict(pictures, features=features)


def test_hugging_face_sources(datasets):
    source = hugging_face(datasets)
    check(Dataset.from_items(source))
    check_names_are_compared(Dataset.from_items(source))
    check(Dataset.from_items(source, max_bytes=10_000))
    check(Dataset.from_items(source.to_iterable_dataset()))
    check(Dataset.from_batches(source.with_format("numpy").batch(16)))
    renamed = source.rename_columns({"image": "img", "label": "fine_label"})
    check(Dataset.from_items(renamed, image="img", label="fine_label"))
    with pytest.raises(ValueError, match="has no 'image'.*image="):
        Dataset.from_items(renamed)
    with pytest.raises(TypeError, match="with the keys 'test' .*such as a split"):
        Dataset.from_items(datasets.DatasetDict({"test": source}))


def test_hugging_face_tensors(datasets, torch):
    """Its torch format has channels first."""
    source = hugging_face(datasets).with_format("torch")
    check(Dataset.from_items(source, channels_first=True))
    loader = torch.utils.data.DataLoader(source, batch_size=9)
    check(Dataset.from_batches(loader, channels_first=True))
    with pytest.raises(ValueError, match="pass channels_first=True"):
        Dataset.from_items(source)
