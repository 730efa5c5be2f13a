"""Recorded pictures: read as they are, paired, and counted at their levels alone."""

import functools

import jax
import numpy as np
import pytest
from PIL import Image

import jaxrob
from jaxrob import alterations, metrics, reporting, strategies
from jaxrob._command.run import main
from jaxrob._keys import alteration_keys

N = 24
ASCENDING = np.repeat(np.arange(3), N // 3)
SEVERITIES = np.arange(1, 6)


@functools.cache
def images():
    # Classes differ in brightness, so that darker pictures are taken for others.
    base = np.random.default_rng(0).integers(0, 60, (N, 32, 32, 3))
    return (base + 80 * ASCENDING[:, None, None, None]).astype(np.uint8)


@functools.cache
def classifier(seed=0):
    scale = 1 + 0.05 * np.random.default_rng(seed).normal()

    def outputs(variables, batch):
        mean = batch.mean((1, 2, 3))[:, None] * variables
        return -np.float32(40) * (mean - np.float32([0.12, 0.43, 0.75])) ** 2

    return jaxrob.Classifier(outputs, np.float32(scale), outputs="logits")


def dataset(**more):
    return jaxrob.Dataset(images(), ASCENDING, **more)


def darker(level):
    return (images() * (1 - 0.15 * level)).astype(np.uint8)


def unaltered(pictures):
    data, plain = jaxrob.Dataset(pictures, ASCENDING), alterations.brightness()
    return jaxrob.evaluate(classifier(), data, plain, [0.0]).predicted[0]


def write(folder, pictures, ending="png", **options):
    for at, picture in enumerate(pictures):
        path = folder / f"class {ASCENDING[at]}" / f"{at:02}.{ending}"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(picture).save(path, **options)
    return folder


def dark(levels=(1, 2, 4), **more):
    given = {level: jaxrob.Dataset(darker(level), ASCENDING) for level in levels}
    return alterations.recorded(given, name="dark", **more)


@functools.cache
def assessed(seed=0, weights=None):
    data = dataset(metadata={"half": np.arange(N) // 12})
    return jaxrob.assess(classifier(seed), data, dark(weights=weights), threshold=0.6)


@pytest.mark.slow
def test_arrays_and_folders_are_answered_as_the_corruption_itself(tmp_path):
    with pytest.warns(jaxrob.RobustnessWarning, match="frost"):
        noise = alterations.presets.cifar_c(published=True)[0]
    key, base = jax.random.key(0), images() / np.float32(255)
    of_itself = jaxrob.evaluate(classifier(), dataset(), noise, SEVERITIES, key=key)
    keys = alteration_keys(key, np.arange(N, dtype=np.uint32))
    at = jax.jit(jax.vmap(noise, (0, None, 0)))
    stored = np.stack([at(base, float(level), keys) for level in SEVERITIES])
    stored, folders = np.rint(stored * 255).astype(np.uint8), tmp_path / "folders"
    for level, pictures in zip(SEVERITIES, stored):
        write(folders / "gaussian_noise" / str(level), pictures)
    np.save(tmp_path / "gaussian_noise.npy", np.concatenate(stored))
    np.save(tmp_path / "labels.npy", np.tile(ASCENDING, 5))
    pictures = jaxrob.data.image_folder(write(tmp_path / "base", images()))
    for data in (dataset(), pictures, dataset(class_names=pictures.class_names)):
        folder = folders if data.class_names else tmp_path
        (found,) = alterations.recorded_in(folder)
        curve = jaxrob.evaluate(classifier(), data, found, SEVERITIES)
        np.testing.assert_array_equal(curve.predicted, of_itself.predicted)
        np.testing.assert_array_equal(curve.confidence, of_itself.confidence)
        assert found.name == "gaussian noise" and found.unit == "severity"
    result = jaxrob.assess(classifier(), dataset(), found)
    published = metrics.ReferenceErrors(0.25, 0.5)
    mean, error = of_itself.accuracy.mean(), metrics.corruption_error(result, published)
    assert error.value == pytest.approx(2 * (1 - mean))
    relative = metrics.relative_corruption_error(result, published)
    assert relative.value == pytest.approx(4 * (result.values[0] - mean))


@pytest.mark.slow
def test_jpeg_files_are_answered_as_their_pixels(tmp_path):
    data = jaxrob.data.image_folder(write(tmp_path / "base", images()))
    write(tmp_path / "levels" / "10lux", darker(3), "jpg", quality=60)
    write(tmp_path / "levels" / "9lux", darker(4), "jpg", quality=20)
    (found,) = alterations.recorded_in(tmp_path / "levels")
    curve = jaxrob.evaluate(classifier(), data, found, [0, 2, 1])
    assert [*found.pictures.names] == ["unaltered", "9lux", "10lux"]
    for row, name in ((1, "10lux"), (2, "9lux")):
        paths = sorted((tmp_path / "levels" / name).glob("*/*.jpg"))
        decoded = np.stack([np.asarray(Image.open(path)) for path in paths])
        np.testing.assert_array_equal(curve.predicted[row], unaltered(decoded))


def test_the_robustness_is_the_share_of_listed_levels():
    result = assessed()
    means = np.stack([darker(at).mean((1, 2, 3)) / 255 for at in (0, 1, 2, 4)])
    means *= float(classifier().variables)
    answers = np.abs(means[..., None] - [0.12, 0.43, 0.75]).argmin(-1)
    by_hand = (answers == ASCENDING).mean(1)
    np.testing.assert_allclose(result.values, by_hand)
    accepted = by_hand[1:] >= 0.6
    assert result.robustness == accepted.mean() and result.error_bound == 0
    assert result.rule == "count" and not result.diagnostics.warnings
    good = np.array([1, 2, 4])[accepted].tolist()
    assert result.accepted == tuple((level, level) for level in good)
    one_level = jaxrob.assess(classifier(), dataset(), dark([4]), threshold=0.6)
    assert one_level.robustness == accepted[2]
    weighted = assessed(weights=(*np.float32([0.1, 0.2, 0.5]),))
    assert weighted.robustness == pytest.approx(accepted @ [1, 2, 5] / 8, abs=1e-15)
    # Wilson's bands with the error that three one-sided decisions share.
    bands = metrics.bands(result.counts, "accuracy", 1 - 2 * 0.05 / 3)
    shares = [(band[1:] >= 0.6).mean() for band in bands]
    np.testing.assert_allclose(result.confidence_interval, shares)
    data = dataset(metadata={"frame": np.arange(N) // 2}, groups="frame")
    low, high = jaxrob.assess(classifier(), data, dark(), 0.6).confidence_interval
    assert low <= min(shares) <= max(shares) <= high
    again = jaxrob.Assessment.from_json(weighted.to_json())
    assert again.robustness == weighted.robustness
    for _, one, _ in result.by("half").slices:
        assert one.robustness == (one.values[1:] >= 0.6).mean()


@pytest.mark.slow
def test_comparisons_and_ranks_are_of_the_listed_levels():
    first, second = assessed(), assessed(1)
    found = jaxrob.compare(first, second)
    assert found.difference == first.robustness - second.robustness
    means = [one.values[1:].mean() for one in (first, second)]
    assert found.mean_difference == pytest.approx(means[0] - means[1])
    ranks = reporting.ranks({"a": [first], "b": [second]})[0]
    np.testing.assert_allclose(ranks.values, sorted(means, reverse=True))


def test_names_are_levels_in_their_order_and_may_hold_the_identity():
    given = {"studio": dataset(), "dusk": jaxrob.Dataset(darker(4), ASCENDING)}
    found = alterations.recorded(given, identity="studio")
    result = jaxrob.assess(classifier(), dataset(), found, threshold=0.6)
    assert (found.lower, found.upper, found.identity) == (1, 2, 1)
    assert result.listed.names == ("studio", "dusk") and all(result.listed.weights)
    page = reporting.to_html([reporting.Results("net", None, (result,))])
    assert "dusk" in page and "polyline" not in page
    assert {one.get_linestyle() for one in result.plot().lines} == {"None", "--", ":"}
    with pytest.raises(ValueError, match="studio"):  # Its pictures are others.
        found = alterations.recorded(given, identity="studio")
        jaxrob.evaluate(classifier(), given["dusk"], found, [2])


@pytest.mark.parametrize(
    "levels, more, name",
    [
        ({}, {}, "levels"),
        ({float("nan"): 0}, {}, "levels"),
        ({0: 0}, {}, "levels"),
        ({1: 0, "a": 0}, {}, "levels"),
        ({1: 0}, {"unit": "lux"}, "identity"),
        ({1: 0}, {"weights": [0]}, "weights"),
        ({1: 3.5}, {}, "levels"),
    ],
)
def test_wrong_levels_are_refused(levels, more, name):
    given = {key: dataset() if one == 0 else one for key, one in levels.items()}
    with pytest.raises((TypeError, ValueError), match=name):
        alterations.recorded(given, **more)


def test_pictures_that_do_not_pair_are_counted_and_refused(tmp_path):
    data = jaxrob.data.image_folder(write(tmp_path / "base", images()))
    folder = write(tmp_path / "dim", darker(2))

    def refused(said=""):
        found = alterations.recorded({1: folder})
        for given in (data, dataset(class_names=data.class_names)):
            with pytest.raises(ValueError, match=f"level 1.*{said}"):
                jaxrob.evaluate(classifier(), given, found, [1])

    picture = folder / "class 1" / "09.png"
    kept = picture.read_bytes()
    picture.rename(folder / "class 2" / "09.png")
    refused()
    (folder / "class 2" / "09.png").unlink()
    refused(f"1 of {N}")
    picture.write_bytes(kept)
    picture.with_name("more.png").write_bytes(kept)
    refused("1 belong")
    picture.with_name("more.png").unlink()
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
    np.testing.assert_array_equal(curve.predicted[0], unaltered(darker(4)))
    with pytest.raises(ValueError, match="labels"):
        by_place = alterations.recorded({1: jaxrob.Dataset(darker(4), ASCENDING[::-1])})
        jaxrob.evaluate(classifier(), dataset(), by_place, [1])
    with pytest.raises(ValueError, match="class_names"):
        named = jaxrob.Dataset(darker(4), ASCENDING, class_names=["b", "a", "c"])
        given = dataset(class_names=["a", "b", "c"])
        jaxrob.evaluate(classifier(), given, alterations.recorded({1: named}), [1])


def test_masks_and_boxes_are_those_of_the_unaltered_pictures():
    def mean_of(_, labels):
        return np.array([one.mean() for one in labels]) / 9

    boxes = [np.array([[at % 3, 0.0, 9, 9]]) for at in range(N)]
    for labels, kind in ((images()[..., 0] > 100, "masks"), (boxes, "boxes")):
        same, other = (jaxrob.Dataset(darker(4), one) for one in (labels, labels[::-1]))
        score = jaxrob.Score(mean_of, labels=kind)
        data = jaxrob.Dataset(images(), labels)
        found = alterations.recorded({2: same})
        curve = jaxrob.evaluate(classifier(), data, found, [0, 2], score=score)
        assert curve.values[0] == curve.values[1] > 0
        with pytest.raises(ValueError, match="labels.* differ"):
            found = alterations.recorded({2: other})
            jaxrob.evaluate(classifier(), data, found, [2], score=score)


def test_pictures_at_the_identity_are_those_given():
    others = darker(4)
    others[0] = images()[0]
    found = alterations.recorded({0: jaxrob.Dataset(others, ASCENDING), 1: dataset()})
    curve = jaxrob.evaluate(classifier(), dataset(), found, [0])
    np.testing.assert_array_equal(curve.predicted[0], unaltered(others))


def test_damaged_arrays_are_refused(tmp_path):
    path = tmp_path / "gaussian_noise.npy"
    np.save(path, np.tile(images(), (5, 1, 1, 1)))
    np.save(tmp_path / "labels.npy", np.tile(ASCENDING, 5))
    whole = path.read_bytes()
    for content in (whole[:-1], whole[:40], b""):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="gaussian_noise.npy"):
            alterations.recorded_in(tmp_path)


def test_settings_are_told_from_severities_and_in_the_order_of_their_numbers(tmp_path):
    for setting in ("1e2C", "-10C", "5C"):
        for number in range(5):
            (tmp_path / setting / str(number)).mkdir(parents=True)
    (found,) = alterations.recorded_in(tmp_path)
    assert found.pictures.names == ("unaltered", "-10C", "5C", "1e2C")


@pytest.mark.slow
def test_what_is_cropped_already_is_not_resized_again(tmp_path):
    large = np.stack([np.kron(one, np.ones((2, 3, 1), np.uint8)) for one in images()])
    folder = write(tmp_path / "base", large)
    data = jaxrob.data.image_folder(folder, resize=40, crop=32)
    cropped = write(tmp_path / "cropped", darker(2))
    found = alterations.recorded({1: cropped, 2: write(tmp_path / "large", large)})
    result = jaxrob.assess(classifier(), data, found, threshold=0.6)
    np.testing.assert_array_equal(result.curve.predicted[1], unaltered(darker(2)))
    np.testing.assert_array_equal(*result.curve.predicted[[0, 2]])
    assert "not resized" in result.provenance["settings"]["pictures"]


@pytest.mark.slow
def test_what_needs_a_function_is_refused_in_words():
    found, key, two = dark(), jax.random.key(0), images()[-2:] / np.float32(255)
    assess = functools.partial(jaxrob.assess, classifier(), dataset(), found)
    evaluate = functools.partial(jaxrob.evaluate, classifier(), dataset())
    for refused in (
        lambda: assess(strategy=strategies.ASAP()),
        lambda: assess(strategy=strategies.FewImages(strategies.ASAP(), 0.1)),
        lambda: assess(rule="linear"),
        lambda: assess(tolerance=jaxrob.Tolerance("linear")),
        lambda: found(two[0], 1.0),
        lambda: alterations.followed_by(found, lambda image: image),
        lambda: evaluate(found, [3]),
        lambda: evaluate(jaxrob.Domain([found]), [[0.0]]),
        lambda: jaxrob.compare_sequentially(*[classifier()] * 2, dataset(), found),
        lambda: jaxrob.roma.assess(classifier(), two, perturbation=found, key=key),
    ):
        with pytest.raises(ValueError, match="strategy|alteration|levels"):
            refused()


@pytest.mark.slow
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
    written = journal.read_bytes()
    answers()
    assert journal.read_bytes() == written
    write(folder, darker(1))
    assert answers().values[1] != first.values[1]
    np.save(file := tmp_path / "dim.npy", darker(4))
    found, journal = alterations.recorded({1: file}), tmp_path / "other"
    jaxrob.assess(classifier(), data, found, journal=journal)
    np.save(file, darker(1))
    later = jaxrob.assess(classifier(), data, found, journal=journal)
    assert later.values[1] != first.values[1]


@pytest.mark.slow
def test_the_command_reads_a_folder_of_settings(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "base", images())
    write(tmp_path / "light" / "50lux", darker(1))
    write(tmp_path / "light" / "10lux", darker(4))
    distance = "images.mean((1, 2, 3))[:, None] - [0.12, 0.43, 0.75]"
    (tmp_path / "net.py").write_text(f"net = lambda images: -40 * ({distance}) ** 2")
    flags = ["--classifier=net.py:net", "--images=base", "--recorded=light"]
    flags += ["--threshold=0.6", "--output=out", "--report=page.html"]
    assert main(["assess", *flags]) == 0
    (result,) = reporting.read_results("out").assessments
    assert result.listed.names == ("unaltered", "10lux", "50lux")
    assert (tmp_path / "page.html").read_text().count("<img") >= 3
