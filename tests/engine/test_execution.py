"""Steps on devices that are not there: how many levels, images; the progress bar."""

import re
import time
import types

import numpy as np
import pytest

import jaxrob
from jaxrob import alterations, steps
from jaxrob._devices.blocks import rows_that_fit
from jaxrob._engine import execution, step
from jaxrob._engine.execution import progress_bar
from jaxrob._engine.step import levels_are_sequential


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
        ("tpu", "TPU v5", False, True),
        ("tpu", "TPU v5p", False, True),
    ],
)
def test_levels_go_in_turn_where_few_rows_are_faster(platform, kind, small, large):
    mesh = mesh_of(platform, kind)
    for shape, in_turn in (((28, 28, 1), small), ((50, 50, 3), large)):
        assert levels_are_sequential(shape, mesh) is in_turn
        if platform != "cpu":
            rows = rows_that_fit(4 * 784, shape, mesh)
            assert rows == (1024 if in_turn else 16384)
            # All at once, as many as fit and are asked for.
            each = execution.levels_in_step(None, shape, rows, 1000, 3, mesh)
            assert each == (16 if in_turn else 4)


@pytest.mark.parametrize(
    ("name", "largest_array", "image_shape", "rows"),
    [
        # Where a v5e's compiler estimates the least time an image.
        ("MNIST CNN", 28 * 28 * 32 * 4, (28, 28, 1), 1024),
        ("IDC CNN", 80_000, (50, 50, 3), 896),
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
    ],
)
def test_blocks_where_levels_are_batched(levels, images):
    gpu, cpu = mesh_of("gpu", "H100"), mesh_of("cpu", "cpu")
    about = types.SimpleNamespace(operations=2 * 10**7), (50, 50, 3), levels
    assert execution.rows_of_a_level(16384, *about, gpu) == images
    # Few rows, of a large network, are not divided.
    assert execution.rows_of_a_level(100, *about, gpu) == 100
    assert execution.rows_of_a_level(16384, *about, cpu) == 16384
    # The devices of a large one compute while further images are uploaded.
    about = types.SimpleNamespace(operations=8 * 10**9), (224, 224, 3), levels
    assert 64 <= execution.rows_of_a_level(1950, *about, gpu) <= 160
    # Blocks of equal size may be a little smaller.
    for number in (images, images * 3 // 4):
        each = execution.levels_in_step(
            None, (50, 50, 3), 16384, number, max(levels), gpu
        )
        assert each == 16384 // images


def brightest(variables, images):
    return images.mean(axis=(1, 2)) * variables


@pytest.mark.slow
@pytest.mark.parametrize(
    ("alteration", "is_apart"),
    [(alterations.gaussian_blur(), True), (alterations.brightness(), False)],
    ids=lambda value: getattr(value, "name", ""),
)
def test_products_are_written_apart_on_a_tpu(monkeypatch, alteration, is_apart):
    classifier = jaxrob.Classifier(brightest, np.ones(3, np.float32), "logits")

    def text(num_images):
        # Of another size, or JAX would take the trace that it has.
        size = {"num_images": num_images, "num_levels": 2}
        found = steps.evaluation(classifier, (9, 9, 3), alteration, **size)
        return found.step.lower().as_text()

    if is_apart:
        assert "optimization_barrier" not in text(4)
    monkeypatch.setattr(step, "platform", lambda mesh: "tpu")
    assert ("optimization_barrier" in text(5)) is is_apart


LEFT = re.compile(r"jaxrob: ([\d,]+) images are left, about (.*)")


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(execution.time, "perf_counter", lambda: now[0])
    return now


def said(capsys):
    return LEFT.findall(capsys.readouterr().err.replace("\r", "\n"))


def count_steps(bar, clock, *durations, number=10):
    for seconds in durations:
        clock[0] += seconds
        bar.update(number)


def test_what_is_left_is_said_once_after_the_second_step(clock, capsys):
    with progress_bar("run", True, total=1000) as bar:
        count_steps(bar, clock, 100.0)  # with what it compiles
        assert not said(capsys)
        count_steps(bar, clock, 1.0)
        assert said(capsys) == [("980", "98 s")]
        count_steps(bar, clock, 7.0, 7.0)
        assert not said(capsys)
    # Known answers cost nothing.
    with progress_bar("run", True, total=1000) as bar:
        bar.skip(700)
        count_steps(bar, clock, 5.0, 5.0)
    assert said(capsys) == [("280", "2 min")]


@pytest.mark.parametrize("progress, seconds", [(True, 0.09), (False, 9.0)])
def test_short_runs_and_those_without_progress_say_nothing(
    clock, capsys, progress, seconds
):
    with progress_bar("run", progress, total=1000) as bar:
        count_steps(bar, clock, *[seconds] * 100)
    assert not said(capsys)


def test_what_is_compiled_is_said_until_the_next_answers(capsys, monkeypatch):
    monkeypatch.setattr(execution, "_TICK_SECONDS", 0.01)
    with progress_bar("run", True, total=20) as bar:
        bar.update(10)
        bar.compile("2 of 3")
        said = capsys.readouterr().err
        assert said.index("compiling") < said.index("compiling 2 of 3")
        for _ in range(1000):  # Nothing more happens.
            time.sleep(0.01)
            said += capsys.readouterr().err
            if said.count("compiling 2 of 3") > 3:
                break
        else:
            pytest.fail("the bar stands still")
        bar.update(10)
    assert "compiling" not in capsys.readouterr().err


def test_the_total_is_what_was_asked_for_and_the_bar_ends_full():
    with progress_bar("run", True) as bar:
        bar.ask(90)
        bar.update(90)
        bar.ask(40)
        assert (bar.n, bar.total) == (90, 130)
        bar.update(30)
    assert (bar.n, bar.total) == (120, 120)
    with pytest.raises(KeyboardInterrupt), progress_bar("run", True, total=9) as bar:
        raise KeyboardInterrupt
    assert bar.total == 9
