"""A real JupyterLab in a real Chromium, both with the settings that a user has: the fixtures.

``test_stock.py`` holds that it stays so.
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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    expect,
    sync_playwright,
)
from xdist.scheduler import LoadScopeScheduling

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
START_S = 60
expect.set_options(timeout=20_000)  # what is expected may come late on a busy machine

# No flag that a user lacks, but those without which a test could not drive it.
CHROMIUM = {
    "--headless": "a machine for tests has no screen",
    "--no-sandbox": "Chromium's does not work as root, and the pages are our own",
    "--remote-debugging-pipe": "the way in which Playwright drives it",
    "--user-data-dir": "not that of whoever runs the tests",
}

# The fixtures end with this folder's tests, not with the session, so that the tests after them do
# not run beside a browser.


@pytest.fixture(scope="package")
def chromium() -> str:
    """The path of the browser; without one the tests skip, or fail where one is required."""
    names = ("chromium", "chromium-browser", "google-chrome")
    found = os.environ.get("LOADERVIZ_CHROMIUM") or next(filter(None, map(shutil.which, names)), "")
    if not found:
        reason = f"no browser: install one of {names}, or set LOADERVIZ_CHROMIUM to its path"
        if os.environ.get("LOADERVIZ_REQUIRE_BROWSER") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    return found


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The long ones first: each notebook, then what takes the longest to prepare."""
    first = ("test_every_notebook.py", "test_explorer.py", "test_site.py")
    names = [*first, *sorted({item.path.name for item in items} - {*first})]
    items.sort(key=lambda item: names.index(item.path.name))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    """A file goes to one process, which prepares once what its tests share; each notebook to any.

    pytest-xdist 3.8 has groups for this, and pytest 9.2 keeps nothing of them.
    """

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            return nodeid if file.endswith("test_every_notebook.py") else file

    return ByFile(config, log)


@dataclass(frozen=True)
class Lab:
    """A running JupyterLab and the folder that it serves, a copy of the notebooks."""

    url: str
    token: str
    folder: Path
    settings: Path  # what its user has chosen


@pytest.fixture(scope="package")
def lab(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    home = tmp_path_factory.mktemp("lab")
    folder = home / "notebooks"
    if NOTEBOOKS.is_dir():
        shutil.copytree(NOTEBOOKS, folder, ignore=shutil.ignore_patterns(".ipynb_checkpoints"))
    folder.mkdir(exist_ok=True)
    # Folders of its own, so that the settings of whoever runs the tests change nothing.
    names = ["JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR"]
    folders = {name: str(home / name.lower()) for name in names}

    token = secrets.token_hex()
    port = _free_port()
    log = home / "lab.log"
    command = [sys.executable, "-m", "jupyterlab", "--no-browser"]
    command += [f"--port={port}", "--ServerApp.port_retries=0", f"--ServerApp.root_dir={folder}"]
    if os.getuid() == 0:
        command.append("--allow-root")
    with log.open("wb") as output:
        server = subprocess.Popen(
            command,
            env=os.environ | folders | {"JUPYTER_TOKEN": token},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        url = f"http://localhost:{port}"
        _wait_until_up(server, f"{url}/api/status?token={token}", log)
        yield Lab(url, token, folder, Path(folders["JUPYTER_CONFIG_DIR"]) / "lab")
    finally:
        _end(server)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        return probe.getsockname()[1]


def _wait_until_up(server: subprocess.Popen, url: str, log: Path) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and server.poll() is None:
        try:
            urllib.request.urlopen(url, timeout=5).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    pytest.fail(f"JupyterLab did not start:\n{log.read_text()}")


def _end(server: subprocess.Popen) -> None:
    """End the server, which ends its kernels, and then whatever of them is left."""
    if server.poll() is None:
        children = psutil.Process(server.pid).children(recursive=True)
        server.terminate()
        try:
            server.wait(timeout=10)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()
        for child in children:
            if child.is_running():
                child.kill()


@pytest.fixture(scope="package")
def profile(
    chromium: str, lab: Lab, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BrowserContext]:
    """The browser of somebody who visits JupyterLab: it keeps the scripts that it has compiled."""
    folder = tmp_path_factory.mktemp("profile")
    given = dict.fromkeys(CHROMIUM) | {"--user-data-dir": folder}
    with sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            folder,
            executable_path=chromium,
            ignore_default_args=True,  # Playwright's own, some forty
            args=[f"{flag}={value}" if value else flag for flag, value in given.items()],
            base_url=lab.url,
            viewport={"width": 1440, "height": 900},
        )
        yield context
        context.close()


@pytest.fixture(scope="package")
def browser(profile: BrowserContext) -> Browser:
    """The same, for pages that come with a context of their own."""
    assert profile.browser is not None
    return profile.browser


@pytest.fixture
def complaints() -> list[str]:
    """Errors in the page's console, and its death. A test takes out those that it expects."""
    return []


@pytest.fixture
def page(profile: BrowserContext, lab: Lab, complaints: list[str]) -> Iterator[Page]:
    """The page of a visit. A test fails whose page complains."""
    with visit(profile, lab, complaints) as page:
        yield page
    assert complaints == []


@contextmanager
def visit(profile: BrowserContext, lab: Lab, complaints: list[str]) -> Iterator[Page]:
    """A page that is logged in, of somebody who never used this JupyterLab before.

    The kernels that it starts end with it.
    """
    shutil.rmtree(lab.settings, ignore_errors=True)
    profile.request.get("/login", params={"token": lab.token})
    authorization = {"Authorization": f"token {lab.token}"}

    def sessions() -> set[str]:
        answer = profile.request.get("/api/sessions", headers=authorization)
        return {session["id"] for session in answer.json()}

    before = sessions()
    page = profile.new_page()
    stored = {"origin": lab.url, "storageTypes": "local_storage,indexeddb"}
    profile.new_cdp_session(page).send("Storage.clearDataForOrigin", stored)
    listen(page, complaints)
    try:
        yield page
    finally:
        n_complaints = len(complaints)
        for session in sessions() - before:
            profile.request.delete(f"/api/sessions/{session}", headers=authorization)
        page.close()
        del complaints[n_complaints:]  # of kernels that have just been ended under it
        profile.clear_permissions()


# JupyterLab asks each kernel for its debugger's state, and says so where that kernel has ended.
DEBUGGER = "Could not restore the debugger state"
# anywidget says so of a page that was busy for two seconds. Nothing that we show hangs on it:
# test_explorer.py gives it no time at all.
BUSY = "[anywidget] Failed to initialize model"


def listen(page: Page, complaints: list[str]) -> None:
    """Write down what the page complains of."""
    page.on("crash", lambda _: complaints.append("the page has died"))
    page.on("pageerror", lambda error: BUSY in str(error) or complaints.append(str(error)))

    def note(each: ConsoleMessage) -> None:
        if each.type == "error" and not each.text.startswith(DEBUGGER):
            complaints.append(each.text)

    page.on("console", note)
