"""The benchmark's own code, run from a folder outside the repository.

The folder is ImageNet-C/create_c of github.com/hendrycks/robustness at 8190fe3
(Apache-2.0), never part of this repository. Its scripts make whole data sets when they
are imported, and need torch and older versions of NumPy and scikit-image than today's:
their functions are extracted and given what they need. Their algorithms are not
changed.
"""

import ast
import contextlib
import pathlib
import types

import numpy as np

SCRIPTS = {
    32: "make_cifar_c.py",
    64: "make_tinyimagenet_c.py",
    224: "make_imagenet_c.py",
    299: "make_imagenet_c_inception.py",
}


class Fed(np.random.Generator):
    """A generator that returns given uniform numbers, in the order of the calls."""

    def __init__(self, *numbers):
        """Keeps the numbers."""
        super().__init__(np.random.PCG64(0))
        self.numbers = list(numbers)

    def random(self, size=None, *args, **kwargs):
        """Returns the next of the numbers."""
        found = self.numbers.pop(0)
        assert size is None or found.shape == tuple(np.atleast_1d(size))
        return found


def load(folder, size, **random):
    """Returns the script's functions for images of a size.

    Returns:
      A dictionary: `load(...)["fog"](picture, severity)` takes a Pillow image or an
      array of bytes and returns values from 0 to 255.
    """
    folder = pathlib.Path(folder)
    tree = ast.parse((folder / SCRIPTS[size]).read_text())
    wanted = ast.FunctionDef | ast.ClassDef
    skipped = ("DistortImageFolder", "MotionImage")
    tree.body = [
        node
        for node in tree.body
        if isinstance(node, wanted) and node.name not in skipped
    ]
    namespace = _namespace(folder, random)
    exec(compile(tree, SCRIPTS[size], "exec"), namespace)
    return namespace


def parameters(folder, size, name):
    """Returns the table `c` inside the function, as the script has it."""
    tree = ast.parse((pathlib.Path(folder) / SCRIPTS[size]).read_text())
    function = next(
        node
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and node.name == name
    )
    kept = []
    for node in function.body:
        if isinstance(node, ast.Assign):
            kept.append(node)
        if isinstance(node, ast.Assign) and node.targets[0].id == "c":
            node.value = node.value.value  # Without [severity - 1].
            break
    namespace = {"np": np}
    exec(compile(ast.Module(kept, []), name, "exec"), namespace)
    return namespace["c"]


def _namespace(folder, random):
    import cv2
    import skimage
    import skimage.color
    import skimage.util
    from PIL import Image
    from scipy.ndimage import map_coordinates, zoom
    from skimage.filters import gaussian

    random = dict(random)
    rng = random.pop("rng", None)
    numpy = _stand_in(
        np,
        random=types.SimpleNamespace(**random),
        float_=np.float64,
        fromstring=np.frombuffer,
    )

    def blur(image, sigma, multichannel=False, **keywords):
        return gaussian(
            image, sigma, channel_axis=-1 if multichannel else None, **keywords
        )

    def noise(image, **keywords):
        return skimage.util.random_noise(image, rng=rng, **keywords)

    namespace = {
        "np": numpy,
        "cv2": _stand_in(cv2, imread=lambda name: cv2.imread(str(folder / name))),
        "sk": types.SimpleNamespace(
            color=skimage.color, util=types.SimpleNamespace(random_noise=noise)
        ),
        "gaussian": blur,
        "scizoom": zoom,
        "map_coordinates": map_coordinates,
        "PILImage": Image,
        "Image": Image,
    }
    from io import BytesIO

    namespace["BytesIO"] = BytesIO
    with contextlib.suppress(ImportError):  # Needs Wand, for two corruptions.
        namespace["MotionImage"] = _motion_image()
    return namespace


def _stand_in(module, **others):
    found = types.ModuleType(module.__name__)
    found.__dict__.update(vars(module))
    found.__dict__.update(others)
    return found


def _motion_image():
    import ctypes

    from wand.api import library
    from wand.image import Image

    library.MagickMotionBlurImage.argtypes = (ctypes.c_void_p, *3 * [ctypes.c_double])

    class MotionImage(Image):
        def motion_blur(self, radius=0.0, sigma=0.0, angle=0.0):
            library.MagickMotionBlurImage(self.wand, radius, sigma, angle)

    return MotionImage
