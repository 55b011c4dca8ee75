"""The static pages: their links, and what they fold. tests/browser/test_site.py looks at one."""

import functools
import html
import re
import runpy
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
BUILD = runpy.run_path(str(ROOT / "pages" / "build.py"))


@functools.cache
def page(path: Path) -> str:
    """Its text only, which takes no time."""
    notebook = nbformat.read(path, as_version=4)
    notebook.cells = [cell for cell in notebook.cells if cell.cell_type == "markdown"]
    return BUILD["page_of"](notebook, path.stem)


def test_every_link_leads_to_a_page_a_picture_or_the_web():
    made = {f"{path.stem}.html": page(path) for path in NOTEBOOKS}
    made["index.html"] = BUILD["index_page"]()
    pictures = (ROOT / "notebooks" / "images").iterdir()
    others = {"page.css", "page.js", "plotly.min.js", *(f"images/{path.name}" for path in pictures)}
    others |= {f"thumbnails/{stem}.webp" for stem in BUILD["pictures"]()}
    made = {name: html.unescape(text) for name, text in made.items()}
    for name, text in made.items():
        for link in re.findall(r'(?:href|src|srcset)="([^"]+)"', text):
            if link.startswith("https://") or link in others:
                continue
            target, _, section = link.partition("#")
            assert (target or name) in made, f"{name}: {link}"
            assert not section or f'id="{section}"' in made[target or name], f"{name}: {link}"


def test_the_map_in_the_readme_leads_to_every_notebook():
    index = BUILD["index_page"]()
    (cards,) = re.findall('<div class="cards">(.*?)</div>', index)
    for leads in ('<a href="(.*?).html"', "thumbnails/(.*?).webp"):
        assert sorted(re.findall(leads, cards)) == [path.stem for path in NOTEBOOKS]
    assert "twice as long" in cards
    assert "|" not in index.partition("</main>")[0].partition("<main>")[2]  # no rest of the table


def test_a_page_lists_its_sections_and_leads_to_its_neighbours():
    second = page(NOTEBOOKS[1])
    nav = re.search('<nav [^>]*class="contents".*?</nav>', second, re.DOTALL)[0]
    listed = re.findall('<a href="#(.*?)"', nav)
    assert listed == re.findall('<h2 id="(.*?)"', second)
    assert len(listed) > 3
    assert second.count(f'href="{NOTEBOOKS[0].stem}.html" rel="prev"') == 2
    assert second.count(f'href="{NOTEBOOKS[2].stem}.html" rel="next"') == 2
    assert 'rel="prev"' not in page(NOTEBOOKS[0])
    assert 'rel="next"' not in page(NOTEBOOKS[-1])


def cell(*outputs, source="f()", **metadata):
    return new_code_cell(source, outputs=list(outputs), metadata=metadata)


PRINTED = new_output("stream", text="forty-two\n")
GUESSED = new_output(
    "display_data", {"text/html": "<details><pre>seven</pre></details>", "text/plain": "seven"}
)
SCRIPT = new_output(
    "display_data", {"text/html": "<script class='loaderviz-look'>x()</script>", "text/plain": ""}
)


def made_of(*cells) -> str:
    head = new_markdown_cell("# A title")
    return BUILD["page_of"](new_notebook(cells=[head, *map(nbformat.from_dict, cells)]))


def test_what_answers_a_question_is_folded_up_to_the_next_text():
    text = made_of(
        new_markdown_cell("**Predict.** How many?"),
        cell(PRINTED),
        cell(PRINTED),
        new_markdown_cell("As many."),
        cell(PRINTED),
    )
    parts = re.split('<details class="answer">|</details>', text)
    assert ["forty-two" in part for part in parts] == [False, True, False, True, True]
    assert text.count("Guess first, then open") == 2


def test_what_is_folded_already_is_not_folded_twice():
    question = new_markdown_cell("**Predict.** How many?")
    alone = made_of(question, cell(GUESSED, SCRIPT))
    assert 'class="answer"' not in alone
    assert alone.count("seven") == 1
    beside = made_of(question, cell(GUESSED, PRINTED))
    (answer,) = re.findall('<details class="answer">(.*?)</details>', beside, re.DOTALL)
    assert "seven" in answer
    assert "forty-two" in answer


def test_an_explorer_is_there_to_be_dragged():
    explorer = new_output("display_data", {"text/html": "<div class='loaderviz-explore'>5</div>"})
    text = made_of(new_markdown_cell("**Predict.** Drag."), cell(explorer))
    assert 'class="answer"' not in text


def test_the_code_of_a_question_is_folded_and_what_it_shows_is_not():
    text = made_of(cell(PRINTED, source="predict(right='7')", jupyter={"source_hidden": True}))
    folded, shown = text.split("<summary>The code of this question</summary>")[1].split(
        "</details>", 1
    )
    assert "predict" in folded
    assert "forty-two" in shown


def test_the_figures_script_is_on_a_page_once():
    text = made_of(cell(SCRIPT, PRINTED))
    assert "x()" not in text
    assert text.count("page.js") == 1


def test_the_search_finds_every_section_where_it_is(tmp_path, monkeypatch):
    some = NOTEBOOKS[1:3]
    for path in some:
        (tmp_path / path.name).symlink_to(path)
    monkeypatch.setitem(BUILD["sections_of_all"].__globals__, "NOTEBOOKS", tmp_path)
    pages = {f"{path.stem}.html": page(path) for path in some}
    rows = BUILD["sections_of_all"]()
    assert {row[0] for row in rows} == set(pages)
    assert [row for row in rows if f'id="{row[2]}"' not in pages[row[0]]] == []
    assert any("for batch in DataLoader(" in row[4] for row in rows)  # code stays together


def test_a_control_that_moves_nothing_and_a_page_that_is_too_large_are_faults(tmp_path):
    for name in ("page.js", "page.css", "plotly.min.js"):
        (tmp_path / name).write_text("")
    faults = BUILD["faults_of"]
    assert faults("<div data-idle='' data-frames=''>", tmp_path) == []
    assert faults("<div data-idle='workers' data-frames=''>", tmp_path) == [
        "workers changes nothing"
    ]
    (tmp_path / "plotly.min.js").write_bytes(b" " * 3_000_000)
    assert "bytes to load" in faults("<p>", tmp_path)[0]


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
