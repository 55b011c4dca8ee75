"""A report: what it says of a trace, and the file that it writes."""

import dataclasses
import json
import re

import numpy as np
import pandas as pd
import pytest
import torch
from torch.utils.data import DataLoader, DistributedSampler, WeightedRandomSampler

from loaderviz import Costs, LoaderVizError, Trace, record, simulate, timeline
from loaderviz.report import Content, content_of, predictions_and_audits, write
from loaderviz.report.predictions_and_audits import Prediction
from loaderviz.report.render_page import page_of
from loaderviz.web import plotly_script

from traces import made, together  # isort: skip

TABLES = ("batches", "samples", "workers")
MARKUP = "</script><script>alert(1)</script><img src=x onerror=alert(2)><!--\u2028{{7*7}}\"'"


@pytest.fixture(scope="module")
def waiting():
    """Two workers that are too few."""
    costs = Costs(sample_s=0.01, step_s=0.012, startup_s=0.02, cores=8)
    return simulate(costs, num_workers=2, batch_size=4, n_batches=120)


@pytest.fixture(scope="module")
def content(waiting):
    """All that there is to say of it, the bounds of other settings too."""
    found = content_of(waiting)
    assert found.prediction.recommendation is not None
    return found


@pytest.fixture(scope="module")
def page(content):
    return page_of(content)


@pytest.fixture(autouse=True)
def unpredicted(content, monkeypatch):
    """... which no other test waits for."""
    told = Prediction(why_not="not asked for")
    monkeypatch.setattr("loaderviz.report.report_content.predict", lambda *_: told)


@pytest.fixture
def predicted(monkeypatch):
    """... but these."""
    monkeypatch.setattr("loaderviz.report.report_content.predict", predictions_and_audits.predict)


def recorded(trace, **meta):
    return dataclasses.replace(trace, meta={"complete": True, "cpu_allowance": 8.0, **meta})


def changed(content, **parts):
    """The same content with other parts, and what follows from them worked out anew."""
    found = Content(content.trace)
    vars(found).update(parts)
    return found


def plain_text(page):
    """What a reader sees, scripts and styles aside."""
    kept = re.sub(r"(?s)<(script|style)\b.*?</\1>", " ", page)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", kept))


