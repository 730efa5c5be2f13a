"""DICOM and NIfTI files, as pydicom and nibabel read them."""

import gzip
import io

import numpy as np
import pytest
from PIL import Image

from jaxrob import RobustnessWarning
from jaxrob.data import image_folder, slices

from .files import dicom, encoded, nifti, saved, write_folder, write_tar

# A window of soft tissue shows little of random values of 12 bits.
pytestmark = pytest.mark.filterwarnings("ignore:.*the pictures are nearly")
RNG = np.random.default_rng(0)
CT = RNG.integers(0, 4096, (6, 9), dtype=np.uint16)
WINDOW = {"WindowCenter": 40, "WindowWidth": 400}
RESCALED = {"RescaleSlope": 1.5, "RescaleIntercept": -1024, **WINDOW}


def one(path, data, name="x.dcm", grey=True, **options):
    write_folder(path, {f"class/{name}": data})
    return image_folder(path, grey=grey, **options).images[0][..., 0]


def shown(values, center, width, function="LINEAR"):
    """Returns what a window shows of rescaled values, by DICOM PS3.3 C.11.2.1."""
    if function == "SIGMOID":
        return 1 / (1 + np.exp(-4 * (values - center) / width))
    if function == "LINEAR":
        center, width = center - 0.5, width - 1
    if width == 0:
        return values > center
    return ((values - center) / width + 0.5).clip(0, 1)


@pytest.mark.parametrize(
    ("elements", "window"),
    [
        (WINDOW, (40, 400)),
        (RESCALED, (40, 400)),
        (RESCALED | {"VOILUTFunction": "LINEAR_EXACT"}, (40, 400, "LINEAR_EXACT")),
        (RESCALED | {"VOILUTFunction": "SIGMOID"}, (40, 400, "SIGMOID")),
        (RESCALED | {"PhotometricInterpretation": "MONOCHROME1"}, (40, 400)),
        (RESCALED | {"WindowCenter": [300, 40], "WindowWidth": [2000, 1]}, (300, 2000)),
        ({"WindowCenter": 2000.5, "WindowWidth": 1}, (2000.5, 1)),
        ({"WindowCenter": 0, "WindowWidth": 900}, (0, 900)),
    ],
)
def test_windows_are_those_of_the_standard(tmp_path, elements, window):
    signed = (CT.astype(np.int16) - 2048).astype(np.int16)
    for values in (CT, signed, np.uint8(CT >> 4)):
        bits = 8 if values.dtype == np.uint8 else 12
        found = one(tmp_path, dicom(values, bits=bits, **elements))
        slope = elements.get("RescaleSlope", 1), elements.get("RescaleIntercept", 0)
        expected = shown(values * float(slope[0]) + slope[1], *window)
        if "PhotometricInterpretation" in elements:
            expected = 1 - expected
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, expected, atol=1e-6)


def test_elements_are_metadata(tmp_path):
    first = dicom(CT, **WINDOW, PatientID="P1", Manufacturer="X")
    other = dicom(CT, **WINDOW, PatientID="P2")
    write_folder(tmp_path, {"class/a.dcm": first, "class/b.dcm": other})
    found = image_folder(tmp_path, metadata=["Manufacturer"], groups="PatientID")
    assert found.metadata["PatientID"].tolist() == ["P1", "P2"]
    assert found.metadata["Manufacturer"].tolist() == ["X", ""]
    with pytest.raises(ValueError, match="'Scanner'"):
        image_folder(tmp_path, metadata=["Scanner"])


def test_a_table_of_values_is_followed(tmp_path):
    data = dicom(CT)
    pydicom = pytest.importorskip("pydicom", reason="needs jaxrob[medical]")
    found = pydicom.dcmread(io.BytesIO(data))
    table = pydicom.Dataset()
    table.add_new("LUTDescriptor", "US", [4096, 0, 10])
    entries = np.sort(RNG.integers(0, 1024, 4096))
    table.add_new("LUTData", "US", entries.tolist())
    found.VOILUTSequence = [table]
    expected = entries[CT] / 1023
    np.testing.assert_allclose(one(tmp_path, saved(found)), expected, atol=1e-6)


