r"""How robust a detector of text is, by a score of one's own.

    pip install rapidocr-onnxruntime
    python experiments/detection.py

The detector is PaddleOCR's PP-OCRv4, as the package `rapidocr-onnxruntime` ships it
(Apache-2.0), run by onnxruntime on the host. The pictures are words on crops of
scikit-learn's two photographs, some of them without a word, so that the boxes are
known. The score is the F1 of an image's boxes at an IoU of 0.5. Rotation, translation
and zoom move the boxes as well. Prints a table, and how wide the intervals are beside
those of the normal approximation; the folder `--output` gets `detection.json` and
`detection.png`.
"""

import importlib.metadata
import pathlib
from collections.abc import Callable, Sequence

import jax
import matplotlib
import numpy as np
from absl import app, flags
from common import define, files, scored, startup
from PIL import Image, ImageDraw, ImageFont
from sklearn.datasets import load_sample_images

import jaxrob
from jaxrob import alterations, reporting

_PACKAGE = "rapidocr-onnxruntime"
_HEIGHT, _WIDTH = 96, 160
_WORDS = "open closed exit stop market station hotel museum garden bridge".split()
_ALTERATIONS = (
    alterations.gaussian_blur(0.0, 4.0),
    alterations.gaussian_noise(0.0, 0.2),
    alterations.brightness(-0.5, 0.5),
    alterations.rotation(-30.0, 30.0, fill="edge"),
    alterations.horizontal_translation(-80.0, 80.0, fill="edge"),
    alterations.zoom(1.0, 2.0),
)

_NUM_IMAGES = define.num_images(200, "Pictures.")
_LEVELS = define.levels(13)
_SIDE = flags.DEFINE_integer(
    "side", 192, "Pictures are enlarged for the detector to this height.", 32
)
_THRESHOLD = define.threshold()
_SEED = define.seed()
_OUTPUT = define.output("results/detection")


def main(argv: Sequence[str]) -> None:
    startup.start(argv)
    try:
        detect = detector(_SIDE.value)
    except ImportError as error:
        raise app.UsageError(f"pip install {_PACKAGE}: {error}") from error
    version = f"{importlib.metadata.version(_PACKAGE)}, side {_SIDE.value}"
    classifier = jaxrob.Classifier.from_host(
        detect, outputs="any", name="PP-OCRv4 det", version=version
    )
    images, boxes = signs(_NUM_IMAGES.value, _SEED.value)
    dataset = jaxrob.Dataset(images, boxes, name="signs")
    score = jaxrob.Score(f1, name="F1 at IoU 0.5", version="1", labels="boxes")
    strategy = jaxrob.strategies.Uniform(_LEVELS.value)
    given = classifier, dataset, _ALTERATIONS, _THRESHOLD.value
    key = jax.random.key(_SEED.value)
    results = jaxrob.assess(*given, score=score, strategy=strategy, key=key)
    print(reporting.table(results))
    folder = files.output_folder(_OUTPUT.value)
    figure = reporting.figure(results, _ALTERATIONS, images[0], key, columns=3)
    figure.savefig(folder / "detection.png")
    found = {one.alteration: scored.widths(one) for one in results}
    files.write_json(folder / "detection.json", found)


def signs(number: int, seed: int) -> tuple[np.ndarray, list[np.ndarray]]:
    """Draws up to two words on crops of photographs.

    Returns:
      Pictures uint8 `[N, 96, 160, 3]`, and of each the boxes float32 `[M, 4]`, x1, y1,
      x2, y2.
    """
    rng = np.random.default_rng(seed)
    photographs = load_sample_images().images
    name = pathlib.Path(matplotlib.get_data_path(), "fonts/ttf/DejaVuSans-Bold.ttf")
    images, boxes = [], []
    for _ in range(number):
        photograph = photographs[rng.integers(2)]
        top = rng.integers(0, len(photograph) - _HEIGHT)
        left = rng.integers(0, photograph.shape[1] - _WIDTH)
        crop = photograph[top : top + _HEIGHT, left : left + _WIDTH]
        picture = Image.fromarray(crop)
        draw, around = ImageDraw.Draw(picture), []
        for row in range(rng.integers(0, 3)):
            font = ImageFont.truetype(name, int(rng.integers(14, 22)))
            where = int(rng.integers(10, 60)), 12 + 36 * row + int(rng.integers(0, 10))
            what = {"text": str(rng.choice(_WORDS)), "font": font, "stroke_width": 1}
            around.append(draw.textbbox(where, **what))
            draw.text(where, fill="white", stroke_fill="black", **what)
        images.append(np.asarray(picture))
        boxes.append(np.reshape(np.float32(around), (-1, 4)))
    return np.stack(images), boxes


def detector(side: int) -> Callable[[np.ndarray], list[np.ndarray]]:
    """Returns a function from images to upright boxes `[k, 4]` of each."""
    from rapidocr_onnxruntime import RapidOCR

    find_text = RapidOCR(det_limit_side_len=side).text_det

    def detect(images: np.ndarray) -> list[np.ndarray]:
        found = []
        for image in images:
            # It takes BGR bytes.
            corners, _ = find_text(np.uint8(np.round(255 * image[..., ::-1])))
            ends = [(*one.min(axis=0), *one.max(axis=0)) for one in corners]
            found.append(np.reshape(np.float32(ends), (-1, 4)))
        return found

    return detect


def f1(outputs: list[np.ndarray], labels: list[np.ndarray]) -> np.ndarray:
    """The F1 score of each image; 1 where no box is found and none should be."""
    return np.array([_f1_of(found, wanted) for found, wanted in zip(outputs, labels)])


def _f1_of(found: np.ndarray, wanted: np.ndarray) -> float:
    if not len(found) or not len(wanted):
        return float(len(found) == len(wanted))
    each, right = _overlaps(found, wanted), 0
    # Pairs in the order of their overlap, each box in one of them.
    while each.size and each.max() >= 0.5:
        row, column = np.unravel_index(each.argmax(), each.shape)
        each = np.delete(np.delete(each, row, 0), column, 1)
        right += 1
    return 2 * right / (len(found) + len(wanted))


def _overlaps(found: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Returns the IoU of each found box with each wanted one, `[k, M]`."""
    low = np.maximum(found[:, None, :2], wanted[:, :2])
    high = np.minimum(found[:, None, 2:4], wanted[:, 2:4])
    shared = (high - low).clip(0).prod(-1)
    areas = [(boxes[:, 2:4] - boxes[:, :2]).prod(-1) for boxes in (found, wanted)]
    return shared / (areas[0][:, None] + areas[1] - shared)


if __name__ == "__main__":
    app.run(main)
