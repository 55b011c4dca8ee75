"""``loaderviz lines``: the ten lines that matter, and what is known of them."""

import json

import pytest

from traces import LINES, made, with_lines


@pytest.fixture
def path(tmp_path):
    with_lines(made(), not_seen=("worker 1: in use",)).save(tmp_path / "t.parquet")
    return tmp_path / "t.parquet"


def test_each_line_has_its_share_what_it_saves_and_its_place(loaderviz, path):
    said = loaderviz("lines", path)
    assert said.code == 0
    heading, first, its_place, known, second, other_place, *_ = said.out.splitlines()
    assert heading.split() == ["time", "share"]
    assert heading.index("share") + len("share") == first.index("75 %") + len("75 %")
    for part in ("█", "3 s", "75 %", "half saves"):
        assert part in first
    assert its_place.strip() == "dataset.py:41  row = self.table.iloc[i]"
    assert "not on a CPU" not in first
    assert "A DataFrame makes a Series" in known
    assert "89 % of its time not on a CPU" in second
    assert other_place.strip() == "dataset.py:60  time.sleep(0.1)"
    assert said.out.splitlines()[-1] == "Not looked at: worker 1: in use."


def test_the_same_as_json(loaderviz, path):
    found = json.loads(loaderviz("lines", path, "--json").out)
    assert [row["line"] for row in found["lines"]] == [41, 60]
    assert found["not_seen"] == ["worker 1: in use"]


def test_a_recording_without_lines_is_bad_input(loaderviz, tmp_path):
    made().save(tmp_path / "t.parquet")
    said = loaderviz("lines", tmp_path / "t.parquet")
    assert said.code == 2
    assert "loaderviz run --lines" in said.err


def test_text_of_a_stranger_s_file_sends_no_commands_to_the_terminal(loaderviz, tmp_path):
    frame = LINES[0].stack[1]._replace(source="\x1b[31mred")
    with_lines(made(), LINES[0]._replace(stack=(frame,))).save(tmp_path / "t.parquet")
    assert "\x1b" not in loaderviz("lines", tmp_path / "t.parquet").out
