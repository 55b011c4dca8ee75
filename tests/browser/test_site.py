"""What `make site` makes of a notebook, in a browser without a kernel and without a network."""

import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from playwright.sync_api import Browser, Locator, Page, expect

from browser.conftest import NOTEBOOKS
from browser.legible import faults
from browser.reader import bars
from browser.test_lab import METADATA

BUILD = Path(__file__).parents[2] / "pages" / "build.py"
# To draw all positions of an explorer takes five times as long, and shows no more here.
FEW_STOPS = """from loaderviz.widgets.explorer_controls import STOPS
STOPS.update(num_workers=[0, 1, 4], sample_s=[0.02, 0.1], step_s=[0.05, 0.2])"""
CELLS = [
    new_markdown_cell("# 00 First look: what is it?\n\nOn to [01](01_map_and_iterable.ipynb)."),
    new_code_cell("""
import loaderviz
from loaderviz.widgets import play, vary
def what_if(workers, in_order=True, kind="map"):
    costs = loaderviz.Costs(sample_s=[0.01] * 11 + [0.1], step_s=0.02)
    trace = loaderviz.simulate(
        costs, num_workers=workers, batch_size=2, n_batches=8, n_samples=16, kind=kind,
        in_order=in_order,
    )
    return [trace, f"{workers} workers"]
loaderviz.timeline(what_if(1)[0])"""),
    new_code_cell("vary(what_if, workers=(0, 4, 2), in_order=True, kind=['map', 'iterable'])"),
    new_code_cell("play(what_if(2)[0])"),
    new_markdown_cell("## Drag\n\nEvery setting at once."),
    new_code_cell(FEW_STOPS + "\nloaderviz.explore()"),
    new_markdown_cell("## Ask\n\n**Predict.** Who waits?"),
    new_code_cell("print('everyone')\nloaderviz.timeline(what_if(0)[0])"),
]


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    notebook = folder / "00_first_look.ipynb"
    nbformat.write(new_notebook(cells=CELLS, metadata=METADATA), notebook)
    subprocess.run([sys.executable, BUILD, notebook, "--into", folder / "site"], check=True)
    return folder / "site"


