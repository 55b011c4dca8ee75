"""Files that are damaged at random end no reader: some hundred cases of `benchmarks/fuzz.py`."""

import random
import shutil
import signal

import pytest

from consumers import ALLOWED, CONSUMERS, LAYERS, export_beside
from damage import damage, damage_profile, make_originals

QUICK = ("load", "summary", "compare", "check", "csv", "top", "audit", "perfetto")
SLOW = tuple(set(CONSUMERS) - {*QUICK})
MOST_S = 60


@pytest.fixture(scope="module")
def originals(tmp_path_factory):
    folder = tmp_path_factory.mktemp("originals")
    make_originals(folder)
    return folder


@pytest.fixture(autouse=True)
def limit():
    """Of time, for a case that would wait for ever."""

    def stop(*_):
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, stop)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def survives(consume, path):
    signal.alarm(MOST_S)
    try:
        consume(path)
    except ALLOWED as error:
        print(error)


@pytest.mark.parametrize("layer", LAYERS)
def test_a_damaged_file_gives_what_was_asked_for_or_a_refusal(layer, originals, tmp_path, capsys):
    for number in range(2 * len(QUICK)):
        noise = random.Random(f"{layer} {number}")
        path = damage(layer, originals, tmp_path / "case", noise)
        survives(CONSUMERS[QUICK[number % len(QUICK)]], path)
        shutil.rmtree(tmp_path / "case")
    printed = "".join(capsys.readouterr())
    assert printed
    assert not set(printed) & set("\x1b\x07\x08")


@pytest.mark.slow
@pytest.mark.parametrize("consumer", sorted(SLOW))
def test_nonsense_in_a_well_formed_file_does_so_in_every_reader(consumer, originals, tmp_path):
    for number in range(2):
        noise = random.Random(f"{consumer} {number}")
        path = damage("values", originals, tmp_path / "case", noise)
        survives(CONSUMERS[consumer], path)
        shutil.rmtree(tmp_path / "case")


def test_a_damaged_profile_is_refused_or_taken_along(originals, tmp_path):
    for number in range(8):
        damaged = damage_profile(originals, tmp_path / "case", random.Random(number))
        survives(lambda path: export_beside(path, originals), damaged)
        shutil.rmtree(tmp_path / "case")
