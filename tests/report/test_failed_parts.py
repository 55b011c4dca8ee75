"""A part of the telling that fails costs that part: the rest is told, and it says so."""

import importlib
from dataclasses import replace
from typing import Any

import pytest

import loaderviz as lv
from loaderviz.failed_part import RAISE
from loaderviz.report import content_of, write
from loaderviz.report.predictions_and_audits import Prediction
from loaderviz.report.render_page import page_of
from traces import made

# Each is looked up by its name where it is called.
OF_SUMMARY = [
    *(
        f"why.summary.{name}"
        for name in (
            *("device_times", "slowest", "unequal", "loader_shares", "verdict_of", "numbers_of"),
            *("attribute", "paces"),
        )
    ),
    *(f"why.causes.causes_table.{name}" for name in ("epoch_seconds", "evidence_and_cure")),
]
NOTES = "why.summary.notes_of"  # which a report does not show
OF_REPORT = [
    *(f"report.report_tables.{name}_of" for name in ("waits", "workers", "ranks", "loaders")),
    *(
        f"report.report_content.{name}"
        for name in (
            *("findings_of", "audit_loaders", "cause_rows", "short_names", "_configuration"),
            *("percent", "predict"),
        )
    ),
    *("report.predictions_and_audits.audit", "report.render_page.waits"),
    "report.render_page.memory",
    "why.shapes.shapes_of",
]


N_SECTIONS = 7  # of the page on the example, at least


def example() -> lv.Trace:
    meta = {"loaders": [{"dataset": "Images", "num_workers": 2}], "cpu_allowance": 4.0}
    return replace(made(), meta=meta)


@pytest.fixture
def break_it(monkeypatch):
    """Let a function of ours fail, as it would for a reader."""

    def fail(name: str, error: Exception) -> None:
        module, _, function = name.rpartition(".")

        in_ours: dict[str, Any] = {"__name__": "loaderviz.broken", "error": error}
        exec("def broken(*_, **__):\n    raise error\n", in_ours)
        home = importlib.import_module(f"loaderviz.{module}")
        monkeypatch.setattr(home, function, in_ours["broken"])

    monkeypatch.delenv(RAISE)
    return fail


def not_asked_for(*_: object) -> Prediction:
    """In place of what takes the longest in a report."""
    return Prediction(why_not="not asked for")


@pytest.mark.parametrize("name", [*OF_SUMMARY, NOTES])
def test_a_summary_tells_the_rest(name, break_it):
    break_it(name, IndexError("index -1"))
    summary = example().summary()
    text = str(summary)
    assert "could not be worked out (IndexError)" in "\n".join([text, *summary.notes])
    assert any("(IndexError)" in each for each in summary.failed_parts)
    assert len(text) > 30


# These alone: where they fail, or what calls them does, others are not come to.
ALONE = [
    *(f"report.report_content.{name}" for name in ("short_names", "_configuration", "percent")),
    *("report.report_content.predict", "report.predictions_and_audits.audit"),
    OF_SUMMARY[0],
]


@pytest.mark.parametrize(
    "names", [*([name] for name in ALONE), [name for name in OF_REPORT if name not in ALONE]]
)
def test_a_report_tells_the_rest(names, break_it, monkeypatch):
    if not any("predict" in name for name in names):
        monkeypatch.setattr("loaderviz.report.report_content.predict", not_asked_for)
    for name in names:
        break_it(name, IndexError("index -1"))
    content = content_of(example())
    page = page_of(content)
    assert page.count("<section") >= N_SECTIONS
    told = [*content.failed_parts, *(each.why_not for each in content.audits)]
    failed = [each for each in told if "could not be worked out (IndexError)" in each]
    assert len(failed) == len(names), failed
    assert content.data()["failed_parts"] == content.failed_parts
    if names != [OF_SUMMARY[0]]:
        assert page.count("could not be worked out (IndexError)") == len(names)


def test_a_refusal_is_told_in_its_own_words(break_it):
    break_it("report.report_tables.waits_of", lv.LoaderVizError("give it more"))
    assert "could not be worked out: give it more" in page_of(content_of(example()))


@pytest.mark.parametrize("name", [OF_SUMMARY[-1], OF_REPORT[0]])
def test_the_commands_exit_code_says_so(name, break_it, loaderviz, tmp_path, monkeypatch):
    monkeypatch.setattr("loaderviz.report.report_content.predict", not_asked_for)
    example().save(tmp_path / "run.parquet")
    break_it(name, IndexError())
    page = ["report", "--out", tmp_path / "page.html"]
    for command in (["summary"], ["summary", "--json"], page):
        result = loaderviz(*command, tmp_path / "run.parquet")
        fails = name.startswith("why.causes") or command[0] == "report"
        assert result.code == (3 if fails else 0), result.err
        assert result.out
    assert (tmp_path / "page.html").stat().st_size > 10_000


def test_under_tests_a_part_raises(break_it, monkeypatch, tmp_path):
    break_it("report.report_tables.waits_of", IndexError("index -1"))
    monkeypatch.setenv(RAISE, "1")
    with pytest.raises(IndexError):
        write(example(), tmp_path / "page.html")
