"""Draws the pictures of the README and the notebooks, from recordings made here and now.

What a GPU does is simulated, so that any machine can draw it. The pictures have no background, and
text that reads on any: notebooks are light or dark.

Run by `make pictures`; with the names of some pictures only those are drawn, and `slider` films a
notebook. Needs a Chromium, as the browser tests do.
"""

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import film
import marks
import pandas as pd
import queue_diagram
from playwright.sync_api import Browser, sync_playwright
from torch.utils.data import DataLoader, IterableDataset

from loaderviz import Trace, audit, load, recommend, record, timeline
from loaderviz._audit import Audit
from loaderviz._plot_timings import take
from loaderviz._recommend import Recommendation
from loaderviz.course.datasets import (
    Dice,
    MultiStreamDataLoader,
    RemoteTable,
    SleepingDataset,
    SlotStreams,
    SplitStream,
    Stream,
    dice,
    splits,
)
from loaderviz.course.figures import draws, stacked
from loaderviz.course.inside_the_dataloader import slow_dataset
from loaderviz.course.launch_ranks import torchrun
from loaderviz.course.simulated_device import feed, side_by_side
from loaderviz.course.stop_and_resume import seen_by
from loaderviz.figures import style
from loaderviz.report import write

HERE = Path(__file__).parent
RECORDINGS = HERE.parent / "recordings"
# The look of a page that is neither light nor dark; what separates boxes is seen through.
ON_ANY = f"""<style>
  .loaderviz {{ --lv-text: {style.ON_ANY} !important; --lv-muted: {style.ON_ANY} !important;
    --lv-grid: rgba(125, 133, 144, .3) !important; }}
  .loaderviz .bars path[style*="stroke: rgb(255, 255, 255)"] {{ stroke: transparent !important; }}
</style>"""
WIDTH, SCALE = 1100, 2
REPORT_HEIGHT = 400


def two_workers() -> list[Trace]:
    loader = DataLoader(SleepingDataset(48, 0.025), batch_size=4, num_workers=2)
    with record(loader) as rec:
        take(loader, model_time=0.04)
    return [rec.trace]


def twice_and_never() -> list[Audit]:
    streams = Stream(range(16)), SplitStream(range(17), splits.by_floor)
    return [audit(DataLoader(each, batch_size=4, num_workers=2)) for each in streams]


class SlowRows(IterableDataset[Any]):
    """Rows of a table, read in chunks from a slow disk: each takes 0.1 s."""

    def __init__(self, path: Path, chunk_rows: int) -> None:
        self.path, self.chunk_rows = path, chunk_rows

    def __iter__(self) -> Iterator[Any]:
        with pd.read_csv(self.path, sep="\t", chunksize=self.chunk_rows) as chunks:
            for chunk in chunks:
                time.sleep(0.1)
                yield from chunk.to_dict("records")


def begun_anew() -> list[Audit]:
    batches = [batch.tolist() for batch in DataLoader(range(32), batch_size=4)]
    return [seen_by(batches[:5], batches[:3], n_samples=32)]


def requests_and_chunks() -> list[Any]:
    by_key = DataLoader(RemoteTable(24, 0.03), batch_size=6)
    with TemporaryDirectory() as folder:
        table = Path(folder, "table.tsv")
        pd.DataFrame({"minute": range(2000)}).to_csv(table, sep="\t", index=False)
        in_chunks = DataLoader(SlowRows(table, 250), batch_size=100)
        list(in_chunks)  # pandas takes its time the first time
        traces = []
        for loader, step_s in ((by_key, 0.06), (in_chunks, 0.025)):
            with record(loader) as rec:
                take(loader, step_s)
            traces.append(rec.trace)
    titles = ("Map-style: each row is a request", "Iterable: a chunk of 250 rows is read at a time")
    return stacked(dict(zip(titles, traces, strict=True)))


def an_overtaken_batch() -> list[Trace]:
    loader = DataLoader(slow_dataset(), batch_size=4, num_workers=2)
    with record(loader) as rec:
        take(loader, model_time=0.02)
    return [rec.trace]


def one_slow_sample() -> list[Trace]:
    """Of batch 4: its batch holds up the loop, and soon all workers."""
    times = [0.03] * 64
    times[16] = 0.75
    loader = DataLoader(SleepingDataset(64, times), batch_size=4, num_workers=4)
    with record(loader) as rec:
        take(loader, model_time=0.05)
    return [rec.trace]


def seeded_by_number() -> list[Any]:
    """Of each worker and epoch the numbers that it draws."""
    dataset, seed = Dice(16, "numpy"), dice.seed_by_number
    loader = DataLoader(dataset, batch_size=2, num_workers=2, worker_init_fn=seed)
    with record(loader) as rec:
        numbers = [n for _ in range(2) for batch in loader for n in batch.tolist()]
    samples = rec.trace.samples.sort_values(["epoch", "batch", "position"])
    return [draws(samples[["epoch", "worker"]].assign(number=numbers))]


