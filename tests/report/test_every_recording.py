"""Whatever was recorded, everything that reads it gives an answer, or says why there is none."""

import contextlib
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer
from pandas.testing import assert_frame_equal

import loaderviz as lv
from consumers import CONSUMERS
from loaderviz._compare import compare
from loaderviz.cli.shared_options import print_json
from loaderviz.report import Content, content_of
from loaderviz.report.render_page import page_of
from loaderviz.trace import Trace
from odd_recordings import IN_ONE_PROCESS, all_recordings


def tell(content: Content) -> None:
    page_of(content)
    print_json(content.data())


def in_words(trace: Trace) -> str:
    """All that is said of it in words and numbers, without a picture."""
    summary = trace.summary()
    return f"{summary}{summary.notes}{trace.shapes()}{json.dumps(summary.as_dict(), default=str)}"


# The report asks the doctor, the audit and recommend, and draws the timeline and the causes.
READERS: dict[str, Callable[[Trace, Path], object]] = {
    "summary": lambda trace, _: in_words(trace),
    "figure of starts": lambda trace, _: lv.figures.starts(trace).to_json(),
    "in a cell": lambda trace, _: trace._ipython_display_(),
    "audit": lambda trace, _: [str(lv.audit(trace)), lv.audit(trace).figure()],
    "compare": lambda trace, _: str(compare(trace, trace)),
    "costs": lambda trace, _: lv.Costs.from_trace(trace),
    "ranks": lambda trace, _: repr(trace.of_ranks([0])),
    "loaders": lambda trace, _: [repr(trace.of_loader(each)) for each in range(2)],
    "report": lambda trace, _: tell(content_of(trace)),
    "perfetto": lambda trace, folder: trace.to_perfetto(folder / "trace.json"),
}
ON_DISK = ("causes", "check", "csv", "top")
ALWAYS = ("summary", "loaders", "report")


# Of these the first that are named once crashed the summary, when it was needed most.
QUICK = (
    "the second fails in its first batch",
    "the second is never asked",
    "the second is an empty stream",
    "none is ever asked",
)


@pytest.mark.parametrize("name", QUICK)
def test_an_evaluation_that_fails_at_once_is_told(name, tmp_path):
    trace = IN_ONE_PROCESS[name]()
    for reader in READERS.keys() - {"in a cell"}:
        answer(lambda r=reader: READERS[r](trace, tmp_path), always=reader in ALWAYS)


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Trace]:
    return all_recordings(tmp_path_factory.mktemp("recordings"))


def answer(read: Callable[[], object], *, always: bool) -> None:
    """Ask one reader; it may refuse in words, unless it is one that answers ``always``."""
    refusals = () if always else lv.LoaderVizError
    with contextlib.redirect_stdout(io.StringIO()) as printed, contextlib.suppress(typer.Exit):
        try:
            read()
        except refusals as error:
            if len(str(error)) < 20:
                raise
    assert "\x1b" not in printed.getvalue()


@pytest.mark.slow
def test_there_are_forty_recordings(traces):
    assert len(traces) >= 40
    delivered = [name for name, trace in traces.items() if trace.summary().n_batches]
    assert 0.6 * len(traces) < len(delivered) < len(traces)


@pytest.mark.slow
@pytest.mark.parametrize("reader", READERS)
def test_every_reader_answers_on_every_recording(reader, traces, tmp_path):
    for name, trace in traces.items():
        with unlike(name):
            answer(lambda t=trace: READERS[reader](t, tmp_path), always=reader in ALWAYS)


@pytest.mark.slow
def test_every_recording_can_be_saved_and_opened_and_read_as_a_file(traces, tmp_path):
    for name, trace in traces.items():
        with unlike(name):
            trace.save(tmp_path / "run.parquet")
            opened = lv.load(tmp_path / "run.parquet").summary()
            told = trace.summary()
            assert str(opened) == str(told)
            assert_frame_equal(opened.causes, told.causes)
            for reader in ON_DISK:
                answer(lambda r=reader: CONSUMERS[r](tmp_path / "run.parquet"), always=False)


@contextlib.contextmanager
def unlike(name: str) -> Any:
    """Say of which recording a failure is."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"on the recording: {name}")
        raise
