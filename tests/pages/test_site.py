"""The static pages: where their links lead. tests/browser/test_site.py looks at one of them."""

import re
import runpy
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
BUILD = runpy.run_path(str(ROOT / "pages" / "build.py"))


def page(path: Path) -> str:
    """Its text only, which takes no time."""
    notebook = nbformat.read(path, as_version=4)
    notebook.cells = [cell for cell in notebook.cells if cell.cell_type == "markdown"]
    return BUILD["page_of"](notebook)


def test_every_link_leads_to_a_page_a_picture_or_the_web():
    made = {f"{path.stem}.html": page(path) for path in NOTEBOOKS}
    made["index.html"] = BUILD["index_page"]()
    images = {f"images/{path.name}" for path in (ROOT / "notebooks" / "images").glob("*.png")}
    for name, text in made.items():
        for link in re.findall(r'(?:href|src|srcset)="([^"]+)"', text):
            if link.startswith("https://") or link in {"page.css", *images}:
                continue
            target, _, section = link.partition("#")
            assert (target or name) in made, f"{name}: {link}"
            assert not section or f'id="{section}"' in made[target or name], f"{name}: {link}"


def test_the_map_in_the_readme_leads_to_every_notebook():
    index = BUILD["index_page"]()
    assert [f'href="{path.stem}.html"' in index for path in NOTEBOOKS] == [True] * len(NOTEBOOKS)
    assert "twice as long" in index


@pytest.mark.parametrize(
    ("link", "linked"),
    [
        ("[a](01_map.ipynb)", "[a](01_map.html)"),
        ("[a](notebooks/01_map.ipynb#b)", "[a](01_map.html#b)"),
        ("[a](../README.md#the-notebooks)", "[a](index.html)"),
        ("[a](#Try-it)", "[a](#Try-it)"),
        ("[a](../loaderviz/machine.py)", "a"),
        ("![a](images/a.png)", "![a](images/a.png)"),
    ],
)
def test_links_between_notebooks_become_links_between_pages(link, linked):
    assert BUILD["linked"](link) == linked