class TestItsContent:
    def test_the_first_action_changes_the_settings(self, content):
        (action, *_) = content.actions
        assert action.what == "Change the settings: try 4 workers, up to 5 if the loop still waits"
        assert "num_workers 2 → 4. 2 workers make" in action.why
        assert action.code.startswith("DataLoader(")
        assert "num_workers=4" in action.code
        assert "some 4 gain most" in content.causes[0]["cure"]

    @pytest.mark.usefixtures("predicted")
    def test_of_a_loader_without_workers_it_names_one_number(self):
        costs = Costs(sample_s=0.0937 / 4, step_s=0.012, cores=8)
        found = content_of(simulate(costs, num_workers=0, batch_size=4, n_batches=60))
        settings, *others = found.actions
        (n,) = set(re.findall(r"num_workers=(\d+)", settings.code))
        assert settings.what.startswith(f"Change the settings: try {n} workers")
        assert found.causes[0]["cure"].startswith(f"num_workers={n} loads")
        (finding,) = [each for each in found.findings.findings if each.code == "LV301"]
        assert f"num_workers={n} " in finding.fix
        assert finding.title not in [action.what for action in others]

    @pytest.mark.usefixtures("predicted")
    def test_samples_in_memory_that_are_read_one_by_one_ask_for_slices_and_no_worker(self):
        costs = Costs(sample_s=5e-6, cpu_share=1.0, step_s=2e-4, cores=8)
        trace = simulate(costs, num_workers=0, batch_size=64, n_batches=100)
        about = {**trace.meta["loaders"][0], "one_by_one": True}
        (action,) = content_of(recorded(trace, loaders=[about])).actions
        assert "Ask for slices" in action.why

    def test_without_a_prediction_the_first_action_is_about_the_first_cause(self, waiting, content):
        unpredicted = changed(content, prediction=Prediction(why_not="it is too long"))
        (action, *_) = unpredicted.actions
        first = content.causes[0]
        assert action.what.startswith(f"First cause of waiting: {first['name']}, ")
        assert first["cure"] in action.why
        page = plain_text(page_of(unpredicted))
        assert "Not known: it is too long" in page
        assert "needs a change" not in page

    def test_a_loader_is_not_predicted_alone_where_the_loop_takes_others_in_turns(self):
        own = made(workers=2, batches=8)
        later = own.batches.assign(loader=1, requested_s=own.batches["delivered_s"] + 1e-6)
        zipped = dataclasses.replace(own, batches=pd.concat([own.batches, later]))
        told = predictions_and_audits.predict(zipped, 0, 0)
        assert told.recommendation is None
        assert "batches of several loaders in turns" in told.why_not

    def test_what_died_comes_before_what_is_slow(self, waiting):
        workers = waiting.workers.assign(exit="killed", last_key=["a.jpg", None])
        content = content_of(dataclasses.replace(waiting, workers=workers))
        assert content.actions[0].kind == "error"
        assert "'a.jpg'" in content.actions[0].why

    def test_a_model_that_never_waits_is_left_alone(self, content):
        idle = dataclasses.replace(content.summary, wait_s=0.0, startup_s=0.0)
        rows = content.prediction.recommendation.candidates
        same = rows.assign(present=rows["recommended"])
        recommendation = dataclasses.replace(content.prediction.recommendation, candidates=same)
        already_set = dataclasses.replace(content.prediction, recommendation=recommendation)
        kept = changed(content, summary=idle, prediction=already_set)
        assert [each.kind for each in kept.actions] == ["fine"]

    @pytest.mark.parametrize(("n_batches", "drawn"), [(8, True), (1000, False)])
    def test_the_starts_are_drawn_where_they_cost(self, n_batches, drawn):
        costs = Costs(sample_s=0.01, step_s=0.012, startup_s=0.5, cores=8)
        trace = simulate(costs, num_workers=2, batch_size=4, n_batches=n_batches)
        workers = trace.workers.assign(start_method="spawn", boot_s=0.4, unpickle_s=0.1)
        page = page_of(content_of(dataclasses.replace(trace, workers=workers)))
        assert ("How they started" in plain_text(page)) == drawn

    def test_how_well_samples_are_mixed_is_said_where_they_do_not_come_in_order(self):
        trace = made(workers=2, batches=50)
        assert content_of(trace).audits[0].mixing is None
        trace.samples["key"] = [(37 * key) % 100 for key in range(100)]
        content = content_of(trace)
        mixing = content.audits[0].mixing
        assert mixing is not None
        (data,) = content.data()["audits"]
        assert data["mixing"]["verdict"] == mixing.verdict
        assert 0 <= data["mixing"]["score"] <= 1
        page = page_of(content)
        assert mixing.verdict in plain_text(page)
        assert 'id="figure-mixing-0"' in page

    def test_waits_are_counted_and_the_longest_has_its_cause(self):
        waits = content_of(made(batches=12)).waits
        assert (waits.n, waits.first_s) == (12, waits.worst[0]["wait_s"])
        assert waits.worst[0]["why"] == "first batch of its epoch"
        limits_s = [row["limit_s"] for row in waits.longer]
        assert limits_s == sorted(limits_s)
        assert [row["steps"] for row in waits.longer] == [1] * 4  # the first wait alone

    def test_a_worker_has_a_row_also_where_it_delivered_nothing(self):
        trace = made(workers=2, batches=8)
        idle = trace.workers.iloc[[0]].assign(worker=5, exit="running")
        workers = pd.concat([trace.workers, idle])
        rows = content_of(dataclasses.replace(trace, workers=workers)).workers
        assert [row["worker"] for row in rows] == [0, 1, 5]
        assert [row["batches"] for row in rows] == [4, 4, 0]
        assert rows[0]["read_s"] == pytest.approx(0.9)
        assert rows[0]["slowest_s"] == pytest.approx(1.0)
        # Workers that were started anew are one row.
        workers = pd.concat([trace.workers, trace.workers.assign(exit="killed")])
        rows = content_of(dataclasses.replace(trace, workers=workers)).workers
        assert [(row["processes"], row["exit"]) for row in rows] == [(2, "killed")] * 2

    def test_ranks_that_deliver_the_same_samples_are_told_apart_and_told_off(self):
        parts = [made(batches=30, rank=rank) for rank in (0, 1)]
        loaders = [{"kind": "map", "num_workers": 2}]
        trace = together(*parts, world_size=2, loaders=loaders)
        content = content_of(trace)
        assert [row["rank"] for row in content.ranks] == [0, 1]
        assert "DistributedSampler" in content.actions[0].code
        dealt = {**loaders[0], "sampler": "DistributedSampler"}
        content = content_of(dataclasses.replace(trace, meta={**trace.meta, "loaders": [dealt]}))
        assert content.actions[0].kind == "error"
        assert not content.actions[0].code

    def test_a_shuffle_that_repeats_is_something_to_do(self):
        sampler = DistributedSampler(range(32), num_replicas=1, rank=0)
        loader = DataLoader(range(32), sampler=sampler)
        with record(loader) as recording:
            for _ in range(2):
                list(loader)
        actions = content_of(recording.trace).actions
        (why,) = (action.why for action in actions if action.kind == "warning")
        assert "set_epoch(epoch)" in why

    def test_samples_that_come_again_as_the_sampler_was_told_are_no_error(self):
        loader = DataLoader(range(32), sampler=WeightedRandomSampler(torch.ones(32), 64))
        with record(loader) as recording:
            list(loader)
        content = content_of(recording.trace)
        assert content.audits[0].audit.exactly_once is False
        assert "error" not in [action.kind for action in content.actions]

    def test_where_the_wait_went_is_told_with_evidence_and_cure(self, content, page, waiting):
        table = waiting.summary().causes
        found = json.loads(json.dumps(content.data(), default=str))  # all that is said can be
        assert found["verdict"] == waiting.summary().verdict
        assert found["simulated"] is True
        assert found["actions"][0]["code"] == content.prediction.recommendation.code
        assert found["predicted"]["settings"]["num_workers"] > 2
        found = found["causes"]
        assert [row["cause"] for row in found] == list(table["cause"])
        assert [row["seconds"] for row in found] == pytest.approx(list(table["seconds"]))
        assert 'id="figure-causes"' in page
        text = plain_text(page)
        assert "Where the wait went" in text
        assert table["evidence"][0] in text
        assert table["cure"][0] in text

    def test_where_nothing_was_waited_for_it_says_so(self):
        trace = made(batches=6)
        asked = dataclasses.replace(
            trace,
            batches=trace.batches.assign(requested_s=trace.batches["delivered_s"]),
            workers=trace.workers[:0],
        )
        page = page_of(content_of(asked))
        assert "The loop never waited" in plain_text(page)
        assert "figure-causes" not in page

    def test_problems_and_what_was_left_out_are_listed(self):
        meta = {"complete": False, "problems": ["worker 1: its file is torn"], "left_out": 1234}
        torn, left_out = content_of(recorded(made(), **meta)).problems
        assert torn == "worker 1: its file is torn"
        assert "1,234" in left_out

    def test_a_meta_that_says_nothing_breaks_nothing(self):
        meta = {
            "loaders": [{}],
            "ranks": [{"rank": 0, "uncertainty_s": 0.0}],
            **dict.fromkeys(("cpu_allowance", "started", "world_size", "problems", "left_out")),
        }
        trace = dataclasses.replace(made(batches=12), meta=meta | {"label": 5})
        assert plain_text(page_of(content_of(trace)))
        figure = timeline(trace)
        assert figure.data
        assert "clocks" not in figure.layout.title.subtitle.text  # nothing was said of them

    def test_samples_that_cannot_be_read_cost_only_what_is_made_of_them(self, monkeypatch):
        def unreadable(*args, **options):
            raise LoaderVizError("cannot read 'rank-00001.parquet'")

        monkeypatch.setattr(predictions_and_audits, "audit", unreadable)
        monkeypatch.setattr(predictions_and_audits, "recommend", unreadable)
        predicted = predictions_and_audits.predict(made(batches=12), 0, 0)
        assert "cannot read" in predicted.why_not
        assert predicted.n_batches == 12
        content = content_of(made(batches=12))
        assert all("cannot read" in each.why_not for each in content.audits)
        assert plain_text(page_of(content))


