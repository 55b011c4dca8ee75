"""A large timeline in a real Chromium: bands from afar, boxes when near, saved or live."""

import functools
import re

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook
from playwright.sync_api import Browser, Locator, Page, expect

from browser.reader import choose, open_notebook, wait_until_idle
from browser.test_lab import METADATA
from loaderviz import Costs, simulate, timeline

pytestmark = pytest.mark.slow

N_BATCHES = 3000
MADE = f"""
from loaderviz import Costs, simulate, timeline
costs = Costs(sample_s=[0.01, 0.02], step_s=0.02, collate_s=0.004)
trace = simulate(costs, num_workers=3, batch_size=4, n_batches={N_BATCHES}, pin_memory=True)
"""
ZOOM = """(gd, [from, to]) => {
    const xaxis = gd._fullLayout.xaxis;
    const area = gd.querySelector(".nsewdrag").getBoundingClientRect();
    const xOf = (at) => area.left + xaxis.l2p(at);
    return [xOf(from), xOf(to), area.top + 0.1 * area.height];
}"""
# Where the box of one kind and one batch is on the page.
BOX = """(gd, [kind, batch]) => {
    const large = gd.loadervizLarge;
    const own = (each) => each.kind === kind && large.rows.batch[each.i] === batch;
    const box = large.view.boxes.find(own);
    const frame = large.canvas.getBoundingClientRect();
    return [frame.left + box.x + box.wide / 2, frame.top + box.y + box.px / 2];
}"""
COLOUR = """(gd, [x, y]) => {
    const { canvas } = gd.loadervizLarge;
    const frame = canvas.getBoundingClientRect();
    const scale = window.devicePixelRatio;
    const at = [(x - frame.left) * scale, (y - frame.top) * scale];
    return [...canvas.getContext("2d").getImageData(...at, 1, 1).data];
}"""
ROWS = """(gd) => {
    const { rows } = gd.loadervizLarge;
    return Object.fromEntries(["lane", "batch", "started_s", "delivered_s"].map(
        (name) => [name, [...rows[name]]]));
}"""


@functools.cache
def made():
    costs = Costs(sample_s=[0.01, 0.02], step_s=0.02, collate_s=0.004)
    return simulate(costs, num_workers=3, batch_size=4, n_batches=N_BATCHES, pin_memory=True)


def drag(page: Page, plot: Locator, start: float, end: float) -> None:
    """Zoom as a reader does, until exactly the two times are the ends of the axis, or nearly."""
    left, right, y = plot.evaluate(ZOOM, [start, end])
    page.mouse.move(left, y)
    page.mouse.down()
    page.mouse.move((left + right) / 2, y, steps=3)
    page.mouse.move(right, y, steps=3)
    page.mouse.up()


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "large.html"
    timeline(made()).write_html(path)
    return path


@pytest.fixture
def saved(browser: Browser, path):
    context = browser.new_context(viewport={"width": 1100, "height": 600})
    page = context.new_page()
    errors = []
    page.on("pageerror", lambda each: errors.append(each))
    page.goto(path.as_uri())
    yield page
    context.close()
    assert errors == []


def zoomed_in(page: Page, plot: Locator) -> None:
    for width in (4.0, 0.3):
        drag(page, plot, 20.0, 20.0 + width)


def test_bands_from_afar_boxes_when_near_and_back(saved: Page):
    plot = saved.locator(".js-plotly-plot")
    expect(plot).to_have_attribute("data-level", "bands", timeout=20_000)
    expect(plot.locator("canvas.loaderviz-canvas")).to_have_count(1)
    assert plot.locator(".scatterlayer .js-fill:visible").count() == 0  # plotly's are covered

    zoomed_in(saved, plot)
    expect(plot).to_have_attribute("data-level", "boxes")
    start, end = plot.evaluate("(gd) => gd.layout.xaxis.range")
    assert 19.9 < start < 20.1
    assert end - start < 0.5
    shown = set(plot.evaluate("(gd) => gd.loadervizLarge.view.boxes.map((box) => box.i)"))
    batches = made().batches
    on_screen = (batches["ready_s"] > start) & (batches["started_s"] < end)
    assert set(batches.index[on_screen]) <= shown
    assert len(shown) < 100

    box = saved.locator(".nsewdrag").first.bounding_box()
    for _ in range(5):  # on a busy machine two clicks may be too far apart to be a double one
        saved.mouse.dblclick(box["x"] + box["width"] / 2, box["y"] + 5)
        saved.wait_for_timeout(1000)
        if plot.get_attribute("data-level") == "bands":
            break
    expect(plot).to_have_attribute("data-level", "bands")


