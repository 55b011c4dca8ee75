"""The public names: all there, all documented, and free until they are used."""

import subprocess
import sys

import pytest

import loaderviz


@pytest.mark.parametrize("name", loaderviz.__all__)
def test_every_public_name_says_what_it_does(name):
    value = getattr(loaderviz, name)
    assert name in dir(loaderviz)
    first, *rest = value.__doc__.strip().splitlines()
    assert first
    assert first[-1] in ".:"
    if callable(value) and not isinstance(value, type):
        assert any("Raises:" in line for line in rest), "what is raised, and why"


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'tmieline'"):
        loaderviz.tmieline  # noqa: B018


def test_figures_need_no_import_of_their_own():
    code = "import loaderviz; print(loaderviz.figures.causes.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "causes"


def test_nothing_heavy_is_imported_until_it_is_used():
    heavy = "{'plotly', 'pandas', 'pyarrow', 'ipywidgets', 'anywidget', 'PIL'}"
    code = f"import sys, torch; before = set(sys.modules); import loaderviz, loaderviz.recorder; \
        print(sorted({heavy} & (set(sys.modules) - before)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
