"""What a reader does with single notebooks once they have run, beside what holds for every one."""

from playwright.sync_api import Locator, Page, expect

from browser.reader import bars, set_theme


def slider(widget: Locator, page: Page, label: str) -> Locator:
    named = widget.locator(".widget-slider").filter(has=page.get_by_text(label, exact=True))
    return named.locator(".noUi-handle")


def first_look(page: Page) -> None:
    """Hovers a batch, so that it stands out; clicks it; changes the theme; widens the window."""
    # The explorer's, the two that follow an answer, two of the explorer with pictures, the
    # exercise's.
    plots = page.locator(".jp-Notebook .js-plotly-plot.loaderviz")
    expect(plots).to_have_count(6, timeout=30_000)
    plot = plots.nth(2)
    all_bars = plot.locator(".bars .point")
    faint = "(bars) => bars.filter((bar) => +(bar.style.opacity || 1) < 0.5).length"
    assert all_bars.evaluate_all(faint) == 0
    box = bars(plot, "sample").nth(20)  # the sixth batch's first
    _point_at(page, box)
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
    page.mouse.move(5, 5)
    expect(plot).to_have_attribute("data-batch", "5")

    _text_follows_the_theme(page)
    _figures_keep_their_height(page)
    set_theme(page, "Light")


def _point_at(page: Page, box: Locator) -> None:
    """Once it has come to rest: the cells above still take their heights after a scroll."""
    box.scroll_into_view_if_needed()
    before = None
    while (now := box.bounding_box()) != before:
        before = now
        page.wait_for_timeout(300)
    box.hover(force=True)


def _text_follows_the_theme(page: Page) -> None:
    title = page.locator(".js-plotly-plot.loaderviz .gtitle").first
    colour = "(title) => getComputedStyle(title).fill"
    light = title.evaluate(colour)
    set_theme(page, "Dark")
    expect(page.locator(".loaderviz-dark").first).to_be_attached()
    assert title.evaluate(colour) != light


def _figures_keep_their_height(page: Page) -> None:
    plots = page.locator(".jp-RenderedPlotly.loaderviz")
    heights = "(all) => all.map((plot) => plot.clientHeight)"
    plots.last.scroll_into_view_if_needed()  # the first shows pictures, which keep their shape
    before = plots.evaluate_all(heights)
    width = plots.last.bounding_box()["width"]
    usual = page.viewport_size
    page.set_viewport_size({"width": 1720, "height": 1000})
    page.wait_for_function(
        """(was) => [...document.querySelectorAll(".jp-RenderedPlotly.loaderviz .main-svg")]
          .at(-1).clientWidth > was + 100""",
        arg=width,
    )
    assert plots.evaluate_all(heights) == before
    assert min(before) > 200
    page.set_viewport_size(usual)


def duplicates(page: Page) -> None:
    """Adds workers: as many lanes, and as many copies of every sample."""
    copies = page.locator(".loaderviz-vary").first
    expect(copies.locator(".gtitle")).to_contain_text("Every sample came exactly once")
    slider(copies, page, "workers").focus()
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    expect(copies.locator(".gtitle")).to_contain_text("Every sample came 4 times")
    expect(copies.locator(".ytick text")).to_have_text([f"worker {n}" for n in range(4)])
    expect(copies.locator(".gtitle-subtitle")).to_contain_text("simulated · 64 samples")


def mixing_a_stream(page: Page) -> None:
    """Enlarges the buffer: it shuffles better."""
    mix = page.locator(".loaderviz-vary")
    expect(mix.locator(".gtitle")).to_contain_text("2.9 of 10 classes")
    slider(mix, page, "buffer size").focus()
    page.keyboard.press("End")
    expect(mix.locator(".gtitle")).to_contain_text("10.0 of 10 classes")


def many_ranks(page: Page) -> None:
    """Adds two ranks and a sample: the figures follow."""
    dealing, ending, _ = page.locator(".loaderviz-vary").all()
    expect(dealing.locator(".gtitle")).to_contain_text("Every sample came exactly once")
    slider(dealing, page, "ranks").focus()
    page.keyboard.press("ArrowRight")
    expect(dealing.locator(".ytick text")).to_have_count(3)
    expect(dealing.locator(".gtitle")).to_contain_text("2 of 16 samples came more than once")

    expect(ending.locator(".gtitle")).to_contain_text("All ranks end")
    slider(ending, page, "samples").focus()
    page.keyboard.press("ArrowRight")
    expect(ending.locator(".gtitle")).to_contain_text("Rank 0 waits in vain")


LOOKS = {
    "00_first_look.ipynb": first_look,
    "04_duplicates_and_losses.ipynb": duplicates,
    "09_many_ranks.ipynb": many_ranks,
    "14_mixing_a_stream.ipynb": mixing_a_stream,
}
