"""The explorer in a real JupyterLab: drag, run for real, compare, copy, play, cancel."""

import re
from collections.abc import Iterator

import nbformat
import psutil
import pytest
from nbformat.v4 import new_code_cell, new_notebook
from playwright.sync_api import BrowserContext, Locator, Page, expect

from browser.conftest import Lab, visit
from browser.legible import faults
from browser.reader import bars, close_and_reopen, open_notebook, run_all, save, wait_until_idle
from browser.test_lab import METADATA

LONGER = re.compile(r"[1-9]\d* % (longer|shorter) than predicted")
SLIDERS = ("workers", "batch size", "prefetch factor", "s per sample", "s per model step")


@pytest.fixture(scope="module")
def complaints() -> list[str]:
    return []


@pytest.fixture(scope="module")
def opened(profile: BrowserContext, lab: Lab, complaints: list[str]) -> Iterator[Page]:
    """A notebook with nothing but an explorer of three workers, opened once for all tests."""
    cell = "import loaderviz\nexplorer = loaderviz.explore()\nexplorer.set(num_workers=3)\nexplorer"
    notebook = new_notebook(cells=[new_code_cell(cell)], metadata=METADATA)
    nbformat.write(notebook, lab.folder / "explorer.ipynb")
    with visit(profile, lab, complaints) as page:
        open_notebook(page, "explorer.ipynb")
        yield page


@pytest.fixture
def explored(opened: Page, complaints: list[str]) -> Iterator[Page]:
    """The explorer as it is at first: its cell runs anew."""
    opened.set_viewport_size({"width": 1440, "height": 900})
    assert run_all(opened) == []
    yield opened
    heard = complaints[:]
    complaints.clear()
    assert heard == []


def explorer(page: Page) -> Locator:
    return page.locator(".loaderviz-explore")


def handle(page: Page, label: str) -> Locator:
    rows = explorer(page).locator(".widget-slider")
    return rows.filter(has=page.get_by_text(label, exact=True)).locator(".noUi-handle")


def drag_to_its_left_end(handle: Locator) -> None:
    place, mouse = handle.bounding_box(), handle.page.mouse
    assert place is not None
    middle = place["y"] + place["height"] / 2
    mouse.move(place["x"] + place["width"] / 2, middle)
    mouse.down()
    mouse.move(place["x"] - 600, middle, steps=6)
    mouse.up()


def expect_lanes(page: Page, expected: list[str], nth: int = 0) -> None:
    """Of the predicted timeline, or of the measured one under it."""
    plot = explorer(page).locator(".js-plotly-plot").nth(nth)
    expect(plot.locator(".ytick text")).to_have_text(expected, timeout=30_000)


def kernels() -> list[psutil.Process]:
    return [
        process
        for process in psutil.Process().children(recursive=True)
        if any("ipykernel" in word for word in process.cmdline())
    ]


def kernels_children() -> list[psutil.Process]:
    return [child for kernel in kernels() for child in kernel.children(recursive=True)]


@pytest.mark.slow
def test_its_figures_need_no_plotly_of_the_page(page: Page, lab: Lab):
    """As in front ends other than JupyterLab."""
    cell = new_code_cell("import loaderviz\nloaderviz.explore()")
    nbformat.write(new_notebook(cells=[cell], metadata=METADATA), lab.folder / "alone.ipynb")
    open_notebook(page, "alone.ipynb")
    page.evaluate("() => { _JUPYTERLAB['jupyterlab-plotly'] = undefined; }")
    assert run_all(page) == []
    expect_lanes(page, ["consumer", "worker 0", "worker 1"])


@pytest.mark.slow
def test_its_figures_are_drawn_by_the_plotly_of_jupyterlab(explored: Page):
    expect_lanes(explored, ["consumer", "worker 0", "worker 1", "worker 2"])
    labs = "async () => (await _JUPYTERLAB['jupyterlab-plotly'].get('./mimeExtension'))()"
    is_labs = f"async () => (await ({labs})()).RenderedPlotly.Plotly === window.loadervizPlotly"
    assert explored.evaluate(is_labs)


# anywidget gives a widget's script two seconds, by this; here it gives none.
NO_TIME = "AbortSignal.timeout = ((own) => () => own.call(AbortSignal, 0))(AbortSignal.timeout)"


@pytest.mark.slow
def test_all_follows_the_slider_where_the_page_was_too_busy_for_anywidget(page: Page, lab: Lab):
    cell = new_code_cell("import loaderviz\nloaderviz.explore()")
    nbformat.write(new_notebook(cells=[cell], metadata=METADATA), lab.folder / "late.ipynb")
    page.add_init_script(NO_TIME)
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    open_notebook(page, "late.ipynb")
    assert run_all(page) == []
    expect_lanes(page, ["consumer", "worker 0", "worker 1"])
    assert any("Failed to initialize model" in each for each in errors)

    explorer(page).get_by_text("Play: watch the queues").click()
    workers = explorer(page).locator(".loaderviz-scene text", has_text=re.compile(r"^worker \d$"))
    expect(workers).to_have_count(2)
    handle(page, "workers").press("ArrowRight")
    expect_lanes(page, ["consumer", "worker 0", "worker 1", "worker 2"])
    expect(workers).to_have_count(3)
    expect(explorer(page).locator(".loaderviz-code code")).to_contain_text("num_workers=3")


