"""How fast figures are: `python benchmarks/figures.py`.

A timeline of 10 million samples: how long until its first picture, in Python and in the page, how
long a zoom takes there, and how large the page is. Then what one what-if of 200 batches takes with
its figure. Needs a Chromium, as the browser tests do. Medians of several runs.
"""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import Browser, Page, sync_playwright

from loaderviz import Costs, Trace, simulate, timeline

N_SAMPLES, BATCH_SIZE = 10_000_000, 64
REPEATS = 5
DRAWN = ".loaderviz-drawn"
# Until the browser has painted what follows from a zoom.
ZOOM = """async (range) => {
    const plot = document.querySelector(".js-plotly-plot");
    const start = performance.now();
    await Plotly.relayout(plot, { "xaxis.range": range });
    await new Promise((act) => requestAnimationFrame(() => setTimeout(act)));
    return [performance.now() - start, plot.dataset.level];
}"""


def main() -> None:
    trace = large(N_SAMPLES)
    print(f"{len(trace.samples):,} samples in {len(trace.batches):,} batches")
    timeline(trace)  # imports
    made = median(lambda: timeline(trace))
    figure = timeline(trace)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        path = Path(folder) / "figure.html"
        written = median(lambda: figure.write_html(path, include_plotlyjs="directory"))
        print(f"the figure is made in {made:.2f} s, the page written in {written:.2f} s")
        print(f"the page without plotly.js: {path.stat().st_size / 1e6:.2f} MB")
        names = ("chromium", "chromium-browser", "google-chrome")
        found = os.environ.get("LOADERVIZ_CHROMIUM") or next(filter(None, map(shutil.which, names)))
        flags = ["--no-sandbox", "--disable-gpu"]
        browser = playwright.chromium.launch(executable_path=found, args=flags)
        opened = statistics.median(opening(browser, path) for _ in range(REPEATS))
        first = made + written + opened
        print(f"opened and drawn in {opened:.2f} s: the first picture after {first:.2f} s")
        page = browser.new_page(viewport={"width": 1100, "height": 600})
        page.goto(path.as_uri())
        page.wait_for_selector(DRAWN)
        zooms(page, figure.layout.xaxis.range)
        browser.close()
    print("\n200 batches, 8 workers, batches of 4")
    costs = Costs(sample_s=np.random.default_rng(0).gamma(4.0, 0.00025, 10_000), step_s=0.004)
    settings: dict[str, Any] = {"num_workers": 8, "batch_size": 4, "n_batches": 200}
    alone = median(lambda: simulate(costs, **settings))
    both = median(lambda: timeline(simulate(costs, **settings)))
    figure = timeline(simulate(costs, **settings))
    sent = median(figure.to_json)
    size = len(figure.to_json()) / 1000
    print(f"simulated in {1000 * alone:.1f} ms, and drawn in {1000 * both:.1f} ms")
    print(f"as JSON in {1000 * sent:.1f} ms: {size:.0f} kB")


def large(n_samples: int) -> Trace:
    """A recording as four workers make it, nothing in it twice: random costs for every sample."""
    random = np.random.default_rng(0)
    n_batches = n_samples // BATCH_SIZE
    costs = Costs(
        sample_s=random.gamma(4.0, 0.00025, n_samples),
        step_s=random.gamma(9.0, 0.002, n_batches),
        collate_s=random.gamma(9.0, 0.0001, n_batches),
        startup_s=0.05,
    )
    return simulate(costs, num_workers=4, batch_size=BATCH_SIZE, n_batches=n_batches)


def opening(browser: Browser, path: Path) -> float:
    """From an empty page to the picture."""
    page = browser.new_page(viewport={"width": 1100, "height": 600})
    start = time.perf_counter()
    page.goto(path.as_uri())
    page.wait_for_selector(DRAWN)
    page.evaluate("new Promise((act) => requestAnimationFrame(() => setTimeout(act)))")
    took = time.perf_counter() - start
    page.close()
    return took


def zooms(page: Page, whole: tuple[float, float]) -> None:
    span, middle = whole[1] - whole[0], sum(whole) / 2
    for name, share in (("in to a half", 0.5), ("in to 1,000 batches", 0.006), ("out to all", 1.0)):
        took, level = [], ""
        for shift in range(REPEATS):
            page.evaluate(ZOOM, list(whole) if share < 1 else [middle, middle + 0.001 * span])
            start = whole[0] if share == 1 else middle - span * share / 2 * (1 + shift / 10)
            ms, level = page.evaluate(ZOOM, [start, start + span * share])
            took.append(ms)
        print(f"zoom {name} ({level}): {statistics.median(took):.0f} ms, at most {max(took):.0f}")


def median(act: Callable[[], Any]) -> float:
    took = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        act()
        took.append(time.perf_counter() - start)
    return statistics.median(took)


if __name__ == "__main__":
    main()
