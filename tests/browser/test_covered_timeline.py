"""Batches too many to be told apart, in a real Chromium: zoomed in on, or under the mouse."""

import pytest
from playwright.sync_api import Browser, expect

from browser.test_large_timeline import drag
from loaderviz import Costs, simulate, timeline

pytestmark = pytest.mark.slow

# How opaque the first bar of each kind of mark is.
OPAQUE = """(gd) => Object.fromEntries([...gd.querySelectorAll(".trace.bars")]
    .map((group) => [group.__data__[0].trace.name, group])
    .filter(([, group]) => group.querySelector(".point"))
    .map(([name, group]) => [name, getComputedStyle(group).display === "none" ? 0
        : Number(getComputedStyle(group).opacity)]))"""


@pytest.fixture
def page(browser: Browser, tmp_path):
    path = tmp_path / "covered.html"
    costs = Costs(sample_s=0.006, step_s=0.03)
    figure = timeline(simulate(costs, num_workers=2, batch_size=4, n_batches=200))
    figure.write_html(path)
    context = browser.new_context(viewport={"width": 1100, "height": 600})
    page = context.new_page()
    page.goto(path.as_uri())
    yield page
    context.close()


def test_batches_are_told_apart_when_near_and_samples_when_nearer(page):
    plot = page.locator(".js-plotly-plot")
    expect(plot).to_have_attribute("data-level", "busy")
    shown = plot.evaluate(OPAQUE)
    assert (shown["cover of batches"], shown["step"], shown["sample"]) == (1, 0, 0)
    drag(page, plot, 2.0, 3.2)
    expect(plot).to_have_attribute("data-level", "batches")
    shown = plot.evaluate(OPAQUE)
    assert (shown["cover of batches"], shown["cover of samples"], shown["step"]) == (0, 1, 1)
    drag(page, plot, 2.2, 2.6)
    expect(plot).to_have_attribute("data-level", "samples")
    shown = plot.evaluate(OPAQUE)
    assert (shown["cover of samples"], shown["sample"]) == (0, 1)


def test_the_batch_under_the_mouse_shows_through(page):
    plot = page.locator(".js-plotly-plot")
    expect(plot).to_have_attribute("data-level", "busy")
    box = plot.locator(".trace.bars", has=page.locator(".point")).last.locator(".point").nth(100)
    frame = box.bounding_box()
    page.mouse.move(frame["x"] + frame["width"] / 2, frame["y"] + frame["height"] / 2)
    expect(plot).to_have_attribute("data-batch", "100")
    steps = """(gd) => {
        const group = [...gd.querySelectorAll(".trace.bars")]
            .find((each) => each.__data__[0].trace.name === "step");
        return [...group.querySelectorAll(".point")].map((bar) => getComputedStyle(bar).opacity);
    }"""
    page.wait_for_function(
        f"(gd) => ({steps})(gd).filter((each) => each === '1').length === 1",
        arg=plot.element_handle(),
    )
    assert plot.evaluate(steps)[100] == "1"
    page.mouse.move(2, 2)
    expect(plot).to_have_attribute("data-batch", "")
    assert plot.evaluate(OPAQUE)["step"] == 0
