"""The command line in this process: what a command prints, and how it ends."""

import sys
from types import SimpleNamespace

import pytest

from loaderviz import cli


@pytest.fixture
def loaderviz(monkeypatch, capsys):
    """Runs a command: ``loaderviz("summary", path)`` has ``code``, ``out`` and ``err``."""

    def run(*args):
        monkeypatch.setattr(sys, "argv", ["loaderviz", *map(str, args)])
        monkeypatch.setattr(sys, "path", list(sys.path))
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            cli.main()
        said = capsys.readouterr()
        return SimpleNamespace(code=ended.value.code or 0, out=said.out, err=said.err)

    return run
