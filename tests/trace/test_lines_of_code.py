"""The lines of code of a trace: whose they are, how they add up, what a file may hold of them."""

import json

import pytest

import loaderviz as lv
from loaderviz import LoaderVizError
from loaderviz.trace import lines_of_code
from loaderviz.trace.loaders_as_one import as_one
from traces import FETCHER, LINES, made, together, with_lines


def table(trace, **options):
    columns = ["line", "seconds", "total_s", "looks"]
    return trace.lines(**options)[columns].round(6).to_numpy().tolist()


def test_a_line_of_the_user_has_the_calls_of_packages_that_it_makes():
    trace = with_lines(made())
    assert table(trace) == [
        [41, 3.0, 3.0, 60],
        [60, 0.9, 0.9, 19],
        [42, 0.0, 0.9, 0],
    ]
    first = trace.lines().iloc[0]
    assert first[["share", "cpu_s", "waited_s"]].tolist() == pytest.approx([0.75, 2.9, 1.5])
    assert (first["file"], first["phase"]) == ("dataset.py", "read")
    assert table(trace, user=False)[0] == [1191, 3.0, 3.0, 60]  # the innermost, anybody's


def test_a_stack_without_a_line_of_the_user_counts_by_its_first_package():
    collate = FETCHER._replace(file="torch/utils/data/_utils/collate.py", line=398)
    inner = FETCHER._replace(file="torch/functional.py", line=7)
    trace = with_lines(made(), LINES[2]._replace(stack=(FETCHER, collate, inner)))
    assert table(trace) == [[398, 0.1, 0.1, 2]]


def test_without_lines_it_says_how_to_record_them():
    with pytest.raises(LoaderVizError, match=r"lines=True.*--lines"):
        made().lines()


def test_a_part_of_a_trace_has_its_own_lines():
    other = [row._replace(loader=1, rank=1) for row in LINES[1:2]]
    traces = made(), made(loader=1, rank=1)
    trace = with_lines(together(*traces), *LINES[:1], *other)
    assert [row[0] for row in table(trace)] == [41, 60, 42]
    assert [row[0] for row in table(trace.of_loader(0))] == [41]
    assert [row[0] for row in table(trace.of_ranks([1]))] == [60, 42]


def test_the_lives_of_a_loader_are_one():
    about = {"iterated_at": "train.py:3", "num_workers": 2}
    later = made(loader=1)
    for name in ("batches", "samples", "workers"):
        for column in getattr(later, name).filter(regex="_s$"):
            getattr(later, name)[column] += 100.0
    both = with_lines(
        together(made(), later, loaders=[about, about]),
        *(LINES[0]._replace(loader=n) for n in (0, 1)),
    )
    assert [row.loader for row in lines_of_code.looked(as_one(both))] == [0, 0]
    assert table(as_one(both)) == [[41, 6.0, 6.0, 120]]


def test_ranks_are_merged(tmp_path):
    for rank in range(2):
        trace = with_lines(made(rank=rank), *(row._replace(rank=rank) for row in LINES))
        trace.meta["rank"] = rank
        trace.save(tmp_path / f"rank-{rank:05d}.parquet")
    merged = lv.load(tmp_path)
    assert table(merged)[0] == [41, 6.0, 6.0, 120]
    assert {row.rank for row in lines_of_code.looked(merged)} == {0, 1}


def test_the_moments_of_ranks_are_on_one_clock_and_few(monkeypatch):
    monkeypatch.setattr(lines_of_code, "MOST_MOMENTS", 2)
    lines = with_lines(made()).meta["lines"]
    moments = [row.moments for row in lines_of_code.unpacked(lines, shift_s=1.5)]
    assert moments == [(2_000_000,), (2_200_000,), ()]


def test_of_very_many_stacks_the_longest_are_kept_and_of_the_others_the_sum(monkeypatch):
    monkeypatch.setattr(lines_of_code, "MOST_STACKS", 2)
    trace = with_lines(made())
    assert len(trace.meta["lines"]["stacks"]) == 2
    assert sum(row.seconds for row in lines_of_code.looked(trace)) == pytest.approx(4.0)
    assert table(trace)[0][0] == 41


@pytest.mark.parametrize(
    "damage",
    [
        lambda lines: lines.pop("frames"),
        lambda lines: lines["frames"][0].append(1),
        lambda lines: lines["stacks"][0].append(99),
        lambda lines: lines["looks"][0].__setitem__(4, 99),
        lambda lines: lines["looks"][0].__setitem__(6, "long"),
        lambda lines: lines["looks"][0].__setitem__(3, 4),
        lambda lines: lines["looks"][0][-1].append(1.5),
        lambda lines: lines["looks"].append([0]),
        lambda lines: lines["not_seen"].append(None),
    ],
)
def test_what_no_recording_can_hold_is_refused(damage):
    trace = with_lines(made())
    lines = json.loads(json.dumps(trace.meta["lines"]))
    damage(lines)
    with pytest.raises(LoaderVizError, match="lines"):
        lv.Trace.from_columns(meta={"lines": lines})


def test_exports_hold_each_worker_s_stacks(tmp_path, loaderviz):
    with_lines(made()).save(tmp_path / "t.parquet")
    loaderviz("export", tmp_path / "t.parquet", "--to", "speedscope")
    file = json.loads((tmp_path / "t.speedscope.json").read_text())
    assert [each["name"] for each in file["profiles"]] == ["worker 0", "worker 1"]
    assert [sum(each["weights"]) for each in file["profiles"]] == pytest.approx([3.0, 1.0])
    (stack,) = file["profiles"][0]["samples"]
    names = [file["shared"]["frames"][number]["name"] for number in stack]
    assert names[:3] == ["read", "fetch", "Rows.__getitem__"]
    loaderviz("export", tmp_path / "t.parquet", "--to", "collapsed")
    lines = (tmp_path / "t.collapsed.txt").read_text().splitlines()
    assert lines[0].startswith("worker 0;read;fetch (torch/")
    assert sum(int(line.rpartition(" ")[2]) for line in lines) == 4_000_000
