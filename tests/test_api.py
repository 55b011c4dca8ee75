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


def test_what_a_recording_needs_is_imported_without_a_collection_of_all_objects():
    """One that became due would be made by every forked worker anew, 0.1 s each."""
    code = """
import gc, torch
older = []
gc.callbacks.append(lambda phase, told: older.append(told["generation"] > 0))
import loaderviz
loaderviz.record
print(any(older), gc.isenabled())
gc.disable()
import importlib
importlib.reload(loaderviz.recorder)
print(gc.isenabled())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True", "False"]


@pytest.mark.parametrize("absent", ["ipywidgets", "anywidget"])
def test_without_the_widgets_what_needs_them_says_what_to_install(absent):
    code = f"""
        import importlib.util as util, sys
        find_spec = util.find_spec
        util.find_spec = lambda name, *more: None if name == {absent!r} else find_spec(name, *more)
        sys.modules[{absent!r}] = None
        import loaderviz
        loaderviz.timeline, loaderviz.recommend
        try:
            loaderviz.explore
        except loaderviz.LoaderVizError as error:
            print(error)
    """
    code = "\n".join(line[8:] for line in code.splitlines())
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == (
        f"controls need {absent}, which is not installed: pip install 'loaderviz[notebook]'\n"
    )
