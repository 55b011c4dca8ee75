"""A report in a real Chromium: drawn without a network, light and dark, on paper, and harmless."""

import dataclasses
import re

import numpy as np
import pytest
from playwright.sync_api import Browser, Page, expect
from torch.utils.data import DataLoader

from loaderviz import Costs, record, simulate
from loaderviz.report import write
from traces import made

DRAWN = "html[data-drawn=all]"
MARKUP = (
    "</script><script>window.hit = 1</script><img src=x onerror='window.hit = 1'>"
    "<!--\u2028<a href='javascript:window.hit = 1'>{{7*7}}"
)
COLOURS = """() => [
    getComputedStyle(document.body).backgroundColor,
    getComputedStyle(document.querySelector("#figure-timeline .ytick text")).fill,
]"""


@pytest.fixture
def opened(browser: Browser):
    """Opens pages that may fetch nothing; whatever they complain of fails the test."""
    contexts, said = [], []

    def heard(message, blocked):
        if message.type == "error" and f"Executing inline {blocked}" not in message.text:
            said.append(message.text)

    def open_(path, blocked="nothing", **options) -> Page:
        context = browser.new_context(viewport={"width": 1280, "height": 900}, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda each: said.append(str(each)))
        page.on("console", lambda each: heard(each, blocked))
        page.on("dialog", lambda each: (said.append(each.message), each.dismiss()))
        page.on(
            "request", lambda each: None if "file:" in each.url[:5] else said.append(each.url[:80])
        )
        page.goto(path.as_uri())
        page.wait_for_selector(DRAWN)
        return page

    yield open_
    for context in contexts:
        context.close()
    assert said == []


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """Past 1,500 batches: figures with levels of detail."""
    costs = Costs(sample_s=[0.01, 0.02], step_s=0.02, startup_s=0.1, cores=4)
    path = tmp_path_factory.mktemp("report") / "report.html"
    write(simulate(costs, num_workers=3, batch_size=4, n_batches=1000, epochs=2), path)
    return path


def test_it_follows_the_theme_also_while_it_is_open(opened, large):
    page = opened(large, color_scheme="light")
    expect(page.get_by_role("heading", level=1)).to_contain_text("the model never waits")
    light = page.evaluate(COLOURS)
    page.emulate_media(color_scheme="dark")
    expect(page.locator("#figure-timeline")).to_have_class(re.compile("loaderviz-dark"))
    dark = page.evaluate(COLOURS)
    assert all(one != other for one, other in zip(light, dark, strict=True))


def test_a_flag_of_the_whole_run_leads_to_what_was_saved_then(opened, tmp_path):
    loader = DataLoader(range(400), batch_size=2)
    with record(loader, last_s=600, path=tmp_path / "run") as recording:
        for number, _batch in enumerate(loader):
            if number == 100:
                recording.save_incident("the loss is odd")
    write(recording.trace, tmp_path / "report.html")
    page = opened(tmp_path / "report.html")
    timeline = page.locator("#figure-incident-0-1")
    expect(timeline).not_to_be_in_viewport()
    page.locator("#figure-run .annotation-text-g", has_text="⚑ 1").click()
    expect(timeline).to_be_in_viewport()
    expect(timeline).to_contain_text("consumer")


@pytest.mark.slow
def test_a_bar_of_a_cause_says_what_shows_it(opened, large):
    page = opened(large)
    causes = page.locator("#figure-causes")
    causes.scroll_into_view_if_needed()
    causes.locator(".barlayer .point path").first.hover(force=True)
    expect(causes.locator(".hoverlayer")).to_contain_text("of the time")


@pytest.mark.slow
def test_figures_show_bands_from_afar_and_steps_when_near(opened, large):
    page = opened(large)
    waits = page.locator("#figure-waits")
    expect(page.locator("#figure-timeline")).to_have_attribute("data-level", "bands")
    expect(waits).to_have_attribute("data-level", "bands")
    assert waits.evaluate("(gd) => gd.data[2].x.length") == 0
    waits.evaluate("(gd) => Plotly.relayout(gd, { 'xaxis.range': [100.5, 150.5] })")
    expect(waits).to_have_attribute("data-level", "steps")
    assert waits.evaluate("(gd) => gd.data[2].x") == list(range(101, 151))
    waits.evaluate("(gd) => Plotly.relayout(gd, { 'xaxis.range': [0, 2001] })")
    expect(waits).to_have_attribute("data-level", "bands")