@pytest.fixture(scope="module")
def first(browser: Browser, site: Path) -> Page:
    """The first notebook's page, reached from the index."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    asked = []
    context.route("http*://**", lambda route: (asked.append(route.request.url), route.abort()))
    page = context.new_page()
    page.goto((site / "index.html").as_uri())
    page.get_by_role("main").get_by_role("link", name="00 First look").first.click()
    yield page
    assert asked == []
    context.close()


def test_its_figures_are_drawn_and_answer_to_the_mouse(first: Page):
    figures = first.locator(".loaderviz-saved.js-plotly-plot.loaderviz")
    expect(figures).to_have_count(4, timeout=20_000)  # without the one that is folded
    bars(figures.first, "step").first.hover(force=True)
    expect(figures.first).to_have_attribute("data-batch", "0")


def drawn(box: Locator) -> str:
    """What its pictures and its words look like."""
    return box.locator(".loaderviz-parts").evaluate(
        "(parts) => parts.textContent + [...parts.querySelectorAll('path, rect')]"
        ".map((each) => each.getAttribute('d') + each.getAttribute('style')).join()"
    )


def test_every_control_changes_the_picture_by_mouse_and_keys(first: Page):
    """Sliders, choices and check boxes; of the explorer, too."""
    boxes = first.locator(".loaderviz-frames")
    expect(boxes).to_have_count(2)
    for box in boxes.all():
        box.scroll_into_view_if_needed()
        expect(box.locator(".js-plotly-plot.loaderviz")).to_be_visible(timeout=20_000)
        controls = box.locator("[data-stops]")
        assert controls.count() == 3
        for control in controls.all():
            before, shown = drawn(box), box.get_attribute("data-shown")
            move(control)
            expect(box).not_to_have_attribute("data-shown", shown or "", timeout=20_000)
            first.wait_for_function("(box) => box.dataset.shown", arg=box.element_handle())
            assert drawn(box) != before, control.evaluate("(each) => each.parentNode.textContent")
            assert faults(first)[1] == []


def move(control: Locator) -> None:
    """As a reader would."""
    if control.evaluate("(each) => each.tagName") == "SELECT":
        control.select_option(index=1)
    elif control.get_attribute("type") == "checkbox":
        control.click()
    else:
        said = control.locator("xpath=../output").inner_text()
        control.focus()
        control.press("ArrowRight")
        expect(control.locator("xpath=../output")).not_to_have_text(said)
        place = control.bounding_box()
        assert place is not None
        middle = place["y"] + place["height"] / 2
        control.page.mouse.move(place["x"] + place["width"] / 2, middle)
        control.page.mouse.down()
        control.page.mouse.move(place["x"] + place["width"] - 2, middle, steps=4)
        control.page.mouse.up()


def test_a_slider_draws_as_many_lanes_as_it_says(first: Page):
    box = first.locator(".loaderviz-frames").first
    workers = box.get_by_label("workers")
    for key, lanes in (("End", 4), ("Home", 0)):
        workers.press(key)
        expect(box.get_by_text(f"{lanes} workers", exact=True)).to_be_visible()
        expect(box.locator(".ytick", has_text="worker ")).to_have_count(lanes)


def test_a_control_that_changes_nothing_at_these_positions_is_grey(first: Page):
    box = first.locator(".loaderviz-frames").first
    order = box.locator("label", has_text="in order")
    box.get_by_label("kind").select_option("map")
    box.get_by_label("workers").press("End")
    expect(order).not_to_have_class("loaderviz-idle")
    box.get_by_label("workers").press("Home")  # one process reads in order whatever is asked for
    expect(order).to_have_class("loaderviz-idle")


def test_what_needs_a_kernel_is_told(first: Page):
    expect(first.locator(".loaderviz-note").last).to_contain_text("Run for real and Pin need")
    expect(first.locator(".loaderviz-numbers")).to_contain_text("predicted")


def test_an_answer_is_folded_and_its_figure_fills_the_page_when_it_is_opened(first: Page):
    answer = first.locator("details.answer")
    expect(answer.get_by_text("everyone")).to_be_hidden()
    answer.locator("summary").click()
    expect(answer.get_by_text("everyone")).to_be_visible()
    figure = answer.locator(".js-plotly-plot.loaderviz .main-svg").first
    expect(figure).to_be_visible(timeout=20_000)
    room = answer.bounding_box()
    drawn_at = figure.bounding_box()
    assert room is not None
    assert drawn_at is not None
    assert abs(room["width"] - drawn_at["width"]) < 40
    assert faults(first)[1] == []


def test_its_sections_are_listed_and_all_notebooks_searched(first: Page):
    first.get_by_role("navigation", name="On this page").get_by_role("link", name="Drag").click()
    expect(first.get_by_role("heading", name="Drag")).to_be_in_viewport()
    search = first.get_by_role("searchbox")
    search.fill("shuffle buffer")
    found = first.locator(".loaderviz-search a")
    expect(found.first).to_have_attribute("href", re.compile(r"^14_mixing_a_stream\.html#"))
    search.press("ArrowDown")
    expect(found.first).to_be_focused()
    first.keyboard.press("Escape")
    expect(found.first).to_be_hidden()
    search.fill("no such words anywhere")
    expect(first.locator(".loaderviz-search")).to_contain_text("Nothing found")
    search.fill("")


@pytest.mark.parametrize("width", [390, 1024])
def test_nothing_is_cut_off_where_there_is_little_room(first: Page, width: int):
    size = first.viewport_size
    assert size is not None
    first.set_viewport_size({"width": width, "height": 800})
    assert first.evaluate("document.documentElement.scrollWidth") <= width
    for figure in first.locator(".js-plotly-plot.loaderviz:visible").all():
        figure.scroll_into_view_if_needed()
        first.wait_for_function(
            f"(figure) => figure.querySelector('.main-svg').clientWidth <= {width}",
            arg=figure.element_handle(),
        )
        assert faults(first)[1] == []
    first.set_viewport_size(size)


def test_the_queues_move_without_a_kernel(first: Page):
    player = first.locator(".loaderviz-player")
    words = player.get_by_role("status")
    before = words.inner_text()
    player.get_by_role("button", name="One step on").click()
    expect(words).not_to_have_text(before)
    expect(player.locator(".loaderviz-cursor")).to_be_visible()


def test_its_links_lead_to_pages(first: Page):
    header = first.get_by_role("navigation", name="Notebooks")
    expect(first.get_by_role("main").get_by_role("link", name="01", exact=True)).to_have_attribute(
        "href", "01_map_and_iterable.html"
    )
    expect(header.get_by_role("link", name="01 Map and iterable")).to_be_visible()
    header.get_by_role("link", name="All notebooks").click()
    cards = first.locator(".cards a")
    expect(cards).to_have_count(len(list(NOTEBOOKS.glob("*.ipynb"))))
    cards.last.scroll_into_view_if_needed()
    expect(cards.filter(has_text="twice as long")).to_have_count(1)
    loaded = "() => [...document.images].every((each) => each.naturalWidth > 0)"
    first.wait_for_function(loaded)
