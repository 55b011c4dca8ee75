"""What each Python process of a ``loaderviz run`` begins with.

It waits for torch's DataLoader to be imported, which costs next to nothing where it never is, and
runs the user's own sitecustomize, where there is one. Python imports this file because its folder
is first on PYTHONPATH (docs.python.org, module ``site``). Its syntax is plain, because a script may
start Pythons of any version.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # typing takes longer to import than all that is done here
if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from typing import Any

_HERE = os.path.dirname(os.path.abspath(__file__))
_PACKAGE = os.path.dirname(os.path.dirname(_HERE))  # the loaderviz that this run uses
_LOADER_MODULE = "torch.utils.data.dataloader"


class _Finder:
    """Arms torch's module when it is imported, and finds loaderviz whatever sys.path is."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """As importlib's finders do; None for every other module."""
        if name == "loaderviz":
            from importlib.util import spec_from_file_location

            init = os.path.join(_PACKAGE, "__init__.py")
            return spec_from_file_location(name, init, submodule_search_locations=[_PACKAGE])
        if name != _LOADER_MODULE:
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(name, path, target)
            if spec is not None:
                _arm_after_import(spec)
                return spec
        return None


def _arm_after_import(spec: ModuleSpec) -> None:
    """Put the trigger into the module as soon as it has been executed."""
    loader: Any = spec.loader
    execute = loader.exec_module

    def exec_module(module: Any) -> None:
        del loader.exec_module  # from now on the method of its class again
        execute(module)
        try:
            from loaderviz._run.start_at_first_loader import arm
        except (AttributeError, ImportError, SyntaxError, TypeError) as error:  # of an old Python
            text = "loaderviz: this process is not recorded: {}: {}\n"
            sys.stderr.write(text.format(type(error).__name__, error))
        else:
            arm(module)

    loader.exec_module = exec_module


def _write_message_at_exit() -> None:
    """Register the final message before all else: then it comes last, when all has ended."""
    import atexit

    first_pid = os.getpid()

    def write_message() -> None:
        if os.getpid() == first_pid:  # not in a forked child
            from loaderviz._run.script_process import write_message as write

            write()

    atexit.register(write_message)


def _run_the_users() -> None:
    """Import the user's own sitecustomize, if there is one, as if this folder were not there."""
    from importlib.machinery import PathFinder

    sys.path[:] = [path for path in sys.path if os.path.abspath(path) != _HERE]
    spec = PathFinder.find_spec("sitecustomize")
    if spec is not None and spec.loader is not None:
        from importlib.util import module_from_spec

        module = module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


if "LOADERVIZ_RUN" in os.environ:
    sys.meta_path.insert(0, _Finder())
    if os.environ.pop("LOADERVIZ_RUN_FIRST", ""):
        _write_message_at_exit()
_run_the_users()
