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


def expect_lanes(page: Page, expected: list[str], nth: int = 0) -> None:
    """Of the predicted timeline, or of the measured one under it."""
    plot = explorer(page).locator(".js-plotly-plot").nth(nth)
    expect(plot.locator(".ytick text")).to_have_text(expected, timeout=30_000)


def kernels_children() -> list[psutil.Process]:
    kernels = [
        process
        for process in psutil.Process().children(recursive=True)
        if any("ipykernel" in word for word in process.cmdline())
    ]
    return [child for kernel in kernels for child in kernel.children(recursive=True)]


def test_the_page_has_its_pictures_and_one_batch_stands_out_when_hovered(first_look: Page):
    # Five timelines, and the explorer's two.
    plots = first_look.locator(".jp-Notebook .js-plotly-plot.loaderviz")
    expect(plots).to_have_count(7, timeout=30_000)
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


def test_the_prediction_follows_the_slider(first_look: Page):
    for label in SLIDERS:
        expect(handle(first_look, label)).to_have_count(1)
    workers = ["worker 0", "worker 1", "worker 2"]
    expect_lanes(first_look, ["consumer", *workers])  # where the cell above has moved it
    # The picture has its colours.
    plot = explorer(first_look).locator(".js-plotly-plot").first
    fill = "(bar) => getComputedStyle(bar).fill"
    assert bars(plot, "step").first.evaluate(fill) == "rgb(0, 114, 178)"
    assert bars(plot, "collate").first.evaluate(fill) == "rgb(125, 133, 144)"
    assert "url(" in bars(plot, "wait").first.evaluate(fill)  # a pattern
    assert len(set(bars(plot, "sample").evaluate_all(f"(all) => all.map({fill})"))) > 5

    handle(first_look, "workers").focus()
    for _ in range(2):
        first_look.keyboard.press("ArrowRight")
    expect_lanes(first_look, ["consumer", *workers, "worker 3", "worker 4"])
    expect(explorer(first_look)).to_contain_text("batch_size=4, num_workers=5")
    first_look.keyboard.press("Home")
    expect_lanes(first_look, ["consumer", "main process"])
    assert kernels_children() == []  # nothing but a simulation


def test_a_real_run_stands_under_the_prediction(first_look: Page):
    handle(first_look, "s per sample").focus()
    first_look.keyboard.press("Home")
    first_look.get_by_role("button", name="Run for real").click()
    expect(explorer(first_look)).to_contain_text("The prediction is off by", timeout=60_000)
    expect_lanes(first_look, ["consumer", "worker 0", "worker 1", "worker 2"], nth=1)
    numbers = explorer(first_look).locator(".loaderviz-numbers")
    expect(numbers).to_contain_text("measured")
    assert kernels_children() == []

    explorer(first_look).get_by_role("button", name="Pin").click()
    expect(numbers).to_contain_text("pinned")
    handle(first_look, "s per model step").focus()
    first_look.keyboard.press("Home")
    expect(numbers).to_contain_text("−")  # noqa: RUF001
    expect(numbers).not_to_contain_text("measured")


def test_a_narrow_window_has_the_settings_on_top_and_the_whole_figure_below(first_look: Page):
    def boxes():
        parts = (".loaderviz-settings", ".loaderviz-figure .main-svg", ".loaderviz-numbers")
        return [explorer(first_look).locator(part).first.bounding_box() for part in parts]

    first_look.set_viewport_size({"width": 1600, "height": 900})
    settings, figure, _ = boxes()
    assert settings["x"] + settings["width"] <= figure["x"]  # beside each other
    first_look.set_viewport_size({"width": 900, "height": 900})
    plot = explorer(first_look).locator(".js-plotly-plot").first
    until_narrow = "(gd) => new Promise((r) => { const look = () => gd._fullLayout.width <= "
    until_narrow += "gd.clientWidth + 2 ? r() : setTimeout(look, 50); look(); })"
    plot.evaluate(until_narrow)
    settings, narrow, numbers = boxes()
    assert settings["y"] + settings["height"] <= narrow["y"]
    assert narrow["y"] + narrow["height"] <= numbers["y"]
    assert narrow["height"] == figure["height"]