def test_a_range_takes_the_place_of_the_window(tmp_path):
    hounsfield = CT * 1.5 - 1024
    expected = np.clip((hounsfield + 160) / 400, 0, 1)
    for elements in (RESCALED, {"RescaleSlope": 1.5, "RescaleIntercept": -1024}):
        found = one(tmp_path, dicom(CT, **elements), value_range=(-160, 240))
        np.testing.assert_allclose(found, expected, atol=1e-6)


def test_unused_bits_are_ignored(tmp_path):
    # Old files keep overlays there.
    data = dicom(CT | 0xA000, **RESCALED)
    expected = one(tmp_path, dicom(CT, **RESCALED))
    np.testing.assert_array_equal(one(tmp_path, data), expected)


def test_transfer_syntaxes(tmp_path):
    data = dicom(CT, **RESCALED)
    expected = one(tmp_path, data)
    pydicom = pytest.importorskip("pydicom", reason="needs jaxrob[medical]")
    runs = pydicom.dcmread(io.BytesIO(data))
    runs.compress(pydicom.uid.RLELossless)
    implicit = dicom(CT, pydicom.uid.ImplicitVRLittleEndian, **RESCALED)
    for data in (saved(runs), implicit):
        np.testing.assert_array_equal(one(tmp_path, data), expected)


def encapsulated(frame, values):
    pydicom = pytest.importorskip("pydicom", reason="needs jaxrob[medical]")
    found = pydicom.dcmread(io.BytesIO(dicom(values, bits=8)))
    found.file_meta.TransferSyntaxUID = pydicom.uid.JPEGBaseline8Bit
    found.PixelData = pydicom.encaps.encapsulate([frame])
    found["PixelData"].VR = "OB"
    return saved(found)


def test_jpeg_in_dicom(tmp_path, monkeypatch):
    grey = np.uint8(CT >> 4)
    frame = encoded(grey, "JPEG", quality=95)
    expected = np.asarray(Image.open(io.BytesIO(frame)), np.float32) / 255
    found = one(tmp_path, encapsulated(frame, grey), value_range=(0, 255))
    np.testing.assert_allclose(found, expected, atol=1e-6)
    # The frame has another size than the header.
    big = encoded(Image.new("L", (5000, 5000)), "JPEG")
    with pytest.raises(ValueError, match="x.dcm: .*5000x5000"):
        one(tmp_path, encapsulated(big, grey), value_range=(0, 255))
    with pytest.raises(ValueError, match="x.dcm: not a readable"):
        one(tmp_path, encapsulated(b"garbage", grey), value_range=(0, 255))
    monkeypatch.setattr("PIL.ImageFile.LOAD_TRUNCATED_IMAGES", True)
    with pytest.raises(ValueError, match="LOAD_TRUNCATED_IMAGES"):
        one(tmp_path, encapsulated(frame[:-9], grey), value_range=(0, 255))


def test_what_is_packed_is_refused(tmp_path):
    pydicom = pytest.importorskip("pydicom", reason="needs jaxrob[medical]")
    runs = pydicom.encaps.encapsulate([bytes((4 << 20) + 2)])
    data = dicom(CT, pydicom.uid.RLELossless, **RESCALED, PixelData=runs)
    with pytest.raises(ValueError, match="class/x.dcm: .*may unpack to more than"):
        one(tmp_path, data)
    data = dicom(CT, pydicom.uid.JPEGLSLossless, **RESCALED, PixelData=runs)
    with pytest.raises(ValueError, match="class/x.dcm: .*transfer syntax is JPEG-LS"):
        one(tmp_path, data)
    data = dicom(CT, pydicom.uid.DeflatedExplicitVRLittleEndian, **RESCALED)
    with pytest.raises(ValueError, match="class/x.dcm: .*deflated.*dcmconv"):
        one(tmp_path, data)


def test_colours(tmp_path):
    rgb = RNG.integers(0, 256, (5, 7, 3), dtype=np.uint8)
    write_folder(tmp_path, {"class/x.dcm": dicom(rgb, bits=8)})
    found = image_folder(tmp_path).images[0]
    np.testing.assert_array_equal(found, np.float32(rgb / 255))


