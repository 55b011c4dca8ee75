"""``make site``: runs the notebooks and makes a page of each, and an index of them, in ``site/``.

The pages need no kernel and no network. Their figures answer to the mouse; a widget is shown as it
was at first, and says that its controls need JupyterLab.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbconvert import HTMLExporter
from nbformat.v4 import new_markdown_cell, new_notebook
from plotly.offline import get_plotlyjs
from traitlets.config import Config

ROOT = Path(__file__).parents[1]
HERE = ROOT / "pages"
NOTEBOOKS = ROOT / "notebooks"
CELL_S = 180

LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s]+)\)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("notebooks", nargs="*", type=Path, help="all of them, unless named")
    parser.add_argument("--into", type=Path, default=ROOT / "site")
    given = parser.parse_args()
    paths = given.notebooks or sorted(NOTEBOOKS.glob("*.ipynb"))
    furnish(given.into)
    os.environ["TQDM_DISABLE"] = "1"  # a progress bar is no part of a page
    for path in paths:
        began = time.monotonic()
        page = given.into / f"{path.stem}.html"
        page.write_text(page_of(executed(path)), encoding="utf-8")
        print(f"{page} ({time.monotonic() - began:.0f} s)", flush=True)
    print(f"Open {given.into / 'index.html'}")


def furnish(into: Path) -> None:
    """All but the notebooks: the index, the style, the images, plotly's script."""
    into.mkdir(parents=True, exist_ok=True)
    (into / "index.html").write_text(index_page(), encoding="utf-8")
    (into / "plotly.min.js").write_text(get_plotlyjs(), encoding="utf-8")
    shutil.copy(HERE / "page.css", into)
    images = shutil.ignore_patterns("*.py", "__pycache__")
    shutil.copytree(NOTEBOOKS / "images", into / "images", ignore=images, dirs_exist_ok=True)


def index_page() -> str:
    """Of the README what it opens with, and its map of the notebooks."""
    title, *sections = (ROOT / "README.md").read_text("utf-8").split("\n## ")
    (the_map,) = [text for text in sections if text.startswith("The notebooks\n")]
    return page_of(new_notebook(cells=[new_markdown_cell(f"{title}\n## {the_map}")]))


def executed(path: Path) -> nbformat.NotebookNode:
    """The notebook with its outputs.

    Raises:
        CellExecutionError: where a cell fails.
    """
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook,
        timeout=CELL_S,
        resources={"metadata": {"path": str(path.parent)}},
        coalesce_streams=True,
        store_widget_state=False,  # without it a widget's still picture is shown
        extra_arguments=["--log-level=ERROR"],
    )
    return client.execute()


def page_of(notebook: nbformat.NotebookNode) -> str:
    """As HTML, with links that lead to pages."""
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = linked(cell.source)
    notebook.metadata.title = re.sub("^# ", "", notebook.cells[0].source.partition("\n")[0])
    exporter = HTMLExporter(
        config=Config(TemplateExporter={"extra_template_basedirs": [str(HERE)]}),
        template_file=str(HERE / "page.html.j2"),
        exclude_input_prompt=True,
        exclude_output_prompt=True,
    )
    return str(exporter.from_notebook_node(notebook)[0])


def linked(text: str) -> str:
    """Markdown with links from page to page.

    >>> linked("[this](../README.md#the-map), [that](notebooks/04_that.ipynb#b), [code](../a.py)")
    '[this](index.html), [that](04_that.html#b), code'
    """
    return LINK.sub(_link, text.replace('"notebooks/images/', '"images/'))


def _link(found: re.Match[str]) -> str:
    """A link that leads to a page, or to the web; of any other the text only."""
    words, target = found.groups()
    target = re.sub(r"^notebooks/", "", target)
    target = re.sub(r"^\.\./README\.md(#.*)?$", "index.html", target)
    target = re.sub(r"^(\d\d_\w+)\.ipynb", r"\1.html", target)
    leads = re.match(r"https?:|#|(\w+\.html)(#|$)", target)
    return f"[{words}]({target})" if leads else words


if __name__ == "__main__":
    main()
