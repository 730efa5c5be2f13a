"""`.keras` files, read without executing their code."""

import io
import math
import pathlib
import re
import zipfile
from typing import Any

from jaxrob._arguments.checks import checked_path
from jaxrob._arguments.extra import install, required
from jaxrob._files.regular import most_unpacked, open_file

# The first version whose safe mode never executes a file's code.
_SAFE_VERSION = (3, 11, 3)
_PARTS = ("config.json", "metadata.json", "model.weights.h5")
_MAX_BYTES = 4 << 30


def load_keras(keras: Any, path: Any) -> Any:
    """Loads the model of a `.keras` file, in Keras's safe mode."""
    path = checked_path("model", path)
    if path.suffix != ".keras":
        raise ValueError(
            f"{path}: only .keras files are read; got {path.suffix!r}. Files of .h5, "
            "saved models and pickles may run code as they are loaded: load it "
            "yourself, and pass the model"
        )
    version = tuple(map(int, re.findall(r"\d+", keras.__version__)[:3]))
    if version < _SAFE_VERSION:
        raise ValueError(
            f"{path}: Keras {keras.__version__} may run code of a file in spite of its "
            f"safe mode; 3.11.3 and later do not: {install('keras')}"
        )
    _check_archive(path)
    try:
        return keras.saving.load_model(path, compile=False, safe_mode=True)
    except Exception as error:  # Damaged files raise errors of all kinds in Keras.
        raise ValueError(f"{path}: Keras cannot read it safely: {error}") from error


def _check_archive(path: pathlib.Path) -> None:
    with open_file(path) as file:
        size = file.seek(0, io.SEEK_END)
        try:
            with zipfile.ZipFile(file) as archive:
                members = archive.infolist()
                weights = archive.getinfo(_PARTS[-1])
                total = sum(member.file_size for member in members)
                if total > min(most_unpacked(size), _MAX_BYTES):
                    raise ValueError(f"it claims to unpack to {total} bytes")
                names = [member.filename for member in members]
                if not set(_PARTS) <= set(names) or len(set(names)) < len(names):
                    raise ValueError(f"it must hold {', '.join(_PARTS)}, each once")
                _check_weights(archive.read(weights))
        except (zipfile.BadZipFile, KeyError, OSError, RuntimeError) as error:
            raise ValueError(f"{path}: not a .keras file: {error}") from error
        except ValueError as error:
            raise ValueError(f"{path}: not a .keras file to read: {error}") from error


def _check_weights(weights: bytes) -> None:
    """Rejects weights in other files, or of a claimed size far above the file's."""
    total, most = 0, min(most_unpacked(len(weights)), _MAX_BYTES)
    h5py = required("h5py", "reading .keras files", "keras")  # Keras needs it too.
    with h5py.File(io.BytesIO(weights), "r") as file:
        groups, seen = [file], set()
        while groups:
            group = groups.pop()
            if (address := h5py.h5o.get_info(group.id).addr) in seen:
                continue
            seen.add(address)
            for name in group:
                if not isinstance(group.get(name, getlink=True), h5py.HardLink):
                    raise ValueError(f"its weights hold a link, {name!r}")
                member = group[name]
                if isinstance(member, h5py.Group):
                    groups.append(member)
                elif isinstance(member, h5py.Dataset) and (
                    member.external or member.is_virtual
                ):
                    raise ValueError(f"its weights {name!r} lie in another file")
                elif isinstance(member, h5py.Dataset):
                    total += math.prod(member.shape or ()) * member.dtype.itemsize
                    if total > most:
                        raise ValueError(f"its weights claim to have {total} bytes")