# What is wrong, and a word of the message.
BAD = (
    ({}, "WindowCenter"),
    ({"WindowCenter": 4}, "WindowWidth"),
    (RESCALED | {"WindowWidth": 0.5}, "Window Width"),
    (RESCALED | {"WindowWidth": -4, "VOILUTFunction": "LINEAR_EXACT"}, "Window Width"),
    (RESCALED | {"WindowCenter": float("nan")}, "WindowCenter"),
    (RESCALED | {"VOILUTFunction": "CUBIC"}, "CUBIC"),
    (RESCALED | {"WindowCenter": [40, 300]}, "WindowCenter"),
    (WINDOW | {"RescaleSlope": 1.5}, "no RescaleIntercept"),
    (RESCALED | {"RescaleSlope": 0}, "RescaleSlope"),
    (RESCALED | {"RescaleIntercept": float("inf")}, "RescaleIntercept"),
    (RESCALED | {"Rows": None}, "Rows"),
    (RESCALED | {"PixelData": None}, "pixel data"),
    (RESCALED | {"HighBit": 15}, "HighBit"),
    (RESCALED | {"BitsStored": 17}, "13 of 12 bits|use 17 of 16"),
    (RESCALED | {"PhotometricInterpretation": "PALETTE COLOR"}, "Photometric"),
    (RESCALED | {"Rows": 6000}, "108000"),
    (RESCALED | {"Rows": 65535, "Columns": 65535}, "178956970"),
    (RESCALED | {"NumberOfFrames": 0}, "frames"),
)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(("elements", "word"), BAD)
def test_bad_dicom_files_are_named(tmp_path, elements, word):
    with pytest.raises(ValueError, match=f"class/x.dcm: .*({word})"):
        one(tmp_path, dicom(CT, **elements))


def test_frames(tmp_path):
    frames = RNG.integers(0, 4096, (5, 6, 9), dtype=np.uint16)
    data = dicom(frames, **RESCALED)
    with pytest.raises(ValueError, match=r"5 frames .* slice_at=\(0, index\)"):
        one(tmp_path, data)
    with pytest.raises(ValueError, match=r"5 frames and slice_at=\(0, 5\)"):
        one(tmp_path, data, slice_at=(0, 5))
    expected = shown(frames * 1.5 - 1024, 40, 400)
    found = one(tmp_path, data, slice_at=(0, 3))
    np.testing.assert_allclose(found, expected[3], atol=1e-6)
    path = tmp_path / "class" / "x.dcm"
    some = slices(path, indices=[4, 0], labels=[1, 0], grey=True)
    np.testing.assert_allclose(some.images[..., 0], expected[[4, 0]], atol=1e-6)
    assert some.labels.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("kind", "dtype", "name"),
    [
        ("Nifti1Image", "u1", "x.nii.gz"),
        ("Nifti1Image", ">i2", "x.nii"),
        ("Nifti2Image", "f4", "x.nii.gz"),
        ("Nifti2Image", ">i2", "x.nii"),
    ],
)
def test_slices_are_those_of_nibabel(tmp_path, kind, dtype, name):
    nibabel = pytest.importorskip("nibabel", reason="needs jaxrob[medical]")
    values = RNG.integers(0, 200, (4, 5, 6)).astype(dtype)
    data = nifti(values, kind, (-10, 300), slope=(1.5, -20))
    write_folder(tmp_path, {"class/x.nii": data})
    volume = nibabel.load(tmp_path / "class" / "x.nii").get_fdata()
    (tmp_path / "class" / "x.nii").unlink()
    data = gzip.compress(data) if name.endswith("gz") else data
    shown = np.clip((volume + 10) / 310, 0, 1)
    for axis, at in ((0, 3), (1, 0), (2, 5)):
        found = one(tmp_path, data, name, slice_at=(axis, at))
        np.testing.assert_allclose(found, shown.take(at, axis), atol=1e-6)
        every = slices(tmp_path / "class" / name, axis, value_range=(0, 100), grey=True)
        expected = np.clip(np.moveaxis(volume, axis, 0) / 100, 0, 1)
        np.testing.assert_allclose(every.images[..., 0], expected, atol=1e-6)
    with pytest.raises(ValueError, match=r"its shape is \(4, 5, 6\): pass slice_at="):
        one(tmp_path, data, name)