def test_the_code_can_be_copied(first_look: Page):
    first_look.context.grant_permissions(["clipboard-read", "clipboard-write"])
    button = explorer(first_look).get_by_role("button", name="Copy code")
    button.click()
    expect(explorer(first_look).get_by_role("button", name="Copied")).to_be_visible()
    copied = first_look.evaluate("navigator.clipboard.readText()")
    assert copied == "DataLoader(dataset, batch_size=4, num_workers=3)"


def test_play_moves_batches_through_the_queues(first_look: Page):
    first_look.get_by_text("Play: watch the queues").click()
    scene = explorer(first_look).locator(".loaderviz-scene")
    expect(scene.locator(".token")).to_have_count(24)
    words = scene.get_by_role("status")
    expect(words).to_contain_text("the consumer has batch 0")
    cursor = explorer(first_look).locator(".loaderviz-cursor")
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
    first_look.keyboard.press("End")
    expect(words).to_contain_text("all is delivered", ignore_case=True)
    # Closed again, it leaves the timeline alone.
    first_look.get_by_text("Play: watch the queues").click()
    expect(cursor).to_have_count(0)


def test_cancel_ends_a_long_run_and_leaves_no_process(first_look: Page):
    for label in ("s per sample", "s per model step"):
        handle(first_look, label).focus()
        first_look.keyboard.press("End")
    first_look.get_by_role("button", name="Run for real").click()
    # Followed batch by batch, while the page stays alive.
    running = re.compile(r"Running: ([2-9]|1\d) of 24 batches")
    expect(explorer(first_look)).to_contain_text(running, timeout=60_000)
    assert kernels_children() != []

    explorer(first_look).get_by_role("button", name="Cancel").click()
    expect(explorer(first_look)).to_contain_text("Cancelled after", timeout=10_000)
    expect(explorer(first_look).get_by_role("button", name="Cancel")).to_be_disabled()
    assert kernels_children() == []


def test_how_long_the_picture_takes_to_follow_is_told(first_look: Page, capsys):
    """50 batches and 8 workers, from the key press to the figure on the page. Reported only."""
    more = first_look.get_by_text("more settings")
    more.click()
    for label, presses in (("workers", 5), ("samples", 104)):
        handle(first_look, label).focus()
        for _ in range(presses):
            first_look.keyboard.press("ArrowRight")
    expect(explorer(first_look).locator(".gtitle").first).to_contain_text("eight workers")
    expect(explorer(first_look)).to_contain_text("50 batches", timeout=60_000)
    handle(first_look, "s per model step").focus()
    took_ms = explorer(first_look).evaluate(FOLLOWS)
    assert len(took_ms) == 40
    with capsys.disabled():
        middle, most = (sorted(took_ms)[len(took_ms) * part // 100] for part in (50, 95))
        print(f"\nfrom key to picture: {middle:.0f} ms (median), {most:.0f} ms (95th percentile)")


FOLLOWS = """async (root) => {
  const gd = root.querySelector(".js-plotly-plot");
  const handle = document.activeElement;
  let drawn = () => {};
  gd.on("plotly_afterplot", () => drawn());
  const took = [];
  for (let i = 0; i < 40; i++) {
    const follows = new Promise((resolve) => { drawn = resolve; });
    const begun = performance.now();
    const key = i % 20 < 10 ? "ArrowRight" : "ArrowLeft";
    handle.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
    await follows;
    await new Promise(requestAnimationFrame);
    took.push(performance.now() - begun);
    await new Promise((resolve) => setTimeout(resolve, 150));
  }
  return took;
}"""
