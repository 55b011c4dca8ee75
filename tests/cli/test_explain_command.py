"""``loaderviz explain``: a page for each code of the doctor, and a list of all."""

import subprocess
import sys

from loaderviz._explain import codes, explanation, title_of


def test_without_a_code_all_are_listed(loaderviz):
    done = loaderviz("explain")
    assert done.code == 0
    assert done.out.splitlines() == [f"{code}  {title_of(code)}" for code in codes()]


def test_in_a_pipe_a_page_is_the_markdown_that_it_is(loaderviz):
    assert loaderviz("explain", "lv314").out == explanation("LV314")


def test_in_a_terminal_it_is_set_as_text(loaderviz, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
    shown = loaderviz("explain", "LV314").out
    assert "LV314: Data in memory is read item by item" in shown
    assert "```" not in shown
    assert "## " not in shown


def test_an_unknown_code_is_bad_input_and_near_ones_are_named(loaderviz):
    done = loaderviz("explain", "LV1012")
    assert done.code == 2
    assert done.out == ""
    assert "There is no code LV1012. Did you mean" in done.err
    assert "LV101" in done.err


def test_to_explain_takes_no_torch():
    code = (
        "import sys; sys.argv = ['loaderviz', 'explain', 'LV101']\n"
        "from loaderviz.cli import main\n"
        "try: main()\n"
        "except SystemExit: sys.exit('torch' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