class TestItsPage:
    def test_holds_plotly_once_and_nothing_from_elsewhere(self, page):
        assert page.count(plotly_script()[:2000]) == 1
        assert len(page) < 2_000_000
        assert not re.search(r"<(script|link|img|iframe)[^>]*\b(src|href)=", page)
        assert "default-src &#39;none&#39;" in page

    def test_says_what_is_simulated_and_of_what_there_are_bounds(self, page):
        text = plain_text(page)
        assert " simulated " in text
        assert "would other settings do? bounds" in text
        assert "not measured" in text
        assert "loaderviz doctor pkg.module:make_loader" in text

    def test_no_name_of_the_users_is_markup(self):
        trace = made(batches=12, batch_size=2)
        n = len(trace.samples)
        keys = np.array([f"{MARKUP}{i // 2}" for i in range(n)], object)
        trace = dataclasses.replace(
            trace,
            samples=trace.samples.assign(key=keys),
            workers=trace.workers.assign(exit="killed", last_key=MARKUP, start_method=MARKUP),
            meta={
                **dict.fromkeys(("label", "host", "torch", "platform"), MARKUP),
                "problems": [MARKUP],
                "loaders": 2 * [{"class": MARKUP, "dataset": MARKUP, "num_workers": 2}],
            },
        )
        other = made(workers=0, loader=1)
        tables = {name: pd.concat([getattr(trace, name), getattr(other, name)]) for name in TABLES}
        content = content_of(dataclasses.replace(trace, **tables))
        assert any(MARKUP[:20] in row["loader_name"] for row in content.causes)
        assert any(each.audit and len(each.audit.duplicates) for each in content.audits)
        page = page_of(content)
        assert "<img" not in page
        assert "<script>alert" not in page
        assert page.count("<script") == 3
        assert "&lt;img" in page

    def test_a_name_that_is_no_unicode_can_be_written(self, tmp_path):
        write(recorded(made(), label="\ud800 \x00"), tmp_path / "report.html")
        assert (tmp_path / "report.html").read_text(encoding="utf-8")

    def test_an_empty_recording_says_so(self, tmp_path):
        write(Trace.from_columns(meta={"label": "nothing"}), tmp_path / "report.html")
        text = plain_text((tmp_path / "report.html").read_text())
        assert "No batch was delivered" in text
        assert "holds no batch" in text
        assert list(tmp_path.iterdir()) == [tmp_path / "report.html"]
        # And one of which no batch was taken.
        blank = dict.fromkeys(("requested_s", "delivered_s", "released_s"), np.nan)
        trace = made(batches=6)
        trace = dataclasses.replace(trace, batches=trace.batches.assign(**blank, state="ready"))
        assert "No batch was delivered" in plain_text(page_of(content_of(trace)))

    def test_where_it_cannot_be_written_is_said_and_nothing_is_left(self, tmp_path):
        (tmp_path / "taken").mkdir()
        with pytest.raises(LoaderVizError, match="is not a file"):
            write(Trace.from_columns(), tmp_path / "taken")
        with pytest.raises(LoaderVizError, match="cannot write the report"):
            write(Trace.from_columns(), tmp_path / "nowhere" / "report.html")
        assert [path.name for path in tmp_path.iterdir()] == ["taken"]


