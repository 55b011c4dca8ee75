"""``make site``: runs the notebooks and makes a page of each, and an index of them, in ``site/``.

The pages need no kernel, no server and no network. Their figures answer to the mouse, and what is
simulated to its controls: a page holds what they show at each position. Real runs need JupyterLab.
"""

from __future__ import annotations

import argparse
import html
import json
import os
import re
import shutil
import sys
import time
from functools import cache
from pathlib import Path
from typing import NamedTuple

import nbformat
from nbclient import NotebookClient
from nbconvert import HTMLExporter
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell, new_notebook
from PIL import Image
from traitlets.config import Config

from loaderviz.web import page_script, plotly_script

ROOT = Path(__file__).parents[1]
HERE = ROOT / "pages"
NOTEBOOKS = ROOT / "notebooks"
CELL_S = 600
MOST_BYTES = 3_000_000  # of a page and what it loads, but for images
FRAMES_BYTES = 900_000  # of a page: what its controls show at all of their positions
THUMBNAIL_PX = 560

LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s]+)\)")
HEADING = re.compile(r'<h([1-3]) id="([^"]*)">(.*?)<a class="anchor-link".*?</h\1>', re.DOTALL)
ROW = re.compile(r"^\| (.+) \| \[(.+)\]\(notebooks/(\w+)\.ipynb\) \|$", re.MULTILINE)


class Section(NamedTuple):
    """A heading of a page, and the text up to the next one."""

    level: int
    anchor: str
    title: str
    text: str


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("notebooks", nargs="*", type=Path, help="all of them, unless named")
    parser.add_argument("--into", type=Path, default=ROOT / "site")
    given = parser.parse_args()
    paths = given.notebooks or sorted(NOTEBOOKS.glob("*.ipynb"))
    furnish(given.into)
    os.environ["TQDM_DISABLE"] = "1"  # a progress bar is no part of a page
    faults = []
    for path in paths:
        began = time.monotonic()
        page, text = given.into / f"{path.stem}.html", page_of(executed(path), path.stem)
        page.write_text(text, encoding="utf-8")
        print(f"{page} ({time.monotonic() - began:.0f} s)", flush=True)
        faults += [f"{page}: {fault}" for fault in faults_of(text, given.into)]
    print(f"Open {given.into / 'index.html'}")
    if faults:
        sys.exit("\n".join(faults))


def faults_of(page: str, into: Path) -> list[str]:
    """Controls that change nothing, and too many bytes to load."""
    idle = re.findall(r"""data-idle=["'](\w[^"']*)["']""", page)
    loaded = [into / name for name in ("page.js", "page.css", "plotly.min.js")]
    size = len(page.encode()) + sum(path.stat().st_size for path in loaded)
    too_large = [f"{size:,} bytes to load, of {MOST_BYTES:,}"] if size > MOST_BYTES else []
    return [f"{name} changes nothing" for name in idle] + too_large


def furnish(into: Path) -> None:
    """All but the notebooks: the index, the search, styles, scripts and images."""
    into.mkdir(parents=True, exist_ok=True)
    for name, text in {
        "index.html": index_page(),
        "search.js": f"window.loadervizSections = {json.dumps(sections_of_all())};",
        "page.js": page_script(),
        "plotly.min.js": plotly_script(),
    }.items():
        (into / name).write_text(text, encoding="utf-8")
    shutil.copy(HERE / "page.css", into)
    no_pictures = shutil.ignore_patterns("*.py", "__pycache__")
    shutil.copytree(NOTEBOOKS / "images", into / "images", ignore=no_pictures, dirs_exist_ok=True)
    (into / "thumbnails").mkdir(exist_ok=True)
    for stem, picture in pictures().items():
        with Image.open(picture) as opened:
            opened.thumbnail((THUMBNAIL_PX, THUMBNAIL_PX))
            opened.save(into / "thumbnails" / f"{stem}.webp", quality=85)


def pictures() -> dict[str, Path]:
    """Of each notebook the picture that it opens with."""
    opened = {path.stem: path.read_text("utf-8") for path in sorted(NOTEBOOKS.glob("*.ipynb"))}
    found = {stem: re.search(r"images/\w+\.png", text) for stem, text in opened.items()}
    return {stem: NOTEBOOKS / match[0] for stem, match in found.items() if match}


def index_page() -> str:
    """Of the README what it opens with, and its map of the notebooks as cards."""
    title, *sections = (ROOT / "README.md").read_text("utf-8").split("\n## ")
    (the_map,) = [text for text in sections if text.startswith("The notebooks\n")]
    before, _, table = the_map.partition("\n|")
    cards = "".join(card(*row) for row in ROW.findall(table))
    after = re.sub(r"^\|.*\n?", "", f"|{table}", flags=re.MULTILINE)
    text = f"{title}\n## {before}\n\n<div class='cards'>{cards}</div>\n\n{after}"
    return page_of(new_notebook(cells=[new_markdown_cell(text)]))


def card(asked: str, name: str, stem: str) -> str:
    """What leads to a notebook's page: its picture, its name, and what its readers ask."""
    asked = re.sub("`(.+?)`", r"<code>\1</code>", asked)
    picture = stem in pictures()
    image = f"<img alt='' loading='lazy' src='thumbnails/{stem}.webp'>" if picture else ""
    return f"<a href='{stem}.html'><span>{image}</span><b>{name}</b><small>{asked}</small></a>"


