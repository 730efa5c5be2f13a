"""DICOM and NIfTI files, as pydicom and nibabel read them."""

import gzip
import io
import warnings

import numpy as np
import pytest
from PIL import Image

from jaxrob.data import image_folder, slices

from .files import write_folder

RNG = np.random.default_rng(0)
CT = RNG.integers(0, 4096, (6, 9), dtype=np.uint16)
WINDOW = {"WindowCenter": 40, "WindowWidth": 400}
RESCALED = {"RescaleSlope": 1.5, "RescaleIntercept": -1024, **WINDOW}


def dicom(values, syntax=None, bits=12, **elements):
    """Returns a file of `[H, W]`, `[N, H, W]` or RGB `[H, W, 3]` values."""
    pydicom = pytest.importorskip("pydicom", reason="needs jaxrob[medical]")
    found = pydicom.Dataset()
    found.file_meta = pydicom.dataset.FileMetaDataset()
    syntax = syntax or pydicom.uid.ExplicitVRLittleEndian
    found.file_meta.TransferSyntaxUID = syntax
    found.SOPClassUID = pydicom.uid.SecondaryCaptureImageStorage
    found.SOPInstanceUID = "1.2.3"
    is_colour = values.ndim == 3 and values.shape[-1] == 3
    if values.ndim == 3 and not is_colour:
        found.NumberOfFrames = len(values)
    found.Rows, found.Columns = values.shape[:2] if is_colour else values.shape[-2:]
    found.SamplesPerPixel = 3 if is_colour else 1
    if is_colour:
        found.PlanarConfiguration = 0
    found.PhotometricInterpretation = "RGB" if is_colour else "MONOCHROME2"
    found.BitsAllocated = 8 * values.dtype.itemsize
    found.BitsStored, found.HighBit = bits, bits - 1
    found.PixelRepresentation = int(values.dtype.kind == "i")
    found.PixelData = values.tobytes()
    for name, value in elements.items():
        if value is None:
            delattr(found, name)
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # Of invalid values.
                setattr(found, name, value)
    buffer = io.BytesIO()
    found.save_as(buffer, enforce_file_format=True)
    return buffer.getvalue()


def nifti(values, kind="Nifti1Image", display=(0, 1000), slope=None, **header):
    nibabel = pytest.importorskip("nibabel", reason="needs jaxrob[medical]")
    image = getattr(nibabel, kind)(values, np.eye(4))
    image.header["cal_min"], image.header["cal_max"] = display
    if slope is not None:
        image.header.set_slope_inter(*slope)
    return image.to_bytes()


def one(path, data, name="x.dcm", grey=True, **options):
    write_folder(path, {f"class/{name}": data})
    return image_folder(path, grey=grey, **options).images[0][..., 0]


def by_pydicom(data, index=None):
    """Returns the picture as pydicom shows it, in [0, 1]."""
    import pydicom
    from pydicom.pixels import apply_modality_lut, apply_voi_lut, pixel_array

    found = pydicom.dcmread(io.BytesIO(data))
    array = pixel_array(found, index=index)
    shown = apply_voi_lut(apply_modality_lut(array, found), found)
    most, least = 2.0**found.BitsStored - 1, 0.0
    if found.PixelRepresentation:
        most, least = (
            2.0 ** (found.BitsStored - 1) - 1,
            -(2.0 ** (found.BitsStored - 1)),
        )
    if found.get("VOILUTSequence"):
        most, least = 2.0 ** found.VOILUTSequence[0].LUTDescriptor[2] - 1, 0.0
    elif "RescaleSlope" in found:
        ends = least, most
        least, most = (
            end * float(found.RescaleSlope) + float(found.RescaleIntercept)
            for end in ends
        )
    shown = (shown - least) / (most - least)
    return 1 - shown if found.PhotometricInterpretation == "MONOCHROME1" else shown


