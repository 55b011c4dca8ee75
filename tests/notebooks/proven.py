"""Writes copies of the notebooks for nbval, with the proofs of what their text claims.

    python tests/notebooks/proven.py build/notebooks notebooks/*.ipynb

A reader of a notebook sees no proof: each is a cell in proofs/NAME.py, below a line that says
after which cell of NAME.ipynb it runs and what it proves::

    # %% after 3c5f0a1d: two workers take turns

With TWICE=1 a copy has all cells twice: *Run All* again, in the same kernel.
"""

import os
import re
import sys
from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell

PROOFS = Path(__file__).parent / "proofs"
HEAD = re.compile(r"^# %% after (\S+): (.+)$", re.MULTILINE)


def proofs_of(name: str) -> list[tuple[str, str, str]]:
    """The cell after which each proof runs, what it proves, and its code."""
    path = PROOFS / f"{name}.py"
    parts = HEAD.split(path.read_text("utf-8"))[1:] if path.exists() else []
    return list(zip(parts[::3], parts[1::3], map(str.strip, parts[2::3]), strict=True))


def proven(path: Path, times: int = 1) -> nbformat.NotebookNode:
    """The notebook with its proofs among its cells, so many times over."""
    notebook = nbformat.read(path, as_version=4)
    proofs = proofs_of(path.stem)
    if unknown := {at for at, *_ in proofs} - {cell.id for cell in notebook.cells}:
        raise SystemExit(f"{PROOFS / path.stem}.py: no cell has the id {', '.join(unknown)}")
    cells = []
    for cell in notebook.cells:
        cells.append(cell)
        for at, what, code in proofs:
            if at == cell.id:
                cells.append(new_code_cell(f"# Proof: {what}\n{code}"))
    again = [
        nbformat.from_dict({**cell, "id": f"{cell.id}-{time}"})
        for time in range(1, times)
        for cell in cells
    ]
    notebook.cells = [*cells, *again]
    return notebook


def main() -> None:
    folder, *paths = map(Path, sys.argv[1:])
    folder.mkdir(parents=True, exist_ok=True)
    times = 2 if os.environ.get("TWICE") else 1
    for path in paths:
        nbformat.write(proven(path, times), folder / path.name)
        for beside in ("images", "recordings"):
            if not (folder / beside).exists():
                (folder / beside).symlink_to((path.parent / beside).resolve())


if __name__ == "__main__":
    main()
