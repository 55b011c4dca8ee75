"""Films the first slider of notebook 00 as a reader drags it, in a real JupyterLab.

Headless Chromium has no mouse pointer that a screenshot shows, so the film draws one.
"""

import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image
from playwright.sync_api import Browser, Locator, Page

HERE = Path(__file__).parent
NOTEBOOK = HERE.parent / "00_first_look.ipynb"
WIDTH, HEIGHT = 1000, 1034
MOST_WORKERS = 4
FRAMES_PER_STOP = 4
FRAME_MS, HOLD_MS = 120, 2000
POINTER = """() => {
  const pointer = document.createElement("div");
  pointer.innerHTML = `<svg width="22" height="22">
    <path d="M2 1v17l5-4 3 7 3-1-3-7h6z" fill="#111" stroke="#fff" stroke-width="1.4"/></svg>`;
  pointer.style.cssText = "position: fixed; z-index: 99999; pointer-events: none";
  document.body.append(pointer);
  document.addEventListener("pointermove", ({ clientX, clientY }) => {
    Object.assign(pointer.style, { left: `${clientX}px`, top: `${clientY}px` });
  }, true);
}"""


def film(browser: Browser) -> None:
    """Write ``slider.webp``."""
    with TemporaryDirectory() as folder, jupyterlab(Path(folder)) as address:
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        page.goto(address)
        explorer = first_explorer(page)
        page.evaluate(POINTER)
        frames = [Image.open(BytesIO(shot)).convert("RGB") for shot in drag(page, explorer)]
        page.close()
    durations = [HOLD_MS, *[FRAME_MS] * (len(frames) - 2), HOLD_MS]
    options = {"save_all": True, "append_images": frames[1:], "duration": durations, "loop": 0}
    frames[0].save(HERE / "slider.webp", **options, quality=82, method=6, minimize_size=True)


@contextmanager
def jupyterlab(home: Path) -> Iterator[str]:
    """A JupyterLab with settings of its own; gives the address of the notebook in it."""
    (home / "notebooks").mkdir()
    shutil.copy(NOTEBOOK, home / "notebooks")
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        port = probe.getsockname()[1]
    token, log = secrets.token_hex(), home / "lab.log"
    own = ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR")
    environment = os.environ | {name: str(home / name) for name in own} | {"JUPYTER_TOKEN": token}
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", f"--port={port}"]
    command += ["--allow-root", f"--ServerApp.root_dir={home / 'notebooks'}"]
    with log.open("wb") as output:
        server = subprocess.Popen(command, env=environment, stdout=output, stderr=output)
    try:
        wait_until_up(f"http://localhost:{port}/api/status?token={token}", log)
        yield f"http://localhost:{port}/lab/tree/{NOTEBOOK.name}?token={token}"
    finally:
        server.terminate()
        server.wait()


def wait_until_up(address: str, log: Path) -> None:
    for _ in range(300):
        try:
            urllib.request.urlopen(address, timeout=5).close()
            return
        except OSError:
            time.sleep(0.2)
    raise SystemExit(f"JupyterLab did not start:\n{log.read_text()}")


def first_explorer(page: Page) -> Locator:
    """Run the first cell of code, as a reader does, and put what it shows to the top."""
    page.get_by_role("button", name="No", exact=True).click()  # to news
    page.locator("#jp-main-statusbar").get_by_text("Idle").wait_for(timeout=60_000)
    page.get_by_role("tab", name="File Browser").first.click()  # folds the list of files
    page.locator(".jp-CodeCell .cm-content").first.click()
    page.keyboard.press("Control+Enter")
    explorer = page.locator(".loaderviz-explore").first
    explorer.locator(".point").first.wait_for(timeout=60_000)
    page.locator(".jp-CodeCell").first.evaluate("(cell) => cell.scrollIntoView()")
    page.wait_for_timeout(1500)
    return explorer


def drag(page: Page, explorer: Locator) -> Iterator[bytes]:
    """Drag the workers from none to many; the picture is taken as it follows."""
    bar = explorer.locator(".widget-hslider", has_text="workers").first
    begin = bar.get_by_role("slider").bounding_box()
    track = bar.locator(".noUi-base").bounding_box()
    most = float(bar.get_by_role("slider").get_attribute("aria-valuemax"))
    x, y = begin["x"] + begin["width"] / 2, begin["y"] + begin["height"] / 2
    cell = page.locator(".jp-CodeCell").first.bounding_box()
    seen = {"x": cell["x"], "y": cell["y"], "width": WIDTH - cell["x"] - 40, "height": 0.0}
    seen["height"] = HEIGHT - seen["y"] - 30
    page.mouse.move(x, y)
    page.mouse.down()
    yield page.screenshot(clip=seen)
    n_frames = MOST_WORKERS * FRAMES_PER_STOP
    for frame in range(1, n_frames + 1):
        page.mouse.move(x + track["width"] * MOST_WORKERS / most * frame / n_frames, y)
        page.wait_for_timeout(350)  # until the picture has followed
        yield page.screenshot(clip=seen)
    page.mouse.up()
    yield page.screenshot(clip=seen)