@pytest.mark.parametrize(
    "elements",
    [
        WINDOW,
        RESCALED,
        RESCALED | {"VOILUTFunction": "LINEAR_EXACT"},
        RESCALED | {"VOILUTFunction": "SIGMOID"},
        RESCALED | {"PhotometricInterpretation": "MONOCHROME1"},
        RESCALED | {"WindowCenter": [300, 40], "WindowWidth": [2000, 1]},
        {"WindowCenter": 2000.5, "WindowWidth": 2},
    ],
)
def test_windows_are_those_of_pydicom(tmp_path, elements):
    signed = (CT.astype(np.int16) - 2048).astype(np.int16)
    for values in (CT, signed, np.uint8(CT >> 4)):
        bits = 8 if values.dtype == np.uint8 else 12
        data = dicom(values, bits=bits, **elements)
        found = one(tmp_path, data)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, by_pydicom(data), atol=1e-6)


def test_a_table_of_values_is_followed(tmp_path):
    data = dicom(CT)
    pydicom = pytest.importorskip("pydicom", reason="needs jaxrob[medical]")
    found = pydicom.dcmread(io.BytesIO(data))
    table = pydicom.Dataset()
    table.add_new("LUTDescriptor", "US", [4096, 0, 10])
    table.add_new("LUTData", "US", np.sort(RNG.integers(0, 1024, 4096)).tolist())
    found.VOILUTSequence = [table]
    buffer = io.BytesIO()
    found.save_as(buffer)
    expected = by_pydicom(buffer.getvalue())
    np.testing.assert_allclose(one(tmp_path, buffer.getvalue()), expected, atol=1e-6)


def test_a_range_takes_the_place_of_the_window(tmp_path):
    hounsfield = CT * 1.5 - 1024
    expected = np.clip((hounsfield + 160) / 400, 0, 1)
    for elements in (RESCALED, {"RescaleSlope": 1.5, "RescaleIntercept": -1024}):
        found = one(tmp_path, dicom(CT, **elements), value_range=(-160, 240))
        np.testing.assert_allclose(found, expected, atol=1e-6)


def test_unused_bits_are_ignored(tmp_path):
    # Old files keep overlays there.
    data = dicom(CT | 0xA000, **RESCALED)
    np.testing.assert_array_equal(
        one(tmp_path, data), one(tmp_path, dicom(CT, **RESCALED))
    )


@pytest.mark.parametrize("syntax", ["ImplicitVRLittleEndian", "RLELossless"])
def test_transfer_syntaxes(tmp_path, syntax):
    expected = one(tmp_path, dicom(CT, **RESCALED))
    pydicom = pytest.importorskip("pydicom", reason="needs jaxrob[medical]")
    if syntax == "RLELossless":
        found = pydicom.dcmread(io.BytesIO(dicom(CT, **RESCALED)))
        found.compress(pydicom.uid.RLELossless)
        buffer = io.BytesIO()
        found.save_as(buffer)
        data = buffer.getvalue()
    else:
        data = dicom(CT, getattr(pydicom.uid, syntax), **RESCALED)
    np.testing.assert_array_equal(one(tmp_path, data), expected)


def encapsulated(frame, values, **elements):
    """Returns a file whose pixels are a JPEG."""
    pydicom = pytest.importorskip("pydicom", reason="needs jaxrob[medical]")
    pixels = pydicom.encaps.encapsulate([frame])
    syntax = pydicom.uid.JPEGBaseline8Bit
    data = dicom(values, bits=8, **elements)
    found = pydicom.dcmread(io.BytesIO(data))
    found.file_meta.TransferSyntaxUID = syntax
    found.PixelData = pixels
    found["PixelData"].VR = "OB"
    buffer = io.BytesIO()
    found.save_as(buffer, enforce_file_format=True)
    return buffer.getvalue()


