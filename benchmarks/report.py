"""What a report of 10 million samples, and of 300 loaders, costs: `python benchmarks/report.py`.

How long each part of it takes, how large the page is, and how long until its first picture and
all pictures are seen. Needs a Chromium, as the browser tests do. One run for what takes seconds,
medians of several for the page.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from figures import N_SAMPLES, REPEATS, large
from playwright.sync_api import Browser, sync_playwright
from torch.utils.data import DataLoader, TensorDataset

from loaderviz import Trace, load, record, watch
from loaderviz._doctor import findings_of
from loaderviz.report import content_of, predictions_and_audits, report_tables
from loaderviz.report.render_page import page_of

N_LOADERS = 300


def main() -> None:
    of_many_loaders()
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        saved = Path(folder) / "run.parquet"
        as_recorded(large(N_SAMPLES)).save(saved)
        trace = timed("opened", lambda: load(saved))
        print(f"{len(trace.samples):,} samples in {len(trace.batches):,} batches")
        timed(
            "waits and tables",
            lambda: (report_tables.waits_of(trace), report_tables.workers_of(trace)),
        )
        timed("findings", lambda: findings_of(trace))
        timed("predictions", lambda: content_of(trace).prediction)
        timed("audit", lambda: predictions_and_audits.audit_loaders(trace))
        content = content_of(trace)
        timed("all that it says", content.data)
        page = timed("page", lambda: page_of(content))
        path = Path(folder) / "report.html"
        path.write_text(page)
        print(f"page, plotly.js in it: {path.stat().st_size / 1e6:.2f} MB")
        names = ("chromium", "chromium-browser", "google-chrome")
        found = os.environ.get("LOADERVIZ_CHROMIUM") or next(filter(None, map(shutil.which, names)))
        flags = ["--no-sandbox", "--disable-gpu"]
        browser = playwright.chromium.launch(executable_path=found, args=flags)
        took = [opening(browser, path) for _ in range(REPEATS)]
        words, first, all_ = (statistics.median(each) for each in zip(*took, strict=True))
        print(f"words after {words:.2f} s, timeline after {first:.2f} s, all after {all_:.2f} s")
        browser.close()


def of_many_loaders() -> None:
    """The commands on a recording of many loaders, each in a process of its own."""
    datasets = [TensorDataset(torch.arange(2 * N_LOADERS)), TensorDataset(torch.arange(40))]
    train = DataLoader(datasets[0], batch_size=2)
    with record(train, watch(())) as rec:
        for _, _ in zip(range(N_LOADERS - 1), train, strict=False):
            for _ in DataLoader(datasets[1], batch_size=4, num_workers=1):
                pass
    with tempfile.TemporaryDirectory() as folder:
        rec.trace.save(Path(folder) / "run.parquet")
        print(f"{rec.trace.batches['loader'].nunique()} loaders")
        for command in ("summary", "report"):
            call = [sys.executable, "-m", "loaderviz", command, "run.parquet"]
            run = partial(subprocess.run, call, cwd=folder, check=True, capture_output=True)
            timed(command, run)


def as_recorded(trace: Trace) -> Trace:
    """With keys in random order."""
    keys = np.random.default_rng(0).permutation(len(trace.samples))
    return replace(trace, samples=trace.samples.assign(key=keys))


def opening(browser: Browser, path: Path) -> tuple[float, float, float]:
    """From an empty page to its words, its timeline and its last figure."""
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    start = time.perf_counter()
    took = []
    page.goto(path.as_uri(), wait_until="commit")
    for what in ("#figure-timeline.loaderviz-drawn", "html[data-drawn=all]"):
        page.wait_for_selector(what)
        took.append(time.perf_counter() - start)
    words_ms = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    page.close()
    first, all_ = took
    return words_ms / 1000, first, all_


def timed(name: str, act: Callable[[], Any]) -> Any:
    start = time.perf_counter()
    done = act()
    print(f"{name}: {time.perf_counter() - start:.2f} s")
    return done


if __name__ == "__main__":
    main()
