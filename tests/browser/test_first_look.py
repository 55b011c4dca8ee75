"""Notebook 00 as its reader uses it: run from the top, hover a batch, drag, cancel."""

import re

import psutil
import pytest
from playwright.sync_api import Locator, Page, expect

from browser.reader import open_notebook, run_all

SLIDERS = ("workers", "batch size", "prefetch factor", "s per sample", "s per model step")


@pytest.fixture
def first_look(page: Page) -> Page:
    open_notebook(page, "00_first_look.ipynb")
    assert run_all(page) == []
    return page


def explorer(page: Page) -> Locator:
    return page.locator(".loaderviz-explore")


def handle(page: Page, label: str) -> Locator:
    rows = explorer(page).locator(".widget-slider")
    return rows.filter(has=page.get_by_text(label, exact=True)).locator(".noUi-handle")


def bars(plot: Locator, kind: str) -> Locator:
    """The boxes of one kind, as drawn."""
    number = plot.evaluate("(gd, kind) => gd.data.findIndex((t) => t.name === kind)", kind)
    return plot.locator(".bars").nth(number).locator(".point path")


def expect_lanes(page: Page, expected: list[str]) -> None:
    """Both what is drawn and the figure's data."""
    ticks = explorer(page).locator(".js-plotly-plot .ytick text")
    expect(ticks).to_have_text(expected, timeout=30_000)
    in_data = page.evaluate(
        "document.querySelector('.loaderviz-explore .js-plotly-plot').layout.yaxis.ticktext"
    )
    assert in_data == expected


def kernels_children() -> list[psutil.Process]:
    kernels = [
        process
        for process in psutil.Process().children(recursive=True)
        if any("ipykernel" in word for word in process.cmdline())
    ]
    return [child for kernel in kernels for child in kernel.children(recursive=True)]


def test_the_page_has_its_pictures_and_one_batch_stands_out_when_hovered(first_look: Page):
    # Five timelines, and the explorer's.
    plots = first_look.locator(".jp-Notebook .js-plotly-plot.loaderviz")
    expect(plots).to_have_count(6, timeout=30_000)
    pictures = first_look.locator(".jp-RenderedMarkdown img")
    assert pictures.evaluate_all("(all) => all.filter((each) => !each.naturalWidth).length") == 0

    plot = plots.nth(1)
    all_bars = plot.locator(".bars .point")
    faint = "(bars) => bars.filter((bar) => +(bar.style.opacity || 1) < 0.5).length"
    assert all_bars.evaluate_all(faint) == 0
    box = bars(plot, "sample").nth(20)  # the sixth batch's first
    box.hover(force=True)
    expect(plot).to_have_attribute("data-batch", "5")
    n_bars = all_bars.count()
    assert n_bars / 2 < all_bars.evaluate_all(faint) < n_bars
    expect(plot.locator(".loaderviz-path")).to_have_count(1)
    hover = plot.locator(".hoverlayer .hovertext")
    expect(hover).to_contain_text("batch 5")
    expect(hover).to_contain_text("key 20")
    expect(hover).to_contain_text("ms")

    # A click keeps it, also when the mouse is elsewhere.
    box.click(force=True)
    first_look.mouse.move(5, 5)
    expect(plot).to_have_attribute("data-batch", "5")


def test_text_follows_the_theme(first_look: Page):
    title = first_look.locator(".js-plotly-plot.loaderviz .gtitle").first
    colour = "(title) => getComputedStyle(title).fill"
    light = title.evaluate(colour)
    first_look.evaluate(
        "window.jupyterapp.commands.execute('apputils:change-theme', {theme: 'JupyterLab Dark'})"
    )
    first_look.wait_for_function("document.body.dataset.jpThemeLight === 'false'")
    expect(first_look.locator(".loaderviz-dark").first).to_be_attached()
    assert title.evaluate(colour) != light


def test_the_worker_slider_gives_exactly_that_many_lanes(first_look: Page):
    for label in SLIDERS:
        expect(handle(first_look, label)).to_have_count(1)
    expect_lanes(first_look, ["consumer", "worker 0", "worker 1"])
    # The first picture has its colours, before anyone touches a control.
    plot = explorer(first_look).locator(".js-plotly-plot")
    fill = "(bar) => getComputedStyle(bar).fill"
    assert bars(plot, "step").first.evaluate(fill) == "rgb(0, 114, 178)"
    assert bars(plot, "collate").first.evaluate(fill) == "rgb(125, 133, 144)"
    assert "url(" in bars(plot, "wait").first.evaluate(fill)  # a pattern
    assert len(set(bars(plot, "sample").evaluate_all(f"(all) => all.map({fill})"))) > 5

    handle(first_look, "workers").focus()
    for _ in range(3):
        first_look.keyboard.press("ArrowRight")
    expect_lanes(first_look, ["consumer", *(f"worker {n}" for n in range(5))])
    expect(explorer(first_look)).to_contain_text("Done: 12 batches", timeout=30_000)

    first_look.keyboard.press("Home")
    expect_lanes(first_look, ["consumer", "main process"])
    expect(explorer(first_look)).to_contain_text("Done: 12 batches", timeout=30_000)
    assert kernels_children() == []


def test_cancel_ends_a_long_run_and_leaves_no_process(first_look: Page):
    for label in ("s per sample", "s per model step"):
        handle(first_look, label).focus()
        first_look.keyboard.press("End")
    # Followed batch by batch, while the page stays alive.
    running = re.compile(r"Running: ([2-9]|1\d) of 12 batches")
    expect(explorer(first_look)).to_contain_text(running, timeout=60_000)
    assert kernels_children() != []

    explorer(first_look).get_by_role("button", name="Cancel").click()
    expect(explorer(first_look)).to_contain_text("Cancelled after", timeout=10_000)
    expect(explorer(first_look).get_by_role("button", name="Cancel")).to_be_disabled()
    assert kernels_children() == []
