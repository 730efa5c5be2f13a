r"""Draws README's picture of a report: the first page on a screen.

    python docs/report_picture.py
    python docs/report_picture.py FILE.png

It assesses a small network on the embedded digits, writes its report, and takes a
picture of it with Chromium or Chrome, which must be installed. The picture holds a
digest of the code that makes the page, so that a test finds one that is older.
"""

import hashlib
import pathlib
import shutil
import subprocess
import sys
import tempfile

from PIL import Image, PngImagePlugin

_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
_ROOT = pathlib.Path(__file__).resolve().parents[1]
_MAKERS = ("report.css", "sentences.toml")
_WIDTH, _HEIGHT = 1100, 1000
PICTURE = _ROOT / "experiments/figures/report.png"
KEY = "makers"  # The name of the digest in the file.


def main(path: pathlib.Path) -> None:
    """Draws the picture."""
    browser = next(filter(None, map(shutil.which, _BROWSERS)), None)
    if browser is None:
        raise SystemExit(f"a browser is needed, one of {', '.join(_BROWSERS)}")
    with tempfile.TemporaryDirectory() as folder:
        page = pathlib.Path(folder, "report.html")
        asked = f"--output={folder}/results", f"--report={page}", "--noprogress"
        who = "--tester=A. Tester", "--organisation=An organisation"
        done = subprocess.run(
            [sys.executable, "-m", "jaxrob", "assess", "--require=robustness.low>=0.3"]
            + [*asked, *who],
            check=False,
        )
        # 1: a requirement is not met, as it is meant.
        if done.returncode not in (0, 1):
            raise SystemExit(done.returncode)
        shot = pathlib.Path(folder, "shot.png")
        subprocess.run(
            [browser, "--headless", "--no-sandbox", "--hide-scrollbars"]
            + [f"--window-size={_WIDTH},{_HEIGHT}", f"--screenshot={shot}"]
            + [page.as_uri()],
            check=True,
        )
        notes = PngImagePlugin.PngInfo()
        notes.add_text(KEY, makers_digest())
        with Image.open(shot) as image:
            image.convert("P", palette=Image.Palette.ADAPTIVE).save(
                path, pnginfo=notes, optimize=True
            )
    print(f"wrote {path}")


def makers_digest() -> str:
    """Returns the SHA-256 of the files that say what the page looks like."""
    folder = _ROOT / "jaxrob/reporting/_report"
    content = [(folder / name).read_bytes() for name in _MAKERS]
    return hashlib.sha256(b"\0".join(content)).hexdigest()


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURE)
