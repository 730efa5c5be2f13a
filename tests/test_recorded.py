"""Recorded pictures: read as they are, paired, and counted at their levels alone."""

import functools
import io

import jax
import numpy as np
import pytest
from PIL import Image

import jaxrob
from jaxrob import alterations, metrics, reporting, strategies
from jaxrob._command.run import main
from jaxrob._keys import alteration_keys

N, K, SIZE = 24, 3, 32
LABELS = np.arange(N) % K
ASCENDING = np.sort(LABELS)
SEVERITIES = np.arange(1, 6)


@functools.cache
def images():
    rng = np.random.default_rng(0)
    # Classes differ in brightness, so that darker pictures are taken for others.
    base = rng.integers(0, 60, (N, SIZE, SIZE, 3)) + 80 * ASCENDING[:, None, None, None]
    return base.astype(np.uint8)


@functools.cache
def classifier(seed=0):
    scale = 1 + 0.05 * np.random.default_rng(seed).normal()

    def outputs(variables, batch):
        mean = batch.mean((1, 2, 3))[:, None] * variables
        return -np.float32(40) * (mean - np.float32([0.12, 0.43, 0.75])) ** 2

    return jaxrob.Classifier(outputs, np.float32(scale), outputs="logits")


def dataset(**more):
    return jaxrob.Dataset(images(), ASCENDING, name="pictures", **more)


def darker(level):
    return (images() * (1 - 0.15 * level)).astype(np.uint8)


@functools.cache
def noise():
    """A benchmark's corruption, truncated to bytes as its files are."""
    with pytest.warns(jaxrob.RobustnessWarning, match="frost"):
        return alterations.presets.cifar_c(published=True)[0]


@functools.cache
def corrupted():
    keys = alteration_keys(jax.random.key(0), np.arange(N, dtype=np.uint32))
    at = jax.jit(jax.vmap(noise(), (0, None, 0)))
    found = [at(images() / np.float32(255), float(level), keys) for level in SEVERITIES]
    return np.rint(np.stack(found) * 255).astype(np.uint8)


def write(folder, pictures, ending="png", **options):
    for at, picture in enumerate(pictures):
        path = folder / f"class {ASCENDING[at]}" / f"{at:02}.{ending}"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(picture).save(path, **options)
    return folder


def write_arrays(folder, name="gaussian_noise"):
    np.save(folder / f"{name}.npy", corrupted().reshape(-1, SIZE, SIZE, 3))
    np.save(folder / "labels.npy", np.tile(ASCENDING, 5))
    return folder


def dark(levels=(1, 2, 4), **more):
    """Datasets of darker pictures, and the accuracy at each level by hand."""
    given = {level: jaxrob.Dataset(darker(level), ASCENDING) for level in levels}
    return alterations.recorded(given, name="dark", **more)