@pytest.mark.slow
def test_nothing_is_wider_than_a_narrow_window_and_the_keyboard_reaches_all(opened, large):
    page = opened(large)
    page.set_viewport_size({"width": 800, "height": 900})
    page.wait_for_function("document.querySelector('#figure-timeline').clientWidth < 800")
    assert page.evaluate("document.documentElement.scrollWidth") <= 800
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    details = page.locator("details").last
    details.locator("summary").focus()
    page.keyboard.press("Enter")
    expect(details).to_have_attribute("open", "")


@pytest.mark.slow
def test_on_a_phone_what_is_too_wide_can_be_moved_and_nothing_is_cut_off(opened, large):
    page = opened(large)
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    cut_off = """() => [...document.querySelectorAll("main *")].filter((each) =>
        each.getBoundingClientRect().right > 391 && !each.closest(".across, .scroll"))
        .map((each) => each.outerHTML.slice(0, 80))"""
    assert page.evaluate(cut_off) == []
    timeline = page.locator(".across:has(#figure-timeline)")
    timeline.evaluate("(place) => place.scrollTo(9999, 0)")
    assert timeline.evaluate("(place) => place.scrollLeft") > 200


@pytest.mark.slow
def test_a_heading_is_printed_on_the_page_of_its_figure(opened, large):
    page = opened(large)
    page.emulate_media(media="print")
    apart = """() => [...document.querySelectorAll("h2 + *, h3 + *")].filter((next) =>
        (next.matches(".figure") || next.nextElementSibling?.matches(".figure"))
        && getComputedStyle(next.parentElement).breakInside !== "avoid")
        .map((next) => next.previousElementSibling.textContent)"""
    assert page.evaluate(apart) == []


@pytest.mark.slow
def test_on_paper_it_is_light_whole_and_afterwards_as_before(opened, large):
    page = opened(large, color_scheme="dark")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    assert page.evaluate(COLOURS)[0] == "rgb(255, 255, 255)"
    expect(page.locator("#figure-timeline")).not_to_have_class(re.compile("loaderviz-dark"))
    assert page.locator("details:not([open])").count() == 0
    widths = page.eval_on_selector_all(
        ".plot .svg-container", "all => all.map((each) => each.getBoundingClientRect().width)"
    )
    assert max(widths) <= 980
    page.emulate_media(media="screen")
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert page.locator("details[open]").count() == 0
    assert len(page.pdf(prefer_css_page_size=True)) > 20_000


def test_names_of_the_user_are_only_text(opened, tmp_path):
    trace = made(batches=12, batch_size=2)
    keys = np.array([f"{MARKUP}{i // 2}" for i in range(len(trace.samples))], object)
    spans = trace.spans.reindex([0]).assign(rank=0, name=MARKUP, start_s=1.0, end_s=2.0)
    trace = dataclasses.replace(
        trace,
        samples=trace.samples.assign(key=keys),
        spans=spans,
        workers=trace.workers.assign(exit="killed", last_key=MARKUP, start_method=MARKUP),
        meta={
            "label": MARKUP,
            "host": MARKUP,
            "problems": [MARKUP],
            "loaders": [{"class": MARKUP, "dataset": MARKUP, "num_workers": 2}],
        },
    )
    write(trace, tmp_path / "report.html")
    page = opened(tmp_path / "report.html")
    expect(page.locator(".run")).to_contain_text("<img src=x")
    assert page.locator("script").count() == 3
    assert page.locator("img, a[href^=javascript]").count() == 0
    # Every text that appears under the mouse, too.
    place = page.locator("#figure-timeline").bounding_box()
    for down in range(60, int(place["height"]), 24):
        for along in range(120, int(place["width"]), 160):
            page.mouse.move(place["x"] + along, place["y"] + down)
    assert page.evaluate("window.hit") is None


def test_its_policy_lets_no_other_script_run(opened, large):
    page = opened(large, blocked="script")
    ran = page.evaluate(
        """() => new Promise((tell) => {
            document.addEventListener("securitypolicyviolation", () => tell("stopped"));
            const script = document.createElement("script");
            script.textContent = "window.hit = 1";
            document.body.append(script);
            setTimeout(() => tell(window.hit === 1 ? "ran" : "nothing"), 500);
        })"""
    )
    assert ran == "stopped"
