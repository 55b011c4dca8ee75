"""Words about numbers: one wording for each."""

import html
import math
import re
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loaderviz import text

FINITE = st.floats(-1e12, 1e12)
OF_ONE_NUMBER = (text.rate, text.duration, text.size, text.percent, text.change)


@pytest.mark.parametrize(
    ("written", "said"),
    [
        (text.rate, {0: "0", 0.25: "0.25", 2.5: "2.5", 99.96: "100", 123.4: "123"}),
        (text.rate, {999.9: "1,000", 4000: "4,000", 123456: "123,000"}),
        (text.duration, {-0.0: "0 s", 1e-17: "0 s", 1.2e-6: "1.2 µs", 5e-5: "50 µs"}),
        (text.duration, {0.9999e-3: "1 ms", 0.02: "20 ms", 0.201: "201 ms", -0.02: "-20 ms"}),
        (text.duration, {0.9999: "1 s", 2.5: "2.5 s", 99.99: "100 s", 1234: "1,230 s"}),
        (text.size, {0: "0 B", 512: "512 B", 1000: "0.977 KiB", 1536: "1.5 KiB"}),
        (text.size, {140 << 20: "140 MiB", 3 << 30: "3 GiB", 5 << 40: "5 TiB"}),
        (text.size, {2 << 50: "2,050 TiB"}),
        (text.change, {0.5: "+50 %", 0: "0 %", -0.12: "−12 %", 2: "+200 %"}),  # noqa: RUF001
        (text.worker_name, {-1: "main process", 0: "worker 0", 3: "worker 3"}),
        (partial(text.count, singular="worker"), {0: "0 workers", 1: "1 worker"}),
        (partial(text.count, singular="CPU"), {1.0: "1 CPU", 2.0: "2 CPUs", 2.5: "2.5 CPUs"}),
        (lambda n: text.count(n, "batch", "batches"), {4000: "4,000 batches", 1: "1 batch"}),
    ],
)
def test_numbers_have_three_digits_and_the_unit_that_suits(written, said):
    assert {value: written(value) for value in said} == said


@pytest.mark.parametrize(
    ("parts_s", "total", "parts"),
    [([0.484, 0.207, 0.0099], "700 ms", ["480 ms", "210 ms", "10 ms"]),
     ([5.4, 0.6, 0.2], "6.2 s", ["5.4 s", "0.6 s", "0.2 s"]),
     ([6, 0.04, 0], "6.04 s", ["6.00 s", "0.04 s", "0 s"]),
     ([3, 2], "5 s", ["3 s", "2 s"]),
     ([1 / 3] * 3, "1.00 s", ["0.34 s", "0.33 s", "0.33 s"]),
     ([0.96, 0.56], "1.52 s", ["0.96 s", "0.56 s"]),
     ([1234, 300], "1,500 s", ["1,200 s", "300 s"]), ([0.0, 0.0], "0 s", ["0 s", "0 s"])],
)  # fmt: skip
def test_durations_that_are_added_are_told_to_as_few_digits_as_are_right(parts_s, total, parts):
    assert text.durations_that_add_up(parts_s) == (total, parts)


@settings(max_examples=40)
@given(st.lists(st.floats(0, 1e5), min_size=1, max_size=5))
def test_durations_add_up_as_they_are_written(parts_s):
    def read(written):
        number, unit = written.replace(",", "").split(" ")
        return float(number) * {"s": 1, "ms": 1e-3, "µs": 1e-6}[unit]

    total, parts = text.durations_that_add_up(parts_s)
    assert sum(map(read, parts)) == pytest.approx(read(total), rel=1e-9, abs=1e-12)
    assert read(total) == pytest.approx(sum(parts_s), rel=0.06, abs=1e-9)
    one_unit = {each.split(" ")[1] for each in [total, *parts] if each != "0 s"}
    assert len(one_unit) <= 1


@pytest.mark.parametrize(
    ("share", "decimals", "written"),
    [(0, 0, "0 %"), (-1e-16, 0, "0 %"), (1e-16, 0, "0 %"), (0.004, 0, "under 1 %"),
     (0.004, 1, "0.4 %"), (0.0004, 1, "under 0.1 %"), (0.006, 0, "1 %"), (0.41, 0, "41 %"),
     (0.41, 1, "41.0 %"), (1, 0, "100 %")],
)  # fmt: skip
def test_a_share_is_told_in_percent(share, decimals, written):
    assert text.percent(share, decimals) == written


@pytest.mark.parametrize("written", OF_ONE_NUMBER)
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_not_known_is_a_dash(written, value):
    assert written(value) == text.NOT_KNOWN


@pytest.mark.parametrize("written", OF_ONE_NUMBER)
@settings(max_examples=40)
@given(value=FINITE)
def test_every_number_has_a_plain_text(written, value):
    said = written(value)
    assert html.escape(said) == said
    assert re.search(r"\d", said)
    assert not re.search(r"nan|inf", said)


@settings(max_examples=40)
@given(seconds=st.floats(1e-8, 1e12))
def test_a_duration_can_be_read_back_to_three_digits(seconds):
    number, unit = text.duration(seconds).replace(",", "").split()
    in_seconds = float(number) * {"s": 1, "ms": 1e-3, "µs": 1e-6}[unit]
    assert in_seconds == pytest.approx(seconds, rel=6e-3)


@settings(max_examples=40)
@given(n_bytes=st.integers(1, 1 << 50))
def test_bytes_can_be_read_back_to_three_digits(n_bytes):
    number, unit = text.size(n_bytes).replace(",", "").split()
    power = ("B", "KiB", "MiB", "GiB", "TiB").index(unit)
    assert float(number) * 1024**power == pytest.approx(n_bytes, rel=6e-3)


@settings(max_examples=40)
@given(st.text("ab -", max_size=300), st.integers(0, 8), st.integers(0, 12))
def test_printed_text_breaks_between_words_alone(words, indent, hanging):
    lines = text.wrapped(words, indent, hanging).split("\n")
    assert " ".join(lines).split() == words.split()
    assert all(len(line) <= text.PRINTED_WIDTH or len(line.split()) == 1 for line in lines)
    assert all(line.startswith((indent + hanging) * " ") for line in lines[1:])