def executed(path: Path) -> NotebookNode:
    """The notebook with its outputs.

    Raises:
        CellExecutionError: where a cell fails.
    """
    notebook = nbformat.read(path, as_version=4)
    code = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "code")
    n_widgets = len(re.findall(r"\b(?:vary|explore)\(", code))
    os.environ["LOADERVIZ_FRAMES"] = str(FRAMES_BYTES // max(1, n_widgets))
    client = NotebookClient(
        notebook,
        timeout=CELL_S,
        resources={"metadata": {"path": str(path.parent)}},
        coalesce_streams=True,
        store_widget_state=False,  # without it what a widget shows without a kernel is shown
        extra_arguments=["--log-level=ERROR"],
    )
    return client.execute()


def page_of(notebook: NotebookNode, stem: str = "") -> str:
    """As HTML, with links that lead to pages; of the notebook ``stem``, or of none."""
    fold(notebook)
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = linked(cell.source)
        else:
            outputs = cell.get("outputs", [])
            cell.outputs = [each for each in outputs if not is_script(each)]  # page.js has it
    before, after = neighbours(stem)
    page = {"title": title_of(notebook), "stem": stem, "before": before, "after": after}
    text, _ = exporter().from_notebook_node(notebook, resources={"page": page})
    return str(text).replace("<!-- contents -->", contents(text) if stem else "")


@cache
def exporter() -> HTMLExporter:
    """One for all pages: its templates are compiled once."""
    return HTMLExporter(
        config=Config(TemplateExporter={"extra_template_basedirs": [str(HERE)]}),
        template_file=str(HERE / "page.html.j2"),
        exclude_input_prompt=True,
        exclude_output_prompt=True,
    )


def neighbours(stem: str) -> list[tuple[str, str] | None]:
    """The notebooks before and after one: what their pages are called, and their names."""
    paths: list[Path | None] = [None, *sorted(NOTEBOOKS.glob("*.ipynb")), None]
    at = next((i for i, path in enumerate(paths) if path and path.stem == stem), None)
    around = (None, None) if at is None else (paths[at - 1], paths[at + 1])
    return [path and (path.stem, short_title_of(path)) for path in around]


def title_of(notebook: NotebookNode) -> str:
    """What stands at the top of a notebook."""
    return re.sub("^# ", "", notebook.cells[0].source.partition("\n")[0])


def short_title_of(path: Path) -> str:
    """The same without what follows the colon."""
    return title_of(nbformat.read(path, as_version=4)).partition(":")[0]


def fold(notebook: NotebookNode) -> None:
    """Mark the cells whose outputs answer a *Predict*: those up to the next cell of text."""
    asked = False
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            asked = "**Predict" in cell.source
        elif asked and cell.get("outputs"):
            cell.metadata.answer = any(map(answers, cell.outputs))
            for output in cell.outputs:
                if cell.metadata.answer and is_folded(output):
                    del output.data["text/html"]  # its text is folded with the rest


def is_folded(output: NotebookNode) -> bool:
    """Whether an output brings its own line to click on."""
    return _html(output).lstrip().startswith("<details")


def answers(output: NotebookNode) -> bool:
    """Whether an output shows an answer at once: the explorer only does when it is dragged."""
    explores = "<div class='loaderviz-explore'>" in _html(output)
    return not (is_folded(output) or is_script(output) or explores)


def is_script(output: NotebookNode) -> bool:
    """Whether an output is our figures' script, and shows nothing."""
    return _html(output).startswith("<script class='loaderviz-look'>")


def _html(output: NotebookNode) -> str:
    return str(output.get("data", {}).get("text/html", ""))


def contents(page: str) -> str:
    """A list of links to the headings below the title."""
    links = (
        f'<li><a href="#{html.escape(each.anchor)}">{html.escape(each.title)}</a></li>'
        for each in sections_of(page)
        if each.level == 2
    )
    return f"<ol>{''.join(links)}</ol>"


def sections_of(page: str) -> list[Section]:
    """The headings of a page with the text below each."""
    found = list(HEADING.finditer(page))
    ends = [match.start() for match in found[1:]] + [page.find("</main>")]
    return [
        Section(
            int(match[1]), html.unescape(match[2]), plain(match[3]), plain(page[match.end() : end])
        )
        for match, end in zip(found, ends, strict=True)
    ]


def plain(text: str) -> str:
    """HTML without its tags; code is highlighted letter by letter, and stays together.

    >>> plain("<p>To <b>seed</b>:</p><pre><span>np</span><span>.</span><span>random</span></pre>")
    'To seed: np.random'
    """
    text = re.sub(r"</?(?:span|code|a|b|i|em|strong|small)\b[^>]*>", "", text)
    return " ".join(html.unescape(re.sub("<[^>]*>", " ", text)).split())


def sections_of_all() -> list[list[str]]:
    """What the search looks through: page, its title, anchor, heading and text of each section."""
    rows = []
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        notebook = nbformat.read(path, as_version=4)
        for cell in notebook.cells:
            cell.pop("outputs", None)
        title, *_ = sections = sections_of(page_of(notebook, path.stem))
        rows += [
            [f"{path.stem}.html", title.title, each.anchor, each.title, each.text]
            for each in sections
        ]
    return rows


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
