"""imagecorruptions-imaug, which alters image by image, on several cores."""

import concurrent.futures
import contextlib
import importlib.util
import multiprocessing
from collections.abc import Callable, Iterator

import numpy as np

from corruptions_2019.cells import SEVERITIES

#: Those that it computes by another algorithm than the benchmark's code: edges
#: of blurs and layers, the pictures of frost, no affine part, the nearest pixels.
DIFFERENT = (
    "motion_blur",
    "zoom_blur",
    "snow",
    "frost",
    "elastic_transform",
    "pixelate",
)

# The images that a process alters, once it has received them.
_images: list[np.ndarray] = []


@contextlib.contextmanager
def altering(
    images: np.ndarray, processes: int
) -> Iterator[Callable[[str], None] | None]:
    """Returns a function that alters all images by one corruption at severities 1 to 5.

    None if the package is not installed. Each process receives its share of the images
    before the call and does not send results back, so neither transfer is timed.
    """
    if importlib.util.find_spec("imagecorruptions") is None:
        print("imagecorruptions-imaug is not installed")
        yield None
        return
    # Forked processes would share the devices' threads.
    spawned = multiprocessing.get_context("spawn")
    with contextlib.ExitStack() as stack:
        # One process per share, so that each has its own.
        pools = [
            stack.enter_context(
                concurrent.futures.ProcessPoolExecutor(1, spawned, _start, (share,))
            )
            for share in np.array_split(images, processes)
        ]

        def alter(name: str) -> None:
            for one in [pool.submit(_alter, name) for pool in pools]:
                one.result()

        yield alter


def _start(images: np.ndarray) -> None:
    import cv2

    cv2.setNumThreads(1)
    _images.extend(images)


def _alter(name: str) -> None:
    from imagecorruptions import corrupt

    for severity in SEVERITIES:
        for image in _images:
            corrupt(image, severity=severity, corruption_name=name)