def two_parts_of_each_batch() -> list[Any]:
    sequences = [range(10 * k, 10 * k + 8) for k in range(16)]
    loader = MultiStreamDataLoader(SlotStreams(sequences, 4, sample_s=0.04).split(2))
    with record(loader) as rec:
        take(loader, model_time=0.06, n_batches=12)
    return stacked({"Each batch has a part from both workers": rec.trace})


def two_ranks() -> list[Any]:
    """Real ones: neither knows of the other, and with a ``DistributedSampler``."""
    audits = [audit(run.trace) for run in torchrun("whole", "dealt").values()]
    return [each.figure(numbers="sample") for each in audits]


def a_rule_and_what_is_recommended() -> list[Recommendation]:
    """Four workers, as for a GPU, where samples wait for a far-away disk."""
    loader = DataLoader(SleepingDataset(8000, 0.02), batch_size=8, num_workers=4)
    return [recommend(loader, step_s=0.02, max_workers=16)]


def waiting_for_copies_and_ahead_of_them() -> list[Any]:
    """Simulated: a picture that needs no GPU."""
    return [side_by_side([feed("pageable"), feed("copied ahead")], seconds=0.66)]


def a_loop_that_waits() -> list[Any]:
    """The recording that notebook 10 begins with: its first seconds."""
    title = "Half of the time this loop waits: what would help?"
    figure = timeline(load(RECORDINGS / "photos_2_workers.parquet"), title=title)
    figure.layout.title.subtitle.text = "measured on 2 CPUs, November 2026"
    return [figure.update_xaxes(range=[0, 4])]


# What is drawn, one below another.
PICTURES: dict[str, Callable[[], list[Any]]] = {
    "timeline": two_workers,
    "duplicates": twice_and_never,
    "map_and_iterable": requests_and_chunks,
    "inside_the_dataloader": an_overtaken_batch,
    "streaming": two_parts_of_each_batch,
    "workers_on_a_timeline": one_slow_sample,
    "randomness": seeded_by_number,
    "many_ranks": two_ranks,
    "your_own_loader": a_loop_that_waits,
    "stop_and_resume": begun_anew,
    "how_many_workers": a_rule_and_what_is_recommended,
    "feeding_the_gpu": waiting_for_copies_and_ahead_of_them,
}


def main() -> None:
    names = ("chromium", "chromium-browser", "google-chrome")
    chromium = os.environ.get("LOADERVIZ_CHROMIUM") or next(filter(None, map(shutil.which, names)))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for name in sys.argv[1:] or [*PICTURES, "report", "marks", "queues", "slider"]:
            if name == "marks":
                marks.PICTURE.write_text(marks.svg(), "utf-8")
                continue
            if name == "queues":
                queue_diagram.draw()
                continue
            if name == "slider":
                film.film(browser)
                continue
            if name == "report":
                draw_report(
                    browser, load(RECORDINGS / "photos_5_workers.parquet"), "report_light.png"
                )
                continue
            draw(browser, [figure_of(each) for each in PICTURES[name]()], f"{name}_light.png")
        browser.close()


def draw_report(browser: Browser, trace: Trace, name: str) -> None:
    """The top of the page that ``loaderviz report`` writes."""
    with TemporaryDirectory() as folder:
        html = Path(folder) / "report.html"
        write(trace, html)
        size = {"width": WIDTH, "height": REPORT_HEIGHT}
        page = browser.new_page(viewport=size, device_scale_factor=SCALE)
        page.goto(html.as_uri())
        page.locator(".point").first.wait_for()
        page.screenshot(path=HERE / name)
        page.close()


def figure_of(drawn: Any) -> Any:
    if isinstance(drawn, Trace):
        return timeline(drawn)
    return drawn.figure() if isinstance(drawn, Audit | Recommendation) else drawn


def draw(browser: Browser, figures: list[Any], name: str) -> None:
    with TemporaryDirectory() as folder:
        page = browser.new_page(
            viewport={"width": WIDTH, "height": sum(int(each.layout.height) for each in figures)},
            device_scale_factor=SCALE,
        )
        html = Path(folder) / "figure.html"
        html.write_text(
            f"<body style='margin:0'>{ON_ANY}"
            + "".join(
                each.to_html(full_html=False, config={"displayModeBar": False}) for each in figures
            )
        )
        page.goto(html.as_uri())
        for number in range(len(figures)):
            page.locator(".loaderviz").nth(number).locator(".point").first.wait_for()
        page.screenshot(path=HERE / name, omit_background=True)
        page.close()


if __name__ == "__main__":
    main()