def test_the_command_writes_the_page_and_names_it_and_its_json_says_the_same(loaderviz, tmp_path):
    made(batches=1).save(tmp_path / "run.parquet")
    found = json.loads(loaderviz("report", tmp_path / "run.parquet", "--json").out)
    assert found["verdict"] == made(batches=1).summary().verdict
    assert len(found["workers"]) == 2
    assert found["predicted"] is None
    assert not list(tmp_path.glob("*.html"))
    done = loaderviz("report", tmp_path / "run.parquet", "--out", tmp_path / "page.html")
    assert done.code == 0, done.err
    assert done.out.splitlines()[-1] == str(tmp_path / "page.html")
    assert (tmp_path / "page.html").stat().st_size > 1_000_000


def test_the_shapes_of_batches_are_on_the_page_where_they_were_measured(tmp_path):
    trace = made()
    shapes = ["int64 [4, 5]", "int64 [4, 6]", "<script>alert(1)</script>", None]
    measured = dataclasses.replace(
        trace, batches=trace.batches.assign(shapes=pd.Series(shapes, dtype=object))
    )
    said = write(measured, tmp_path / "page.html").data()["shapes"]
    assert (said["n_shapes"], said["n_unknown"]) == (3, 1)
    assert [row["shapes"] for row in said["most_common"]] == shapes[:3]
    json.dumps(said)
    page = (tmp_path / "page.html").read_text()
    assert "The model sees 3 shapes" in page
    assert "int64 [4, 6]" in page
    assert "<script>alert(1)" not in page
    write(trace, tmp_path / "page.html")
    assert 'id="shapes"' not in (tmp_path / "page.html").read_text()
