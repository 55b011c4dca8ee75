"""Draws the pictures of the README and the notebooks, from recordings made here and now.

What a GPU does is simulated, so that any machine can draw it. Each is a white card, which reads on
a light page and on a dark one.

Run by `make pictures`; with the names of some pictures only those are drawn, and `slider` films a
notebook. Needs a Chromium, as the browser tests do.
"""

import os
import random
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import film
import marks
import queue_diagram
import torch
from PIL import Image
from playwright.sync_api import Browser, sync_playwright
from torch.utils.data import DataLoader, get_worker_info

from loaderviz import Costs, Trace, audit, load, record, timeline
from loaderviz._audit import Audit
from loaderviz._plot_timings import take
from loaderviz.course.datasets import (
    Dice,
    FaceLandmarks,
    FileLines,
    SleepingDataset,
    SleepingStream,
    Stream,
)
from loaderviz.course.datasets.faces import with_landmarks
from loaderviz.course.figures import beside, chart, classes, draws, stacked
from loaderviz.course.ranks_in_step import simulate_in_step
from loaderviz.course.simulated_device import feed
from loaderviz.course.stop_and_resume import seen_by
from loaderviz.figures import run
from loaderviz.report import write
from loaderviz.text import duration

HERE = Path(__file__).parent
RECORDINGS = HERE.parent / "recordings"
WIDTH, SCALE = 1100, 2
REPORT_HEIGHT = 400


def no_workers() -> list[Any]:
    loader = DataLoader(SleepingDataset(40, 0.03), batch_size=4)
    with record(loader) as rec:
        take(loader, model_time=0.08)
    return [timeline(rec.trace, title="The loop waits before each step. Why?")]


def two_workers() -> list[Any]:
    """The beginning of a run that is long enough for its pace to count, and not its start."""
    loader = DataLoader(SleepingDataset(240, 0.025), batch_size=4, num_workers=2)
    with record(loader) as rec:
        take(loader, model_time=0.04)
    figure = timeline(rec.trace).update_xaxes(range=[0, 1])
    figure.layout.title.subtitle.text = (
        f"measured · the first second of {duration(rec.trace.summary().elapsed_s)}"
    )
    return [figure]


def once_and_twice() -> list[Any]:
    """Sorted: nothing of it tells which worker delivered what, or when."""
    datasets = {"map-style": range(16), "iterable-style": Stream(range(16))}
    came = {
        name: sorted(n for batch in DataLoader(each, 4, num_workers=2) for n in batch.tolist())
        for name, each in datasets.items()
    }
    counts = " or ".join(str(len(numbers)) for numbers in came.values())
    return [beside(came, title=f"Of 16 samples the loop got {counts}", x="sorted")]


def the_last_ones_never() -> list[Audit]:
    return [audit(DataLoader(range(18), batch_size=4, num_workers=2, drop_last=True))]


def other_rows() -> list[Any]:
    """The rows that came for each key: each worker has shuffled its copy of them."""

    def shuffle(worker: int) -> None:
        Random(worker).shuffle(get_worker_info().dataset)

    loader = DataLoader([*range(12)], batch_size=3, num_workers=2, worker_init_fn=shuffle)
    came = [n for batch in loader for n in batch.tolist()]
    title = f"Each of 12 keys came once, and {len({*came})} of 12 rows"
    return [beside({"key": range(12), "its row": came}, title=title, x="in the order they came")]


def stopped_amid_an_epoch() -> list[Any]:
    """What came before the stop; the notebook asks what comes after it."""
    figure = seen_by([batch.tolist() for batch in DataLoader(range(20), batch_size=4)], [])
    figure.layout.title.text = "<b>Five of eight batches came. Which are next?</b>"
    figure.layout.title.subtitle.text = "a box is a sample, its number is its batch · red: to come"
    return [figure]


