"""Whatever was recorded, everything that reads it gives an answer, or says why there is none."""

import contextlib
import io
import json
from collections.abc import Callable
from pathlib import Path

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
from odd_recordings import ALL, SECOND_FAILS


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
OF_ALL = ("summary", "report")
# Each has something that the others lack: the other readers, who are asked for a part of what the
# report asks for, need no more.
OTHERS_READ = (
    *("the first fails in its first batch", "no iterator is made", "empty batches", "a stream"),
    *("nested", "in threads", "streams inside", "foreign beside torch's", "samples left out"),
    *("keys of many kinds", "workers", "a worker is killed", "ranks, of which one has nothing"),
    *("a process that was killed", "made by hand, batches alone", "simulated"),
)

WITHOUT_BATCHES = (
    *("the first fails in its first batch", "none is ever asked", "no iterator is made"),
    *("an empty list of batches", "empty"),
)


# Of these the first that are named once crashed the summary, when it was needed most.
@pytest.mark.parametrize("name", SECOND_FAILS)
def test_an_evaluation_that_fails_at_once_is_told(name, tmp_path):
    trace = SECOND_FAILS[name]()
    for reader in ALWAYS:
        answer(lambda r=reader: READERS[r](trace, tmp_path), always=True)


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
@pytest.mark.parametrize("name", ALL)
def test_every_reader_answers_on_every_recording(name, tmp_path):
    trace = ALL[name](tmp_path)
    assert (trace.summary().n_batches > 0) == (name not in WITHOUT_BATCHES)
    for reader in READERS if name in OTHERS_READ else OF_ALL:
        answer(lambda r=reader: READERS[r](trace, tmp_path), always=reader in ALWAYS)
    if name in OTHERS_READ:
        assert_is_the_same_when_saved(trace, tmp_path / "run.parquet")


def assert_is_the_same_when_saved(trace: Trace, path: Path) -> None:
    trace.save(path)
    opened, told = lv.load(path).summary(), trace.summary()
    assert str(opened) == str(told)
    assert_frame_equal(opened.causes, told.causes)
    for reader in ON_DISK:
        answer(lambda r=reader: CONSUMERS[r](path), always=False)