def test_bad_nifti_files_are_named(tmp_path):
    values = np.arange(120, dtype=np.int16).reshape(4, 5, 6)
    whole = nifti(values)
    early = whole[:108] + np.float32(8).tobytes() + whole[112:]
    for data, at, message in (
        (early, 0, "begin at byte 8, inside its header"),
        (nifti(values, display=(0, 0)), 0, "cal_min.*value_range"),
        (whole, 6, r"slice_at=\(2, 6\).* has 6 slices"),
        (nifti(np.zeros((2, 2, 2, 2), "f4")), 0, r"its shape is \(2, 2, 2, 2\)"),
        (nifti(values * np.float32(np.nan)), 0, "NaN"),
        (nifti(np.ones((2, 2, 2), "c8")), 0, "are complex64"),
    ):
        with pytest.raises(ValueError, match=f"x.nii: .*{message}"):
            one(tmp_path, data, "x.nii", slice_at=(2, at))
    for name, data in (("x.nii", whole), ("x.nii.gz", gzip.compress(whole))):
        for length in range(0, len(data), 11):
            with pytest.raises(ValueError, match=f"class/{name}: "):
                one(tmp_path / name, data[:length], name, slice_at=(2, 0))


def test_arguments_of_slices(tmp_path):
    path = tmp_path / "x.nii"
    path.write_bytes(nifti(np.zeros((8, 5, 6), np.int16)))
    assert slices(path, size=(4, 3)).images.shape == (6, 4, 3, 3)
    with pytest.raises(ValueError, match="axis must"):
        slices(path, 3)
    with pytest.raises(ValueError, match="indices must"):
        slices(path, 0, [8])
    with pytest.raises(ValueError, match="path must"):
        slices(tmp_path / "x.png")
    with pytest.raises(FileNotFoundError):
        slices(tmp_path / "y.nii")
    with pytest.raises(ValueError, match="slice_at"):
        image_folder(tmp_path, slice_at=(3, 0))


HOUNSFIELD = {"RescaleSlope": 1, "RescaleIntercept": -1024}
# A body in air: two fifths of soft tissue, some bone.
BODY = np.uint16(1024 + np.repeat([-1000, -1000, -1000, 20, 60, 700], 9).reshape(6, 9))


def reading(path, **options):
    dataset = image_folder(path, **options)
    return dataset, dataset._reading


@pytest.mark.parametrize("limit", [100, 2**20])
def test_different_windows_are_said_and_kept(tmp_path, limit):
    lung = {"WindowCenter": [-600, 40], "WindowWidth": [1500, 400]}
    files = [dicom(BODY, **HOUNSFIELD, **WINDOW), dicom(BODY, **HOUNSFIELD, **lung)]
    write_folder(tmp_path, {f"a/{i}.dcm": files[i == 2] for i in range(4)})
    said = (
        r"1 of 4 pictures .* than a/0.dcm \(WindowCenter 40, WindowWidth 400\), such "
        r"as a/2.dcm \(WindowCenter -600, WindowWidth 1500\).*value_range="
    )
    if limit == 100:
        # What is read when it is needed is known then.
        dataset, kept = reading(tmp_path, max_bytes=limit)
        assert kept["window"].startswith("WindowCenter 40, WindowWidth 400; of")
        np.asarray(dataset.images)
        with pytest.warns(RobustnessWarning, match=said):
            dataset.images.warn_of_odd()
    else:
        with pytest.warns(RobustnessWarning, match=said):
            _, kept = reading(tmp_path, max_bytes=limit)
        assert kept["window"] == "not the same in all files"
        assert kept["rescale"] == "RescaleSlope 1, RescaleIntercept -1024"
    # A range takes their place.
    dataset, kept = reading(tmp_path, value_range=(-160, 240), size=(3, 9))
    assert kept["preparation"] == {
        "size": [3, 9],
        "interpolation": "bicubic",
        "value_range": [-160.0, 240.0],
    }
    assert "window" not in kept
    assert np.ptp(dataset.images, axis=0).max() == 0