def test_jpeg_in_dicom(tmp_path):
    grey = np.uint8(CT >> 4)
    buffer = io.BytesIO()
    Image.fromarray(grey).save(buffer, "JPEG", quality=95)
    expected = np.asarray(Image.open(buffer), np.float32) / 255
    data = encapsulated(buffer.getvalue(), grey)
    found = one(tmp_path, data, value_range=(0, 255))
    np.testing.assert_allclose(found, expected, atol=1e-6)
    # The frame has another size than the header.
    big = io.BytesIO()
    Image.new("L", (5000, 5000)).save(big, "JPEG")
    with pytest.raises(ValueError, match="x.dcm: .*6x9 pixels, its frame 5000x5000"):
        one(tmp_path, encapsulated(big.getvalue(), grey), value_range=(0, 255))
    with pytest.raises(ValueError, match="x.dcm: not a readable"):
        one(tmp_path, encapsulated(b"garbage", grey), value_range=(0, 255))


def test_colours(tmp_path):
    rgb = RNG.integers(0, 256, (5, 7, 3), dtype=np.uint8)
    write_folder(tmp_path, {"class/x.dcm": dicom(rgb, bits=8)})
    found = image_folder(tmp_path).images[0]
    np.testing.assert_array_equal(found, np.float32(rgb / 255))


BAD = {
    "has no WindowCenter": {},
    "has no WindowWidth": {"WindowCenter": 4},
    "WindowWidth is 0": RESCALED | {"WindowWidth": 0},
    "WindowWidth is 0.5": RESCALED | {"WindowWidth": 0.5},
    "WindowWidth is -4": RESCALED
    | {"WindowWidth": -4, "VOILUTFunction": "LINEAR_EXACT"},
    "WindowCenter is .*nan": RESCALED | {"WindowCenter": float("nan")},
    "VOILUTFunction is CUBIC": RESCALED | {"VOILUTFunction": "CUBIC"},
    "RescaleSlope is 0": RESCALED | {"RescaleSlope": 0},
    "RescaleIntercept is .*inf": RESCALED | {"RescaleIntercept": float("inf")},
    "no pixel data": RESCALED | {"PixelData": None},
    "HighBit": RESCALED | {"HighBit": 15},
    "13 of 12 bits|use 17 of 16": RESCALED | {"BitsStored": 17},
    "PhotometricInterpretation": RESCALED
    | {"PhotometricInterpretation": "PALETTE COLOR"},
    "pixels need 108000": RESCALED | {"Rows": 6000},
    "at most 178956970": RESCALED | {"Rows": 65535, "Columns": 65535},
    "frames": RESCALED | {"NumberOfFrames": 0},
}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("message", BAD)
def test_bad_dicom_files_are_named(tmp_path, message):
    with pytest.raises(ValueError, match=f"class/x.dcm: .*({message})"):
        one(tmp_path, dicom(CT, **BAD[message]))


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_truncated_dicom_files_are_named(tmp_path):
    data = dicom(CT, **RESCALED)
    for length in range(0, len(data), 7):
        with pytest.raises(ValueError, match="class/x.dcm: "):
            one(tmp_path, data[:length])


@pytest.mark.filterwarnings("ignore")
def test_damaged_dicom_files_raise_nothing_else(tmp_path):
    data = dicom(CT, **RESCALED)
    for _ in range(300):
        damaged = bytearray(data)
        for at in RNG.integers(128, len(data), 3):
            damaged[at] = RNG.integers(256)
        try:
            found = one(tmp_path, bytes(damaged))
        except ValueError as error:
            assert "class/x.dcm: " in str(error)
        else:
            assert np.isfinite(found).all() and 0 <= found.min() <= found.max() <= 1


def test_deflated_files_are_refused(tmp_path):
    pydicom = pytest.importorskip("pydicom", reason="needs jaxrob[medical]")
    data = dicom(CT, pydicom.uid.DeflatedExplicitVRLittleEndian, **RESCALED)
    with pytest.raises(ValueError, match="class/x.dcm: .*deflated.*dcmconv"):
        one(tmp_path, data)


