"""Draws the pictures of the README and the notebooks, each from a recording made here and now.

Run by `make pictures`. Needs a Chromium, as the browser tests do.
"""

import os
import shutil
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright
from torch.utils.data import DataLoader

from loaderviz import record, timeline
from loaderviz.datasets import SleepingDataset
from loaderviz.timings import take

HERE = Path(__file__).parent
BACKGROUNDS = {"light": "#ffffff", "dark": "#0d1117"}
WIDTH, SCALE = 1100, 2


def main() -> None:
    loader = DataLoader(SleepingDataset(48, 0.025), batch_size=4, num_workers=2)
    with record(loader) as rec:
        take(loader, model_time=0.04)
    names = ("chromium", "chromium-browser", "google-chrome")
    chromium = os.environ.get("LOADERVIZ_CHROMIUM") or next(filter(None, map(shutil.which, names)))
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for theme, background in BACKGROUNDS.items():
            figure = timeline(rec.trace, theme=theme)
            page = browser.new_page(
                viewport={"width": WIDTH, "height": int(figure.layout.height)},
                device_scale_factor=SCALE,
            )
            html = Path(folder) / f"{theme}.html"
            html.write_text(
                f"<body style='margin:0; background:{background}'>"
                + figure.to_html(full_html=False, config={"displayModeBar": False})
            )
            page.goto(html.as_uri())
            page.wait_for_selector(".loaderviz .point")
            page.screenshot(path=HERE / f"timeline_{theme}.png")
        browser.close()


if __name__ == "__main__":
    main()