def test_the_page_reads_the_same_rows(saved: Page):
    plot = saved.locator(".js-plotly-plot")
    expect(plot).to_have_attribute("data-level", "bands", timeout=20_000)
    rows, batches = plot.evaluate(ROWS), made().batches
    assert rows["batch"] == list(batches["batch"])
    assert rows["lane"] == list(batches["worker"] + 2)  # below the consumer and the pin thread
    for name in ("started_s", "delivered_s"):
        assert rows[name] == pytest.approx(list(batches[name]), abs=1e-6)


def test_a_batch_under_the_mouse_tells_its_name_and_times(saved: Page):
    plot = saved.locator(".js-plotly-plot")
    expect(plot).to_have_attribute("data-level", "bands", timeout=20_000)
    tip = plot.locator(".loaderviz-tip")
    box = saved.locator(".nsewdrag").first.bounding_box()
    saved.mouse.move(box["x"] + box["width"] / 2, box["y"] + 0.1 * box["height"])
    expect(tip).to_contain_text("consumer")
    expect(tip).to_contain_text("waiting")

    zoomed_in(saved, plot)
    batches = made().batches
    (within, *_) = batches.index[(batches["started_s"] > 20.02) & (batches["ready_s"] < 20.28)]
    number, worker = (int(batches.loc[within, column]) for column in ("batch", "worker"))
    saved.mouse.move(5, 5)  # off the batch at which the drag ended: all others are pale
    expect(plot).to_have_attribute("data-batch", "")
    at = plot.evaluate(BOX, ["sample", number])
    assert plot.evaluate(COLOUR, at)[3] == 255
    saved.mouse.move(*at)
    expect(plot).to_have_attribute("data-batch", str(within))
    expect(tip).to_contain_text(f"batch {number}, worker {worker}")
    expect(tip).to_contain_text("4 samples")
    expect(tip).to_contain_text("60 ms")

    # A click keeps it, also when the mouse is elsewhere.
    saved.mouse.down()
    saved.mouse.up()
    saved.mouse.move(5, 5)
    expect(tip).to_be_hidden()
    expect(plot).to_have_attribute("data-batch", str(within))


def test_it_follows_the_page_to_dark(saved: Page):
    plot = saved.locator(".js-plotly-plot")
    expect(plot).to_have_attribute("data-level", "bands", timeout=20_000)
    box = saved.locator(".nsewdrag").first.bounding_box()
    at = [box["x"] + 2, box["y"] + 0.12 * box["height"]]  # nothing happens that early
    light = plot.evaluate(COLOUR, at)
    saved.evaluate("document.body.style.background = '#111111'")
    expect(plot).to_have_class(re.compile("loaderviz-dark"))
    assert plot.evaluate(COLOUR, at) != light


def test_live_in_a_notebook_it_does_the_same_and_can_become_a_small_one(page: Page, lab):
    cells = [
        MADE + "import plotly.graph_objects as go\nfrom loaderviz.figures.display import CONFIG",
        "timeline(trace)",
        "live = go.FigureWidget(timeline(trace)); live._config = CONFIG; live",
    ]
    small = """
small = timeline(simulate(costs, num_workers=2, batch_size=4, n_batches=12))
with live.batch_update():
    for old, new in zip(live.data, small.data, strict=True):
        old.update(new.to_plotly_json())
    live.update_layout(small.layout.to_plotly_json())
"""
    notebook = new_notebook(cells=[*map(new_code_cell, [*cells, small])], metadata=METADATA)
    nbformat.write(notebook, lab.folder / "large.ipynb")
    open_notebook(page, "large.ipynb")
    page.locator(".jp-CodeCell .jp-InputPrompt").last.click()
    choose(page, "Run", "Run All Above Selected Cell")
    wait_until_idle(page)
    plots = page.locator(".jp-Notebook .js-plotly-plot")
    expect(plots).to_have_count(2, timeout=30_000)
    for n in range(2):
        plots.nth(n).scroll_into_view_if_needed()
        expect(plots.nth(n)).to_have_attribute("data-level", "bands", timeout=30_000)
        zoomed_in(page, plots.nth(n))
        expect(plots.nth(n)).to_have_attribute("data-level", "boxes")
    page.locator(".jp-CodeCell .jp-InputPrompt").last.click()
    choose(page, "Run", "Run Selected Cell")
    live = plots.nth(1)
    expect(live.locator("canvas.loaderviz-canvas")).to_have_count(0, timeout=30_000)
    assert live.locator(".bars .point").count() > 12 * 4
