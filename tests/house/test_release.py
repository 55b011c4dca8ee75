"""What is published says the same everywhere, and the wheel is made of what users need."""

import re
import zipfile
from pathlib import Path

import pytest
import yaml
from hatchling.builders.wheel import WheelBuilder

import loaderviz

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The names of the files in a wheel that is made now."""
    folder = tmp_path_factory.mktemp("wheel")
    (path,) = WheelBuilder(str(ROOT)).build(directory=str(folder), versions=["standard"])
    return zipfile.ZipFile(path).namelist()


def test_the_version_is_that_of_the_changes_and_the_citation():
    changes = (ROOT / "CHANGELOG.md").read_text()
    assert re.search(r"^## (\S+)", changes, re.MULTILINE).group(1) == loaderviz.__version__
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == loaderviz.__version__


def test_a_wheel_holds_the_notebooks_with_their_pictures(wheel):
    for path in (ROOT / "notebooks").glob("*.ipynb"):
        assert f"loaderviz/_notebooks/{path.name}" in wheel
    assert "loaderviz/_notebooks/images/marks.svg" in wheel


def test_a_wheel_holds_every_script_style_and_page_of_the_package(wheel):
    for kind in ("js", "css", "html", "js.gz", "typed"):
        for path in (ROOT / "loaderviz").rglob(f"*.{kind}"):
            assert path.relative_to(ROOT).as_posix() in wheel


def test_a_wheel_holds_nothing_else(wheel):
    rooms = {name.split("/")[0] for name in wheel}
    assert rooms == {"loaderviz", f"loaderviz-{loaderviz.__version__}.dist-info"}
    assert not [name for name in wheel if "__pycache__" in name or "checkpoint" in name]
