"""How many levels and images a step takes on devices that are not there."""

import types

import numpy as np
import pytest

from jaxrob._devices.memory import rows_that_fit
from jaxrob._engine import sizes


def mesh_of(platform, kind):
    device = types.SimpleNamespace(
        platform=platform, device_kind=kind, memory_stats=lambda: None
    )
    return types.SimpleNamespace(
        devices=np.array([device]),
        local_devices=[device],
        size=1,
        is_multi_process=False,
    )


@pytest.mark.parametrize(
    "platform, kind, small, large",
    [
        ("cpu", "cpu", True, True),
        ("gpu", "NVIDIA H100 80GB HBM3", False, False),
        ("tpu", "TPU v5 lite", True, True),
        ("tpu", "TPU v6 lite", True, True),
        ("tpu", "TPU v5", False, True),
        ("tpu", "TPU v5p", False, True),
    ],
)
def test_levels_go_in_turn_where_few_rows_are_faster(platform, kind, small, large):
    mesh = mesh_of(platform, kind)
    for shape, in_turn in (((28, 28, 1), small), ((50, 50, 3), large)):
        assert sizes.levels_are_sequential(shape, mesh) is in_turn
        if platform != "cpu":
            rows = rows_that_fit(4 * 784, shape, mesh)
            assert rows == (1024 if in_turn else 16384)
            # All at once, as many as fit and are asked for.
            each = sizes.levels_in_step(None, shape, rows, 1000, 3, mesh)
            assert each == (16 if in_turn else 4)


@pytest.mark.parametrize(
    ("name", "largest_array", "image_shape", "rows"),
    [
        # Where a v5e's compiler estimates the least time an image.
        ("MNIST CNN", 28 * 28 * 32 * 4, (28, 28, 1), 1024),
        ("IDC CNN", 80_000, (50, 50, 3), 896),
        ("VGG16", 32 * 32 * 64 * 4, (32, 32, 3), 384),
        ("residual network", 16 * 16 * 16 * 4, (32, 32, 3), 1024),
        # Fewer than a vector: a power of two, at least one.
        ("ResNet-50", 112 * 112 * 64 * 4, (224, 224, 3), 16),
        ("too large", 2**30, (224, 224, 3), 1),
    ],
)
def test_a_tpu_takes_as_many_rows_as_its_chip_holds(
    name, largest_array, image_shape, rows
):
    mesh = mesh_of("tpu", "TPU v5 lite")
    assert rows_that_fit(largest_array, image_shape, mesh) == rows
    # A GPU's rows follow from its memory alone.
    on_gpu = rows_that_fit(largest_array, image_shape, mesh_of("gpu", "NVIDIA H100"))
    assert on_gpu == min(16384, 2**30 // (3 * largest_array) or 1)


@pytest.mark.parametrize(
    "levels, images",
    [
        # Blocks of which a step has 16, 4 or 1 levels, with at most a tenth of padding.
        ([16], 1024),
        ([41], 4096),  # 48 of 41 would be too many.
        ([9], 16384),
        ([1], 16384),
        ([16, 16, 3], 4096),
        ([101, 32, 64], 1024),
    ],
)
def test_blocks_where_levels_are_batched(levels, images):
    gpu, cpu = mesh_of("gpu", "H100"), mesh_of("cpu", "cpu")
    small = types.SimpleNamespace(operations=2 * 10**7)
    about = small, (50, 50, 3), levels
    assert sizes.rows_of_a_level(16384, *about, gpu) == images
    # Few rows, of a large network, are not divided.
    assert sizes.rows_of_a_level(100, *about, gpu) == 100
    assert sizes.rows_of_a_level(16384, *about, cpu) == 16384
    # The devices of a large one compute while further images are uploaded.
    about = types.SimpleNamespace(operations=8 * 10**9), (224, 224, 3), levels
    assert 64 <= sizes.rows_of_a_level(1950, *about, gpu) <= 160
    # Blocks of equal size may be a little smaller.
    for number in (images, images * 3 // 4):
        each = sizes.levels_in_step(None, (50, 50, 3), 16384, number, max(levels), gpu)
        assert each == 16384 // images
