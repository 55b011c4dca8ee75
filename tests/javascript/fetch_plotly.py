"""``make plotly``: fetches the plotly.js for our own figures, in the version of plotly.py's own.

npm checks what it fetches. The bundle has the charts of two axes alone, and is kept compressed, so
that it takes half a megabyte here and 1.5 in a page, where all of plotly.js takes 4.8.
"""

import gzip
import subprocess
import tarfile
import tempfile
from pathlib import Path

from plotly.offline import get_plotlyjs_version

WEB = Path(__file__).parents[2] / "loaderviz" / "web"


def main() -> None:
    package = f"plotly.js-cartesian-dist-min@{get_plotlyjs_version()}"
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["npm", "pack", "--silent", package], cwd=folder, check=True)
        (archive,) = Path(folder).glob("*.tgz")
        with tarfile.open(archive) as tar:
            files = {
                name: tar.extractfile(f"package/{name}").read()
                for name in ("plotly-cartesian.min.js", "LICENSE")
            }
    for old in WEB.glob("plotly-*.min.js.gz"):
        old.unlink()
    bundle = WEB / f"plotly-{get_plotlyjs_version()}.min.js.gz"
    bundle.write_bytes(gzip.compress(files["plotly-cartesian.min.js"], mtime=0))
    (WEB / "plotly-LICENSE.txt").write_bytes(files["LICENSE"])
    print(f"{bundle}: {bundle.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
