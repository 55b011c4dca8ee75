"""What each Python process of a ``loaderviz run`` begins with.

It waits for torch's DataLoader to be imported, which costs next to nothing where it never is, and
then does what a sitecustomize of the user's own does. Python imports it because its folder is first
on PYTHONPATH (docs.python.org, module ``site``). Pythons of all
ages may meet it: the syntax is plain.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # typing takes longer to import than all that is done here
if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from typing import Any

_HERE = os.path.dirname(os.path.abspath(__file__))
_HOME = os.path.dirname(os.path.dirname(_HERE))  # of the loaderviz that this run uses
_LOADER = "torch.utils.data.dataloader"


class _Finder:
    """Sees torch's module come, and finds loaderviz whatever the script does to sys.path."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name == "loaderviz":
            from importlib.util import spec_from_file_location

            init = os.path.join(_HOME, "__init__.py")
            return spec_from_file_location(name, init, submodule_search_locations=[_HOME])
        if name != _LOADER:
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(name, path, target)
            if spec is not None:
                _then_arm(spec)
                return spec
        return None


def _then_arm(spec: ModuleSpec) -> None:
    loader: Any = spec.loader
    execute = loader.exec_module

    def exec_module(module: Any) -> None:
        del loader.exec_module  # as it was
        execute(module)
        try:
            from loaderviz._run.start_at_first_loader import trigger

            trigger.arm(module.DataLoader)
        except Exception as error:
            text = "loaderviz: this process is not recorded: {}: {}\n"
            sys.stderr.write(text.format(type(error).__name__, error))

    loader.exec_module = exec_module


def _tell_at_the_end() -> None:
    """Registered before all else, so it runs last: the script and its children have ended."""
    import atexit

    first = os.getpid()

    def tell() -> None:
        if os.getpid() == first:  # not in a forked child
            from loaderviz._run.final_message import tell

            tell()

    atexit.register(tell)


def _be_the_users() -> None:
    """As if this folder were not there: its sitecustomize, if it has one, in place of this."""
    from importlib.machinery import PathFinder

    sys.path[:] = [each for each in sys.path if os.path.abspath(each) != _HERE]
    spec = PathFinder.find_spec("sitecustomize")
    if spec is not None and spec.loader is not None:
        from importlib.util import module_from_spec

        module = module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


if "LOADERVIZ_RUN" in os.environ:
    sys.meta_path.insert(0, _Finder())
    if os.environ.pop("LOADERVIZ_RUN_FIRST", ""):
        _tell_at_the_end()
_be_the_users()