def test_a_missing_rescale_is_said(tmp_path):
    files = [dicom(BODY, **WINDOW, **HOUNSFIELD), dicom(BODY, **WINDOW)]
    write_folder(tmp_path, {f"a/{i}.dcm": files[i % 2] for i in range(3)})
    said = "1 of 3 pictures have no RescaleSlope, such as a/1.dcm, .* such as a/0.dcm"
    with pytest.warns(RobustnessWarning, match=said):
        _, kept = reading(tmp_path, value_range=(-160, 1240))
    assert kept["rescale"] == "not the same in all files"


@pytest.mark.parametrize(
    ("value_range", "elements", "said"),
    [
        ((0, 1), {}, r"nearly black and white alone, by value_range=\(0, 1\): 100 %"),
        ((0, 4095), {}, r"nearly black, .* 48 % .*-1000 to 700 .* becomes 0.009"),
        ((-9000, -8000), {}, r"nearly white, by value_range=.* 100 % .*1.000"),
        (None, {"WindowCenter": 9000, "WindowWidth": 10}, "nearly black, by Window"),
        ((-160, 240), {}, None),
        (None, WINDOW, None),
    ],
)
@pytest.mark.filterwarnings("error::jaxrob.RobustnessWarning")
def test_a_range_that_shows_nothing_is_said(tmp_path, value_range, elements, said):
    values = np.where(BODY > 1024 + 500, 1024 + 60, BODY)
    values[0, 0] = 1024 + 700
    file = dicom(values, **HOUNSFIELD, **elements)
    write_folder(tmp_path, {"a/0.dcm": file, "a/1.dcm": file})
    if said is None:
        image_folder(tmp_path, value_range=value_range)
        return
    with pytest.warns(RobustnessWarning, match=said):
        image_folder(tmp_path, value_range=value_range)


def test_slices_say_how_they_were_read(tmp_path):
    path = tmp_path / "x.nii"
    path.write_bytes(nifti(np.arange(120, dtype=np.int16).reshape(4, 5, 6)))
    found = slices(path, indices=[1, 4], value_range=(0, 200))._reading
    assert found["slices"] == {"axis": 2, "indices": [1, 4]}
    assert found["preparation"] == {"value_range": [0.0, 200.0]}
    assert slices(path)._reading["window"] == "cal_min 0, cal_max 1000"
    with pytest.warns(RobustnessWarning, match="nearly black"):
        slices(path, value_range=(0, 30_000))


def test_dicom_of_any_name_is_found_on_disk(tmp_path):
    file = dicom(BODY, **RESCALED)
    names = ["IM000001", "x.IMA", "1.2.840.113619.3", "y.dcm"]
    others = {"DICOMDIR": file, "notes": b"", "report.txt": file, "b.bin": file}
    write_folder(tmp_path, {f"ct/{name}": file for name in names} | others)
    dataset = image_folder(tmp_path)
    assert len(dataset) == 4 and np.ptp(dataset.images, axis=0).max() == 0
    assert dataset._reading["skipped_names"] == ["DICOMDIR"]
    assert len(slices(tmp_path / "ct" / "x.IMA")) == 1
    write_folder(tmp_path, {"ct/z.txt": file})
    with pytest.raises(ValueError, match="z.txt: no picture by its name.*DICOM files"):
        image_folder(tmp_path)
    archive = write_tar(tmp_path / "x.tar", {"a/IM000001": file}, "w")
    with pytest.raises(ValueError, match="in a folder also DICOM files without an en"):
        image_folder(archive)


def test_rescaling_by_functional_groups_is_refused(tmp_path):
    pydicom = pytest.importorskip("pydicom", reason="needs jaxrob[medical]")
    group, transform = pydicom.Dataset(), pydicom.Dataset()
    transform.RescaleSlope, transform.RescaleIntercept = 1, -1024
    group.PixelValueTransformationSequence = [transform]
    data = dicom(BODY, **WINDOW, SharedFunctionalGroupsSequence=[group])
    with pytest.raises(ValueError, match="x.dcm: .*SharedFunctionalGroupsSequence"):
        one(tmp_path, data, value_range=(-160, 240))