def test_the_prediction_follows_the_slider(explored: Page):
    for label in SLIDERS:
        expect(handle(explored, label)).to_have_count(1)
    workers = ["worker 0", "worker 1", "worker 2"]
    expect_lanes(explored, ["consumer", *workers])
    # The picture has its colours.
    plot = explorer(explored).locator(".js-plotly-plot").first
    fill = "(bar) => getComputedStyle(bar).fill"
    assert bars(plot, "step").first.evaluate(fill) == "rgb(0, 114, 178)"
    assert bars(plot, "collate").first.evaluate(fill) == "rgb(125, 133, 144)"
    assert "url(" in bars(plot, "wait").first.evaluate(fill)  # a pattern
    assert len(set(bars(plot, "sample").evaluate_all(f"(all) => all.map({fill})"))) > 5

    handle(explored, "workers").focus()
    for _ in range(2):
        explored.keyboard.press("ArrowRight")
    expect_lanes(explored, ["consumer", *workers, "worker 3", "worker 4"])
    expect(explorer(explored)).to_contain_text("batch_size=4, num_workers=5")
    drag_to_its_left_end(handle(explored, "workers"))
    expect_lanes(explored, ["consumer", "main process"])
    causes = explorer(explored).locator(".loaderviz-causes")
    expect(causes).to_contain_text("Where the time went, simulated")
    expect(causes.locator("li")).to_have_text([re.compile("^steps"), re.compile("^main process")])
    assert kernels_children() == []  # nothing but a simulation


def test_a_real_run_stands_under_the_prediction(explored: Page):
    handle(explored, "s per sample").focus()
    explored.keyboard.press("Home")
    explored.get_by_role("button", name="Run for real").click()
    expect(explorer(explored)).to_contain_text(LONGER, timeout=60_000)
    expect_lanes(explored, ["consumer", "worker 0", "worker 1", "worker 2"], nth=1)
    numbers = explorer(explored).locator(".loaderviz-numbers")
    expect(numbers).to_contain_text("measured")
    assert kernels_children() == []

    explorer(explored).get_by_role("button", name="Pin").click()
    expect(numbers).to_contain_text("pinned")
    handle(explored, "s per model step").focus()
    explored.keyboard.press("Home")
    expect(numbers).to_contain_text("−")  # noqa: RUF001
    expect(numbers).not_to_contain_text("measured")


@pytest.mark.slow
def test_the_axis_stays_while_the_workers_are_dragged_and_the_pinned_run_is_a_ghost(explored: Page):
    axis = "(gd) => [gd._fullLayout.xaxis.range, gd._fullLayout.xaxis._offset]"
    plot = explorer(explored).locator(".js-plotly-plot").first
    handle(explored, "workers").focus()
    explored.keyboard.press("Home")
    expect_lanes(explored, ["consumer", "main process"])
    without = plot.evaluate(axis)
    explorer(explored).get_by_role("button", name="Pin").click()
    expect_lanes(explored, ["pinned", "consumer", "main process"])
    for _ in range(3):
        handle(explored, "workers").press("ArrowRight")
    expect_lanes(explored, ["pinned", "consumer", "worker 0", "worker 1", "worker 2"])
    assert plot.evaluate(axis) == without
    expect(bars(plot, "pinned")).to_have_count(12)
    ends = [bars(plot, kind).last.bounding_box()["x"] for kind in ("step", "pinned")]
    assert ends[0] < ends[1]  # three workers are done before none


# All at one moment, and when plotly has drawn to the width that it has: the page scrolls while the
# lab lays it out anew.
BOXES = """(plot) => new Promise((tell) => {
  const explorer = document.querySelector(".loaderviz-explore");
  const box = (part) => explorer.querySelector(part).getBoundingClientRect();
  const look = () => {
    const [settings, figure, numbers] = [
      ".loaderviz-settings", ".loaderviz-figure .main-svg", ".loaderviz-numbers"].map(box);
    const drawn = Math.abs(plot._fullLayout.width - plot.clientWidth) <= 2;
    const beside = settings.right <= figure.left;
    if (drawn && beside === WIDE) tell([settings, figure, numbers].map((found) => found.toJSON()));
    else setTimeout(look, 50);
  };
  look();
})"""


