"""The GPU day's script without a GPU, and its kernel beside SciPy."""

import functools
import json

import jax
import numpy as np
import pytest
from gpu import kernels, ledger
from scipy import ndimage

from ..alterations.pictures import random_image


def test_the_blurs_kernel_equals_scipys_and_0_is_the_image():
    # More than a program's pixels, and a rest.
    image = random_image((29, 23, 3))
    form = functools.partial(kernels.blur_by_shifts, reach=10, interpret=True)
    blur = jax.jit(jax.vmap(form, (None, 0)))
    sigmas = np.float32([0.0, 0.4, 2.0])
    same, *blurred = blur(np.moveaxis(image, -1, 0), sigmas)
    np.testing.assert_array_equal(same, image)
    for sigma, found in zip(sigmas[1:], blurred):
        truth = ndimage.gaussian_filter(
            image.astype(float), (sigma, sigma, 0), mode="nearest", truncate=10
        )
        np.testing.assert_allclose(found, truth, rtol=0, atol=3e-6)


def test_the_ledger_goes_on_after_a_failure_and_where_the_time_was_over(
    tmp_path, capsys
):
    path, about = tmp_path / "day.json", {"device": "none"}
    done = []

    def task(name, programs=1, fails=False):
        def run(rows):
            if fails:
                raise ValueError("no memory")
            done.append(name)
            return "well", {"after": list(rows)}

        return ledger.Task(name, programs, run)

    def parts(fails):
        long = task("long", programs=10**6)
        return {"one": [task("a"), task("b", fails=fails), task("c")], "two": [long]}

    assert not ledger.work(parts(True), ledger.opened(path, about), path, 60, 1.0)
    out = capsys.readouterr().out
    assert "FAILED: ValueError: no memory" in out and "the time is over" in out
    kept = json.loads(path.read_text())["parts"]
    assert "no memory" in kept["one"]["b"]["failed"] and "two" not in kept
    # The rows that were done stay, and the others are done.
    assert ledger.work(parts(False), ledger.opened(path, about), path, 1e9, 1.0)
    assert done == ["a", "c", "b", "long"]
    with pytest.raises(ledger.app.UsageError, match="device"):
        ledger.opened(path, {"device": "another"})


@pytest.mark.slow
def test_the_script_runs_whole_where_there_is_no_gpu(run, tmp_path):
    code, out, err = run("gpu_day.py", f"--output={tmp_path}")
    assert code == 1 and "there is no GPU" in out + err
    code, out, err = run(
        "gpu_day.py", "--tiny", f"--output={tmp_path}", "--seconds=900"
    )
    assert code == 0, out + err
    parts = json.loads((tmp_path / "gpu_day.json").read_text())["parts"]
    assert len(parts) == 5 and all(parts.values()) and "time is over" not in out
    assert parts["forms"]["blur, 28x28x1, kernel"]["differs"] < 3e-6
