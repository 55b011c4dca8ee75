"""House rules that can be read from the source: names of files, what notebooks may use, torch."""

import ast
import json
import re
from collections import Counter
from pathlib import Path

import pytest
from torch.utils.data import DataLoader, dataloader

import loaderviz
from loaderviz.recorder import dataloader_hooks

ROOT = Path(loaderviz.__file__).parent
MODULES = sorted(ROOT.rglob("*.py"))
NOTEBOOKS = sorted((ROOT.parent / "notebooks").glob("*.ipynb"))
# Rooms whose names, as they are imported from the room itself, are for everybody.
PUBLIC = ("course.datasets", "course", "course.figures", "widgets")
# Each class of torch's that is watched, and what it keeps for itself.
ITERATORS = (
    dataloader._BaseDataLoaderIter,
    dataloader._SingleProcessDataLoaderIter,
    dataloader._MultiProcessingDataLoaderIter,
)


def test_each_module_has_a_name_of_its_own():
    """But a command and the room that does what it says."""
    doubles = Counter(path.name for path in MODULES if path.parent.name != "cli")
    assert [name for name, n in doubles.items() if n > 1 and name != "__init__.py"] == []


def test_no_module_has_a_name_that_says_nothing():
    nothing = {"settings", "run", "words", "ranks", "log", "utils", "common", "helpers", "misc"}
    stems = {path.stem for path in MODULES if path.parent.name != "cli"}
    assert stems & nothing == set()


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_use_what_is_public(path):
    cells = json.loads(path.read_text("utf-8"))["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    lines = [re.sub(r"^(\s*)[%!].*", r"\1pass", each, flags=re.MULTILINE) for each in code]
    imported = [
        node
        for node in ast.walk(ast.parse("\n".join(lines)))
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "loaderviz"
    ]
    for node in imported:
        room = node.module.removeprefix("loaderviz").removeprefix(".")
        assert not room or room.startswith(PUBLIC), node.module
        assert not re.search(r"(^|\.)_", room), node.module
        for each in node.names:
            assert not each.name.startswith("_"), each.name


def private_parts() -> set[str]:
    """Names that torch's DataLoader and its iterators keep for themselves."""
    names = {*vars(DataLoader)}
    for cls in (DataLoader, *ITERATORS):
        names |= {*vars(cls)}
        for value in vars(cls).values():
            names |= {*getattr(getattr(value, "__code__", None), "co_names", ())}
    return {name for name in names if re.match(r"_(?!_)", name)} - {"_utils"}


def names_in(path: Path) -> set[str]:
    """Of attributes, and texts that may be such: what this module touches of objects."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Attribute):
            names.add(node.attr)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            names.add(node.value)
    return names


def test_the_recorder_checks_for_every_private_part_that_it_touches():
    checked = {name for _, name in dataloader_hooks._NEEDED_ATTRIBUTES}
    checked |= {name for *_, names in dataloader_hooks._NEEDED_OF_INSTANCES for name in names}
    paths = [*(ROOT / "recorder").glob("*.py"), *(ROOT / "loaders").glob("*.py")]
    touched = {name for path in paths for name in names_in(path)}
    classes = {cls.__name__ for cls in ITERATORS} | {"_DatasetKind"}
    assert (touched & private_parts()) - checked - classes == set()


def test_torch_s_private_parts_are_touched_where_loaders_are_handled_and_nowhere_else():
    private = private_parts()
    assert {"_get_iterator", "_index_sampler", "_try_put_index", "_workers"} <= private
    touched = {}
    for path in MODULES:
        room = path.relative_to(ROOT).parts[0]
        if room in ("recorder", "loaders"):
            continue
        text = path.read_text("utf-8")
        if private.isdisjoint(re.findall(r"\w+", text)):  # most: they need not be parsed
            continue
        for node in ast.walk(ast.parse(text)):
            name = node.attr if isinstance(node, ast.Attribute) else None
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                name = node.value
            if name not in private:
                continue
            if not (isinstance(node, ast.Attribute) and ast.unparse(node.value) in ("self", "cls")):
                touched.setdefault(str(path.relative_to(ROOT)), set()).add(name)
    assert touched == {}


def test_where_training_runs_no_error_is_swallowed_by_its_class_alone():
    """But by ``own_errors``; or it goes on, or nobody else raises it."""
    of_nobody_else = {"NoRoomError", "NoIntegersError", "GeneratorExit", "StopIteration"}
    swallowed = {}
    for path in (*(ROOT / "recorder").glob("*.py"), ROOT / "spool.py", ROOT / "record_layout.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ExceptHandler) and node.type:
                kind = ast.unparse(node.type)
                goes_on = any(isinstance(each, ast.Raise) for each in ast.walk(node))
                goes_on |= ".throw" in ast.unparse(node)  # into the user's own generator
                if not (kind.startswith("own_errors(") or kind in of_nobody_else or goes_on):
                    swallowed[path.name, node.lineno] = kind
            elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("suppress"):
                swallowed[path.name, node.lineno] = ast.unparse(node)
    assert swallowed == {}


def imported(path: Path) -> set[str]:
    """Modules of ours that this one imports when it runs, wherever in it that is written."""
    tree = ast.parse(path.read_text("utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body = []
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom):
            inner = {f"{node.module}.{each.name}" for each in node.names}
            names |= inner & NAMES.keys() or {node.module}
    return names & NAMES.keys()


NAMES = {
    ".".join(path.relative_to(ROOT.parent).with_suffix("").parts).removesuffix(".__init__"): path
    for path in MODULES
}


def test_no_module_imports_one_that_imports_it():
    above = {name: imported(path) - {name} for name, path in NAMES.items()}
    for middle in NAMES:  # Warshall's transitive closure
        for below in above.values():
            if middle in below:
                below |= above[middle]
    assert [name for name, reached in above.items() if name in reached] == []