def any_order_and_one() -> list[Any]:
    seed = torch.Generator().manual_seed(0)
    shuffled = DataLoader(SleepingDataset(12, 0), shuffle=True, generator=seed)
    loaders = {
        "map-style, shuffled": shuffled,
        "iterable-style": DataLoader(SleepingStream(12, 0)),
    }
    figure = beside({name: [int(sample) for sample in of] for name, of in loaders.items()})
    figure.update_layout(title_text="<b>Two datasets of 12 samples, each read by a loader</b>")
    figure.update_layout(title_subtitle_text="a box is a sample, and its number")
    figure.update_xaxes(title_text="in the order in which they came")
    return [figure]


def three_workers() -> list[Any]:
    """They read a little too slowly for their loop."""
    loader = DataLoader(SleepingDataset(48, 0.04), batch_size=4, num_workers=3)
    with record(loader) as rec:
        take(loader, model_time=0.04)
    return [timeline(rec.trace, title="Who waits for whom?")]


def short_epoch() -> list[Any]:
    """Of four forked workers, whose start can be seen."""
    fork = {"multiprocessing_context": "fork"}
    loader = DataLoader(SleepingDataset(48, 0.02), batch_size=4, num_workers=4, **fork)
    with record(loader) as rec:
        take(loader, model_time=0.02)
    return [timeline(rec.trace, title="What do four workers cost?")]


def seeded_by_torch() -> list[Any]:
    """Of each worker and epoch the numbers that it draws."""
    torch.manual_seed(0)
    loader = DataLoader(Dice(16, "numpy"), batch_size=2, num_workers=2)
    with record(loader) as rec:
        numbers = [n for _ in range(2) for batch in loader for n in batch.tolist()]
    samples = rec.trace.samples.sort_values(["epoch", "batch", "position"])
    return [draws(samples[["epoch", "worker"]].assign(number=numbers))]


