"""The public names: all there, all documented, and free until they are used."""

import re
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


@pytest.fixture(scope="module")
def told():
    """What one new process, which has imported torch, says of its imports, line by line."""
    code = """
        import torch
        import gc, importlib, importlib.util as util, sys
        before, older = set(sys.modules), []
        gc.callbacks.append(lambda phase, told: older.append(told["generation"] > 0))
        import loaderviz
        loaderviz.record
        print(any(older), gc.isenabled())
        import loaderviz.recorder
        heavy = {"plotly", "pandas", "pyarrow", "ipywidgets", "anywidget", "PIL"}
        heavy |= {"pytorch_lightning", "transformers"}
        print(sorted(heavy & (set(sys.modules) - before)))
        gc.disable()
        importlib.reload(loaderviz.recorder)
        print(gc.isenabled())
        print(loaderviz.figures.causes.__name__)

        def ask(name):
            try:
                getattr(loaderviz, name)
            except loaderviz.LoaderVizError as error:
                print(error)

        find_spec = util.find_spec
        for absent in ("ipywidgets", "anywidget"):
            util.find_spec = lambda name, *more: None if name == absent else find_spec(name, *more)
            sys.modules[absent] = None
            loaderviz.timeline, loaderviz.recommend
            ask("explore")
            del sys.modules[absent]
        util.find_spec = lambda *_: None
        ask("lightning")
        ask("transformers")
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def test_nothing_heavy_is_imported_until_it_is_used_and_no_collection_is_made_meanwhile(told):
    """One that became due would be made by every forked worker anew, 0.1 s each."""
    assert told[:4] == ["False True", "[]", "False", "causes"]


def test_without_a_library_what_needs_it_says_what_to_install(told):
    assert told[4:6] == [
        f"controls need {absent}, which is not installed: pip install 'loaderviz[notebook]'"
        for absent in ("ipywidgets", "anywidget")
    ]
    for library, error in zip(("lightning", "transformers"), told[6:], strict=True):
        assert re.search(rf"which is not installed: pip install '?{library}", error)