def test_frames(tmp_path):
    frames = RNG.integers(0, 4096, (5, 6, 9), dtype=np.uint16)
    data = dicom(frames, **RESCALED)
    with pytest.raises(ValueError, match=r"5 frames: pass slice_at=\(0, index\)"):
        one(tmp_path, data)
    with pytest.raises(ValueError, match=r"slice_at=\(0, 5\).* it has 5"):
        one(tmp_path, data, slice_at=(0, 5))
    expected = np.stack([by_pydicom(data, index) for index in range(5)])
    found = one(tmp_path, data, slice_at=(0, 3))
    np.testing.assert_allclose(found, expected[3], atol=1e-6)
    some = slices(
        tmp_path / "class" / "x.dcm", indices=[4, 0], labels=[1, 0], grey=True
    )
    np.testing.assert_allclose(some.images[..., 0], expected[[4, 0]], atol=1e-6)
    assert some.labels.tolist() == [1, 0]


@pytest.mark.parametrize("kind", ["Nifti1Image", "Nifti2Image"])
@pytest.mark.parametrize("dtype", ["u1", "i2", "f4", ">i2"])
@pytest.mark.parametrize("name", ["x.nii", "x.nii.gz"])
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
    with pytest.raises(ValueError, match="x.nii: .*cal_min.*value_range"):
        one(tmp_path, nifti(values, display=(0, 0)), "x.nii", slice_at=(2, 0))
    with pytest.raises(ValueError, match=r"slice_at=\(2, 6\).* has 6 slices"):
        one(tmp_path, nifti(values), "x.nii", slice_at=(2, 6))
    four = np.zeros((2, 2, 2, 2), np.float32)
    with pytest.raises(ValueError, match=r"its shape is \(2, 2, 2, 2\)"):
        one(tmp_path, nifti(four), "x.nii", slice_at=(2, 0))
    with pytest.raises(ValueError, match="x.nii: .* NaN"):
        one(tmp_path, nifti(values * np.float32(np.nan)), "x.nii", slice_at=(2, 0))
    with pytest.raises(ValueError, match="are complex64"):
        one(tmp_path, nifti(np.ones((2, 2, 2), "c8")), "x.nii", slice_at=(2, 0))
    whole = nifti(values)
    for name, data in (("x.nii", whole), ("x.nii.gz", gzip.compress(whole))):
        for length in range(0, len(data), 5):
            with pytest.raises(ValueError, match=f"class/{name}: "):
                one(tmp_path / name, data[:length], name, slice_at=(2, 0))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_damaged_nifti_files_raise_nothing_else(tmp_path):
    data = nifti(np.arange(60, dtype=np.int16).reshape(3, 4, 5))
    for _ in range(300):
        damaged = bytearray(data)
        for at in RNG.integers(0, 352, 3):
            damaged[at] = RNG.integers(256)
        try:
            found = one(tmp_path, bytes(damaged), "x.nii", slice_at=(2, 0))
        except ValueError as error:
            assert "class/x.nii: " in str(error)
        else:
            assert np.isfinite(found).all() and 0 <= found.min() <= found.max() <= 1


def test_arguments_of_slices(tmp_path):
    path = tmp_path / "x.nii"
    path.write_bytes(nifti(np.zeros((4, 5, 6), np.int16)))
    assert slices(path, size=(7, 8)).images.shape == (6, 7, 8, 3)
    with pytest.raises(ValueError, match="axis must"):
        slices(path, 3)
    with pytest.raises(ValueError, match="indices must"):
        slices(path, 0, [4])
    with pytest.raises(ValueError, match="path must end in"):
        slices(tmp_path / "x.png")
    with pytest.raises(FileNotFoundError):
        slices(tmp_path / "y.nii")
    with pytest.raises(ValueError, match="slice_at"):
        image_folder(tmp_path, slice_at=(3, 0))