def sorted_and_shuffled() -> list[Any]:
    """The classes of a sorted stream, and of one that was shuffled as a whole."""
    orders = {"on disk": range(1000), "a full shuffle": random.Random(0).sample(range(1000), 1000)}
    strips = {name: [key // 100 for key in order] for name, order in orders.items()}
    return [classes(strips, title="On disk one class follows another; training wants them mixed")]


def texts_by_length() -> list[Any]:
    """The data of notebook 15."""
    draw = random.Random(0)
    lengths = sorted(1 + int(60 * draw.random() ** 2) for _ in range(200))
    words = {"x": "texts, the shortest first", "y": "tokens"}
    title = f"Most texts are short: {lengths[0]} to {lengths[-1]} tokens, half under {lengths[100]}"
    return [chart({"": (range(200), lengths)}, title=title, **words)]


class SlowLines(FileLines):
    """Each line takes 0.03 s to arrive."""

    def __iter__(self) -> Iterator[str]:
        for line in super().__iter__():
            time.sleep(0.03)
            yield line


def eight_files() -> list[Any]:
    """Each of two workers reads four of them."""
    with TemporaryDirectory() as folder:
        paths = [Path(folder, f"{name}.txt") for name in "abcdefgh"]
        for path in paths:
            path.write_text("line\n" * 6)
        loader = DataLoader(SlowLines(paths), batch_size=4, num_workers=2)
        with record(loader) as rec:
            take(loader, model_time=0.08)
    return stacked({"Two workers read eight files, four each": rec.trace})


def two_ranks() -> list[Any]:
    """Simulated; which samples come is what the notebook asks."""
    costs = [Costs(sample_s=0.02, step_s=0.04, startup_s=0.01, boot_s=0.03)] * 2
    figure = timeline(simulate_in_step(costs, num_workers=2, batch_size=3, n_batches=8))
    figure.layout.title.text = "<b>One training, two processes, four workers</b>"
    figure.layout.title.subtitle.text = "simulated · two ranks, each with a loader of its own"
    return [figure]


def a_hungry_device() -> list[Trace]:
    """Simulated: a picture that needs no GPU. Without parts of a step: nobody knows them yet."""
    trace = feed("pageable", load_ms=80, batch_mb=4).trace
    return [replace(trace, spans=trace.spans.iloc[:0])]


def a_loop_that_waits() -> list[Any]:
    """The recording that notebook 10 begins with: its first seconds."""
    title = "Half of the time this loop waits: what would help?"
    figure = timeline(load(RECORDINGS / "photos_before.parquet"), title=title)
    figure.layout.title.subtitle.text = "measured on 2 CPUs, November 2026"
    return [figure.update_xaxes(range=[0, 4])]


def samples_of_two_lines() -> list[Any]:
    """The recording that notebook 18 begins with."""
    title = "Some samples take thirty times as long: by which line of code?"
    figure = timeline(load(RECORDINGS / "lines_of_a_quick_loop.parquet"), title=title)
    figure.layout.title.subtitle.text = "measured on 2 CPUs, November 2026"
    return [figure.update_xaxes(range=[0, 1.5])]


def a_whole_training() -> list[Any]:
    """The recording of notebook 19."""
    figure = run(load(RECORDINGS / "hour_31.parquet"))
    figure.layout.title.text = "<b>A training of 33 hours: what was that?</b>"
    figure.layout.title.subtitle.text = "by a clock that ran ahead"
    return [figure]


# What is drawn, one below another.
PICTURES: dict[str, Callable[[], list[Any]]] = {
    "first_look": no_workers,
    "timeline": two_workers,
    "duplicates": once_and_twice,
    "lost_samples": the_last_ones_never,
    "same_contents": other_rows,
    "map_and_iterable": any_order_and_one,
    "streaming": eight_files,
    "workers_on_a_timeline": three_workers,
    "what_a_worker_costs": short_epoch,
    "randomness": seeded_by_torch,
    "batches_by_length": texts_by_length,
    "mixing_a_stream": sorted_and_shuffled,
    "many_ranks": two_ranks,
    "your_own_loader": a_loop_that_waits,
    "stop_and_resume": stopped_amid_an_epoch,
    "feeding_the_gpu": a_hungry_device,
    "which_line": samples_of_two_lines,
    "hour_31": a_whole_training,
}


def main() -> None:
    names = ("chromium", "chromium-browser", "google-chrome")
    chromium = os.environ.get("LOADERVIZ_CHROMIUM") or next(filter(None, map(shutil.which, names)))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for name in sys.argv[1:] or [*PICTURES, "faces", "report", "marks", "queues", "slider"]:
            if name == "marks":
                marks.PICTURE.write_text(marks.svg(), "utf-8")
                continue
            if name == "faces":
                draw_faces("how_many_workers_light.png")
                continue
            if name == "queues":
                queue_diagram.draw()
                continue
            if name == "slider":
                film.film(browser)
                continue
            if name == "report":
                draw_report(browser, load(RECORDINGS / "photos_after.parquet"), "report_light.png")
                continue
            draw(browser, [figure_of(each) for each in PICTURES[name]()], f"{name}_light.png")
        browser.close()


def draw_faces(name: str) -> None:
    """A row of samples of notebook 07, with their landmarks, all equally high."""
    faces = FaceLandmarks(48)
    pictures = [with_landmarks(faces[number]) for number in range(7)]
    high = [each.resize((each.width * 240 // each.height, 240)) for each in pictures]
    row = Image.new("RGB", (sum(each.width + 8 for each in high) - 8, 240), "white")
    left = 0
    for each in high:
        row.paste(each, (left, 0))
        left += each.width + 8
    row.quantize(128).save(HERE / name)


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
    return drawn.figure() if isinstance(drawn, Audit) else drawn


def draw(browser: Browser, figures: list[Any], name: str) -> None:
    with TemporaryDirectory() as folder:
        page = browser.new_page(
            viewport={"width": WIDTH, "height": sum(int(each.layout.height) for each in figures)},
            device_scale_factor=SCALE,
        )
        html = Path(folder) / "figure.html"
        html.write_text(
            "<body style='margin:0; background:white'>"
            + "".join(
                each.to_html(full_html=False, config={"displayModeBar": False}) for each in figures
            )
        )
        page.goto(html.as_uri())
        for number in range(len(figures)):
            marks_of_it = ".point, .heatmaplayer image, .js-line"
            page.locator(".loaderviz").nth(number).locator(marks_of_it).first.wait_for()
        page.screenshot(path=HERE / name)
        page.close()


if __name__ == "__main__":
    main()