@pytest.mark.slow
def test_a_narrow_window_has_the_settings_on_top_and_the_whole_figure_below(explored: Page):
    plot = explorer(explored).locator(".js-plotly-plot").first
    explored.set_viewport_size({"width": 1600, "height": 900})
    settings, figure, numbers = plot.evaluate(BOXES.replace("WIDE", "true"))
    assert settings["right"] <= figure["left"]
    assert numbers["bottom"] <= figure["top"]
    explored.set_viewport_size({"width": 900, "height": 900})
    settings, narrow, numbers = plot.evaluate(BOXES.replace("WIDE", "false"))
    assert settings["bottom"] <= numbers["top"]
    assert numbers["bottom"] <= narrow["top"]
    assert narrow["height"] == figure["height"]


@pytest.mark.slow
def test_it_goes_on_when_its_notebook_is_closed_and_opened_again(
    explored: Page, complaints: list[str]
):
    save(explored)
    # ipywidgets gives the kernel 4 s to tell of its widgets (its manager, "request_states"), and
    # draws none where a busy machine took longer.
    for _ in range(3):
        complaints.clear()
        close_and_reopen(explored, "explorer.ipynb")
        for _ in range(100):
            is_there = handle(explored, "workers").count() > 0
            if is_there or any("widget model not found" in heard for heard in complaints):
                break
            explored.wait_for_timeout(200)
        if is_there:
            break
    handle(explored, "workers").focus()
    explored.keyboard.press("ArrowRight")
    expect_lanes(explored, ["consumer", *(f"worker {n}" for n in range(4))])


@pytest.mark.slow
def test_the_code_can_be_copied(explored: Page):
    explored.context.grant_permissions(["clipboard-read", "clipboard-write"])
    button = explorer(explored).get_by_role("button", name="Copy code")
    button.click()
    expect(explorer(explored).get_by_role("button", name="Copied")).to_be_visible()
    copied = explored.evaluate("navigator.clipboard.readText()")
    assert copied == "DataLoader(dataset, batch_size=4, num_workers=3)"


@pytest.mark.slow
def test_play_moves_batches_through_the_queues(explored: Page):
    explored.get_by_text("Play: watch the queues").click()
    scene = explorer(explored).locator(".loaderviz-scene")
    expect(scene.locator(".token")).to_have_count(12)
    words = scene.get_by_role("status")
    expect(words).to_contain_text("the consumer has batch 0")
    cursor = explorer(explored).locator(".loaderviz-cursor")
    expect(cursor).to_be_visible()
    before = cursor.bounding_box()["x"]

    for _ in range(60):
        if "batch 1." in words.inner_text():
            break
        scene.get_by_role("button", name="One step on").click()
    expect(words).to_contain_text("the consumer has batch 1")
    assert cursor.bounding_box()["x"] > before

    scene.get_by_role("button", name="Play").click()
    expect(words).to_contain_text("the consumer has batch 3", timeout=30_000)
    scene.get_by_role("button", name="Play").click()
    time = scene.get_by_role("slider", name="time")
    time.focus()
    explored.keyboard.press("End")
    expect(words).to_contain_text("all delivered", ignore_case=True)
    # Closed again, it leaves the timeline alone.
    explored.get_by_text("Play: watch the queues").click()
    expect(cursor).to_have_count(0)


def begin_a_long_run(explored: Page) -> None:
    """A real run of the slowest settings, followed batch by batch while the page stays alive."""
    for label in ("s per sample", "s per model step"):
        handle(explored, label).focus()
        explored.keyboard.press("End")
    explored.get_by_role("button", name="Run for real").click()
    running = re.compile(r"Running: ([2-9]|1\d) of 12 batches")
    expect(explorer(explored)).to_contain_text(running, timeout=60_000)


@pytest.mark.slow
def test_cancel_ends_a_long_run_and_leaves_no_process(explored: Page):
    begin_a_long_run(explored)
    assert kernels_children() != []

    explorer(explored).get_by_role("button", name="Cancel").click()
    expect(explorer(explored)).to_contain_text("Cancelled after", timeout=10_000)
    expect(explorer(explored).get_by_role("button", name="Cancel")).to_be_disabled()
    assert kernels_children() == []


@pytest.mark.slow
def test_a_kernel_that_dies_meanwhile_leaves_a_page_that_says_so(explored: Page):
    begin_a_long_run(explored)
    for kernel in kernels():
        kernel.kill()
    told = explored.locator(".jp-Dialog")  # by JupyterLab
    expect(told).to_contain_text("appears to have died", timeout=30_000)
    told.get_by_role("button", name="Ok").click()
    said = "(root) => getComputedStyle(root, '::before').content"
    assert "run the cell again" in explorer(explored).evaluate(said)
    wait_until_idle(explored)
    # What stands there can still be read, and the cell brings the controls back.
    n, wrong = faults(explored)
    assert n >= 1
    assert wrong == []
    assert run_all(explored) == []
    expect(explorer(explored)).to_have_count(1)
    assert explorer(explored).evaluate(said) == "none"
    handle(explored, "workers").focus()
    explored.keyboard.press("Home")
    expect_lanes(explored, ["consumer", "main process"])
