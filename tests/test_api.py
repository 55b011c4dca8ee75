"""The public names: all there, all documented, and free until they are used."""

import subprocess
import sys
import textwrap

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


def printed_by(code):
    """Of a process of its own, which has imported torch."""
    code = "import torch\n" + textwrap.dedent(code)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_nothing_heavy_is_imported_until_it_is_used_and_no_collection_is_made_meanwhile():
    """One that became due would be made by every forked worker anew, 0.1 s each."""
    code = """
        import gc, sys
        before, older = set(sys.modules), []
        gc.callbacks.append(lambda phase, told: older.append(told["generation"] > 0))
        import loaderviz
        loaderviz.record
        print(any(older), gc.isenabled())
        import loaderviz.recorder
        heavy = {"plotly", "pandas", "pyarrow", "ipywidgets", "anywidget", "PIL"}
        print(sorted(heavy & (set(sys.modules) - before)))
        gc.disable()
        import importlib
        importlib.reload(loaderviz.recorder)
        print(gc.isenabled())
        print(loaderviz.figures.causes.__name__)
    """
    assert printed_by(code) == ["False True", "[]", "False", "causes"]


def test_without_the_widgets_what_needs_them_says_what_to_install():
    code = """
        import importlib.util as util, sys
        find_spec = util.find_spec
        import loaderviz
        for absent in ("ipywidgets", "anywidget"):
            util.find_spec = lambda name, *more: None if name == absent else find_spec(name, *more)
            sys.modules[absent] = None
            loaderviz.timeline, loaderviz.recommend
            try:
                loaderviz.explore
            except loaderviz.LoaderVizError as error:
                print(error)
            del sys.modules[absent]
    """
    assert printed_by(code) == [
        f"controls need {absent}, which is not installed: pip install 'loaderviz[notebook]'"
        for absent in ("ipywidgets", "anywidget")
    ]
