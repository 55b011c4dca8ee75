"""The browser tests change no setting that a user has: neither JupyterLab's nor the browser's."""

import json
import re
from pathlib import Path

import pytest
from jupyterlab.commands import get_app_dir
from playwright.sync_api import Page

from browser.conftest import CHROMIUM, Lab

HERE = Path(__file__).parent
SHARED = Path(get_app_dir()).parent  # JupyterLab's own schemas, and those of extensions
# By their names: where a lab's settings are overridden, and flags of a browser or of JupyterLab.
OVERRIDES = re.compile(
    r"overrides\.json|user-settings|page_config|labconfig|jupyter_\w*config|--LabApp|set_setting"
    r"|windowing" r"Mode|expose-app"
)  # fmt: skip
ALLOWED = {*CHROMIUM, "--no-browser", "--port", "--allow-root"} | {
    "--ServerApp.port_retries",  # a port of its own
    "--ServerApp.root_dir",  # a copy of the notebooks
}


@pytest.mark.parametrize("path", sorted(HERE.glob("*.py")), ids=lambda path: path.name)
def test_no_file_sets_what_no_user_sets(path: Path):
    text = path.read_text("utf-8")
    if path != Path(__file__):
        assert OVERRIDES.findall(text) == []
        assert set(re.findall(r"""["'](--[\w.-]+)""", text)) <= ALLOWED | {"--into"}


@pytest.mark.slow
def test_the_lab_has_the_settings_that_it_is_shipped_with(page: Page, lab: Lab):
    page.goto("/lab")  # as somebody new
    page.wait_for_selector("#jp-main-statusbar")
    answer = page.request.get("/lab/api/settings", headers={"Authorization": f"token {lab.token}"})
    settings = answer.json()["settings"]
    assert "@jupyterlab/notebook-extension:tracker" in {each["id"] for each in settings}
    for each in settings:
        assert json.loads(each["raw"] or "{}") == {}, each["id"]  # nothing chosen
        package, plugin = each["id"].split(":")
        (path,) = SHARED.rglob(f"schemas/{package}/{plugin}.json")
        shipped = json.loads(path.read_text("utf-8"))
        assert each["schema"].get("properties") == shipped.get("properties"), each["id"]