@functools.cache
def assessed(seed=0, weights=None):
    data = dataset(metadata={"half": np.arange(N) // 12}, groups=None)
    found = dark(weights=weights)
    return jaxrob.assess(classifier(seed), data, found, threshold=0.6), data, found


def test_arrays_and_folders_are_answered_as_the_corruption_itself(tmp_path):
    of_itself = jaxrob.evaluate(
        classifier(), dataset(), noise(), SEVERITIES, key=jax.random.key(0)
    )
    folders = tmp_path / "folders"
    for level, pictures in zip(SEVERITIES, corrupted()):
        write(folders / "gaussian_noise" / str(level), pictures)
    pictures = jaxrob.data.image_folder(write(tmp_path / "base", images()))
    for folder, data in (
        (write_arrays(tmp_path), dataset()),
        (folders, pictures),
        (folders, dataset(class_names=pictures.class_names)),
    ):
        (found,) = alterations.recorded_in(folder)
        curve = jaxrob.evaluate(classifier(), data, found, SEVERITIES)
        np.testing.assert_array_equal(curve.predicted, of_itself.predicted)
        np.testing.assert_array_equal(curve.confidence, of_itself.confidence)
        assert found.name == "gaussian noise" and found.unit == "severity"
    result = jaxrob.assess(classifier(), dataset(), found)
    error = metrics.corruption_error(result, metrics.ReferenceErrors(0.5, 0.5))
    assert error.value == pytest.approx(2 * (1 - of_itself.accuracy.mean()))
    assert error.confidence_interval.low <= error.value
    relative = metrics.relative_corruption_error(
        result, metrics.ReferenceErrors(0.25, 0.5)
    )
    unaltered = 1 - result.values[0]
    assert relative.value == pytest.approx(
        4 * (1 - of_itself.accuracy.mean() - unaltered)
    )


def test_jpeg_files_are_answered_as_their_pixels(tmp_path):
    write(tmp_path / "base", images())
    write(tmp_path / "levels" / "10lux", darker(3), "jpg", quality=60)
    write(tmp_path / "levels" / "9lux", darker(4), "jpg", quality=20)
    (found,) = alterations.recorded_in(tmp_path / "levels")
    data = jaxrob.data.image_folder(tmp_path / "base")
    curve = jaxrob.evaluate(classifier(), data, found, [0, 2, 1])
    assert found.pictures.names == ("unaltered", "9lux", "10lux")
    for row, (level, quality) in enumerate(((3, 60), (4, 20)), 1):
        decoded = []
        for picture in darker(level):
            file = io.BytesIO()
            Image.fromarray(picture).save(file, "JPEG", quality=quality)
            decoded.append(np.asarray(Image.open(file)))
        answers = jaxrob.evaluate(
            classifier(),
            jaxrob.Dataset(np.stack(decoded), ASCENDING),
            alterations.brightness(),
            [0.0],
        )
        np.testing.assert_array_equal(curve.predicted[row], answers.predicted[0])


def test_the_robustness_is_the_share_of_listed_levels():
    result, data, found = assessed()
    by_hand = []
    for level in (0, 1, 2, 4):
        mean = darker(level).mean((1, 2, 3), dtype=np.float64)[:, None] / 255
        means = mean * float(classifier().variables)
        answer = np.abs(means - [0.12, 0.43, 0.75]).argmin(1)
        by_hand.append((answer == ASCENDING).mean())
    np.testing.assert_allclose(result.values, by_hand)
    accepted = np.array(by_hand)[1:] >= 0.6
    assert 0 < accepted.sum() < 3
    assert result.robustness == accepted.mean() and result.error_bound == 0
    assert result.rule == "count" and not result.diagnostics.warnings
    assert [one.start for one in result.accepted] == [
        level for level, is_good in zip((1, 2, 4), accepted) if is_good
    ]
    weighted = assessed(weights=(1, 2, 5))[0]
    assert weighted.robustness == accepted @ [1, 2, 5] / 8
    # Wilson's bands with the error that three one-sided decisions share.
    low, high = metrics.bands(result.counts, "accuracy", 1 - 2 * 0.05 / 3)
    shares = [(band[1:] >= 0.6).mean() for band in (low, high)]
    np.testing.assert_allclose(result.confidence_interval, shares)
    again = jaxrob.Assessment.from_json(weighted.to_json())
    assert again.robustness == weighted.robustness
    (slices,) = {len(one.slices) for one in [result.by("half")]}
    assert slices == 2
    assert {one.value: one.assessment for one in result.by("half").slices}[
        "0"
    ].robustness in (0, 1 / 3, 2 / 3, 1)


def test_comparisons_and_ranks_are_of_the_listed_levels():
    first, second = assessed()[0], assessed(1)[0]
    found = jaxrob.compare(first, second)
    assert found.difference == first.robustness - second.robustness
    difference = (first.values - second.values)[1:].mean()
    assert found.mean_difference == pytest.approx(difference)
    ranks = reporting.ranks({"a": [first], "b": [second]})[0]
    means = [one.values[1:].mean() for one in (first, second)]
    np.testing.assert_allclose(ranks.values, sorted(means, reverse=True))


def test_groups_widen_the_interval():
    data = dataset(metadata={"frame": np.arange(N) // 4}, groups="frame")
    grouped = jaxrob.assess(classifier(), data, dark(), threshold=0.6)
    low, high = assessed()[0].confidence_interval
    assert grouped.confidence_interval.low <= low
    assert grouped.confidence_interval.high >= high


def test_names_are_levels_in_their_order_and_may_hold_the_identity():
    given = {"studio": dataset(), "dusk": jaxrob.Dataset(darker(4), ASCENDING)}
    found = alterations.recorded(given, identity="studio")
    result = jaxrob.assess(classifier(), dataset(), found, threshold=0.6)
    assert (found.lower, found.upper, found.identity) == (1, 2, 1)
    assert result.listed.names == ("studio", "dusk")
    assert result.listed.weights.tolist() == [1, 1]
    page = reporting.to_html([reporting.Results("net", None, (result,))])
    assert "dusk" in page and "polyline" not in page
    other = given | {"studio": given["dusk"]}
    with pytest.raises(ValueError, match="level 1"):
        found = alterations.recorded(other, identity="studio")
        jaxrob.evaluate(classifier(), dataset(), found, [2])


def test_figures_show_points():
    result = assessed()[0]
    axes = result.plot()
    assert {line.get_linestyle() for line in axes.lines if len(line.get_xdata()) > 2}
    drawn = [line for line in axes.lines if len(line.get_xdata()) == 4]
    assert [line.get_linestyle() for line in drawn] == ["None"]


@pytest.mark.parametrize(
    "levels, more, name",
    [
        ({}, {}, "levels"),
        ({float("nan"): 0}, {}, "levels"),
        ({0: 0}, {}, "levels"),
        ({1: 0, "a": 0}, {}, "levels"),
        ({1: 0}, {"unit": "lux"}, "identity"),
        ({"a": 0}, {"identity": "b"}, "identity"),
        ({1: 0}, {"weights": [0]}, "weights"),
        ({1: 0}, {"weights": [1, 1]}, "weights"),
        ({1: 3.5}, {}, "levels"),
    ],
)
def test_wrong_levels_are_refused(levels, more, name):
    given = {key: dataset() if one == 0 else one for key, one in levels.items()}
    with pytest.raises((TypeError, ValueError), match=name):
        alterations.recorded(given, **more)


def test_one_level_is_enough():
    result = jaxrob.assess(classifier(), dataset(), dark([4]), threshold=0.6)
    assert result.robustness in (0, 1) and len(result.levels) == 2


def test_pictures_that_do_not_pair_are_counted_and_refused(tmp_path):
    data = jaxrob.data.image_folder(write(tmp_path / "base", images()))
    folder = write(tmp_path / "dim", darker(2))

    def refused(*said):
        found = alterations.recorded({1: folder})
        for given in (data, dataset(class_names=data.class_names)):
            with pytest.raises(ValueError, match="level 1") as error:
                jaxrob.evaluate(classifier(), given, found, [1])
            assert all(one in str(error.value) for one in said)

    picture = folder / "class 1" / "09.png"
    kept = picture.read_bytes()
    picture.unlink()
    refused(f"1 of {N}")
    picture.write_bytes(kept)
    (folder / "class 1" / "more.png").write_bytes(kept)
    refused("1 belong")
    (folder / "class 1" / "more.png").unlink()
    # Of another class.
    picture.rename(folder / "class 2" / "09.png")
    refused()
    (folder / "class 2" / "09.png").rename(picture)
    picture.write_bytes(kept[:100])
    with pytest.raises(ValueError, match="09.png"):
        jaxrob.evaluate(classifier(), data, alterations.recorded({1: folder}), [1])
    folder = write(tmp_path / "small", darker(2)[:, ::2, ::2])
    refused("shape")


def test_other_orders_are_mended_by_name_and_refused_by_place(tmp_path):
    data = jaxrob.data.image_folder(write(tmp_path / "base", images()))
    turned = jaxrob.data.image_folder(write(tmp_path / "dim", darker(4)))[::-1]
    found = alterations.recorded({1: turned})
    curve = jaxrob.evaluate(classifier(), data, found, [1])
    level = jaxrob.Dataset(darker(4), ASCENDING)
    by_place = alterations.recorded({1: level})
    expected = jaxrob.evaluate(classifier(), dataset(), by_place, [1])
    np.testing.assert_array_equal(curve.predicted, expected.predicted)
    with pytest.raises(ValueError, match="labels"):
        by_place = alterations.recorded({1: level[::-1]})
        jaxrob.evaluate(classifier(), dataset(), by_place, [1])


def test_damaged_arrays_are_refused(tmp_path):
    path = write_arrays(tmp_path) / "gaussian_noise.npy"
    whole = path.read_bytes()
    for content in (whole[:-1], whole[:40], b""):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="gaussian_noise.npy"):
            alterations.recorded_in(tmp_path)


def test_what_is_cropped_already_is_not_resized_again(tmp_path):
    large = np.stack([np.kron(one, np.ones((2, 3, 1), np.uint8)) for one in images()])
    how = {"resize": 40, "crop": SIZE}
    data = jaxrob.data.image_folder(write(tmp_path / "base", large), **how)
    levels = {
        1: write(tmp_path / "cropped", darker(2)),
        2: write(tmp_path / "large", large),
    }
    found = alterations.recorded(levels)
    result = jaxrob.assess(classifier(), data, found, threshold=0.6)
    as_stored = jaxrob.Dataset(darker(2), ASCENDING)
    (row,) = jaxrob.evaluate(
        classifier(), as_stored, alterations.brightness(), [0.0]
    ).predicted
    np.testing.assert_array_equal(result.curve.predicted[1], row)
    np.testing.assert_array_equal(*result.curve.predicted[[0, 2]])
    assert "not resized" in result.provenance["settings"]["pictures"]


def test_what_needs_a_function_is_refused_in_words():
    found, key = dark(), jax.random.key(0)
    few = strategies.FewImages(strategies.ASAP(), half_width=0.1)
    assess = functools.partial(jaxrob.assess, classifier(), dataset(), found)
    for refused in (
        lambda: assess(strategy=strategies.ASAP()),
        lambda: assess(strategy=few),
        lambda: assess(rule="linear"),
        lambda: assess(tolerance=jaxrob.Tolerance("linear")),
        lambda: found(images()[0] / np.float32(255), 1.0),
        lambda: alterations.followed_by(found, lambda image: image),
        lambda: alterations.rescale(found, 0.0, 1.0),
        lambda: jaxrob.evaluate(classifier(), dataset(), found, [3]),
        lambda: jaxrob.compare_sequentially(
            classifier(), classifier(1), dataset(), found
        ),
        lambda: jaxrob.roma.assess(
            classifier(), images()[-2:] / np.float32(255), perturbation=found, key=key
        ),
    ):
        with pytest.raises(ValueError, match="strategy|alteration|levels"):
            refused()
    batches = jaxrob.Dataset.from_batches([(images(), ASCENDING)])
    with pytest.raises(TypeError, match="dataset"):
        jaxrob.assess(classifier(), batches, found)


def test_a_journal_keeps_answers_and_tells_other_pictures(tmp_path):
    folder, journal = write(tmp_path / "dim", darker(4)), tmp_path / "journal"
    data = jaxrob.data.image_folder(write(tmp_path / "base", images()))

    def answers():
        found = alterations.recorded({1: folder})
        return jaxrob.assess(classifier(), data, found, journal=journal)

    first = answers()
    lines = journal.read_bytes().splitlines()
    journal.write_bytes(b"\n".join(lines[:-1]) + b"\n" + lines[-1][:20])  # Killed
    np.testing.assert_array_equal(answers().curve.predicted, first.curve.predicted)
    number = len(journal.read_bytes().splitlines())
    answers()
    assert len(journal.read_bytes().splitlines()) == number
    write(folder, darker(1))
    other = answers()
    assert other.provenance["alteration"] != first.provenance["alteration"]
    assert other.values[1] != first.values[1]


def test_the_command_reads_a_folder_of_settings(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "base", images())
    for name, level in (("10lux", 4), ("50lux", 1)):
        write(tmp_path / "light" / name, darker(level))
    (tmp_path / "net.py").write_text(
        "import numpy as np\n"
        "def net(images):\n"
        "    means = images.mean((1, 2, 3))[:, None]\n"
        "    return -40 * (means - np.float32([0.12, 0.43, 0.75])) ** 2\n"
    )
    flags = ["--classifier=net.py:net", "--images=base", "--recorded=light"]
    flags += ["--threshold=0.6", "--output=out", "--report=page.html"]
    assert main(["assess", *flags]) == 0
    assert "light" in capsys.readouterr().out
    (result,) = reporting.read_results("out").assessments
    assert result.listed.names == ("unaltered", "10lux", "50lux")
    assert (tmp_path / "page.html").read_text().count("<img") >= 3
