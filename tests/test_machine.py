"""What this machine allows: the affinity mask, cut by the CPU quota of the container."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from loaderviz import machine
from own_code import in_module


@pytest.fixture
def cgroup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty /sys/fs/cgroup, a process at its root, and eight CPUs."""
    own = tmp_path / "cgroup"
    own.mkdir()
    monkeypatch.setattr(machine, "_CGROUP", own)
    monkeypatch.setattr(machine, "_cgroup_folders", lambda controller="": [own / controller])
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)), raising=False)
    return own


def test_without_a_quota_the_affinity_mask_counts_and_else_the_cpus(cgroup, monkeypatch):
    assert machine.cpu_allowance() == 8
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    assert machine.cpu_allowance() == 6
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert machine.cpu_allowance() == 1


@pytest.mark.parametrize(
    ("text", "allowance"),
    [
        ("150000 100000\n", 1.5),
        ("50000 100000\n", 0.5),
        ("1600000 100000\n", 8),  # more than the mask has
        ("max 100000\n", 8),
        ("", 8),
        ("many 100000\n", 8),
        ("100000 0\n", 8),
        ("100000\n", 8),
        (("250000", "100000"), 2.5),
        (("-1", "100000"), 8),
        (("", ""), 8),
        (("100000", "0"), 8),
    ],
)
def test_a_quota_of_cgroup_v2_or_v1_cuts_it(cgroup, text, allowance):
    if isinstance(text, str):
        (cgroup / "cpu.max").write_text(text)
    else:
        (cgroup / "cpu").mkdir()
        (cgroup / "cpu/cpu.cfs_quota_us").write_text(text[0])
        (cgroup / "cpu/cpu.cfs_period_us").write_text(text[1])
    (cgroup / "cpu.stat").write_text("throttled_usec 5\n")
    assert machine.cpu_allowance() == allowance
    has_quota = allowance < 8 or text == "1600000 100000\n"
    assert (machine.throttling_file() is not None) == has_quota


def test_the_tightest_quota_on_the_way_up_holds(cgroup, monkeypatch):
    folders = [cgroup / "pod" / "container", cgroup / "pod", cgroup]
    folders[0].mkdir(parents=True)
    monkeypatch.setattr(
        machine, "_cgroup_folders", lambda controller="": [] if controller else folders
    )
    (folders[0] / "cpu.max").write_text("max 100000\n")
    (folders[1] / "cpu.max").write_text("300000 100000\n")
    (folders[2] / "cpu.max").write_text("700000 100000\n")
    assert machine.cpu_allowance() == 3
    assert machine.throttling_file() == folders[1] / "cpu.stat"


@pytest.mark.parametrize(
    ("lines", "controller", "expected"),
    [
        ("0::/pod/container\n", "", ["pod/container", "pod", "."]),
        ("0::/\n", "", ["."]),
        ("12:cpu,cpuacct:/old\n0::/new\n", "", ["new", "."]),
        ("12:cpu,cpuacct:/old\n", "", ["."]),
        ("3:memory:/\n2:cpu,cpuacct:/a/b\n0::/\n", "cpu", ["cpu/a/b", "cpu/a", "cpu"]),
    ],
)
def test_the_cgroups_of_a_process_are_its_own_and_all_above(
    lines, controller, expected, tmp_path, monkeypatch
):
    read_text = Path.read_text

    @in_module("loaderviz.machine")
    def read(path: Path) -> str:
        return lines if path == Path("/proc/self/cgroup") else read_text(path)

    monkeypatch.setattr(Path, "read_text", read)
    monkeypatch.setattr(machine, "_CGROUP", tmp_path)
    assert machine._cgroup_folders(controller) == [tmp_path / part for part in expected]
    assert machine._cgroup_quota() == float("inf")  # of folders that are not there


@pytest.mark.parametrize(
    ("stat", "expected_ns"),
    [
        (b"usage_usec 9\nnr_throttled 2\nthrottled_usec 5\n", 5000),
        (b"nr_periods 3\nnr_throttled 1\nthrottled_time 700\n", 700),
        *((stat, None) for stat in (b"", b"usage_usec 9\n", b"throttled_usec many")),
    ],
)
def test_throttling_is_told_in_ns_and_a_file_that_does_not_say_is_an_error(stat, expected_ns):
    if expected_ns is not None:
        assert machine.throttled_ns(stat) == expected_ns
    else:
        with pytest.raises(ValueError, match=r"not in list|invalid literal"):
            machine.throttled_ns(stat)


def test_pressure_is_that_of_each_resource_that_is_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "_PRESSURE", tmp_path)
    assert machine.pressure_s() == {}
    (tmp_path / "io").write_text("some avg10=0.00 avg300=1.5 total=2500000\nfull total=7\n")
    (tmp_path / "cpu").write_text("some avg10=0.00\n")
    (tmp_path / "memory").write_text("")
    assert machine.pressure_s() == {"io": 2.5}


def test_the_rank_is_that_of_the_environment(monkeypatch):
    monkeypatch.delenv("RANK", raising=False)
    assert machine.rank() == 0
    for text, rank in [("3", 3), ("", 0), ("first", 0), ("-1", 0), ("²", 0)]:
        monkeypatch.setenv("RANK", text)
        assert machine.rank() == rank


class TestMemoryThatIsFree:
    @pytest.fixture(autouse=True)
    def roomy(self, monkeypatch):
        free = SimpleNamespace(available=10_000)
        monkeypatch.setattr(machine.psutil, "virtual_memory", lambda: free)

    def test_without_a_limit_it_is_that_of_the_machine(self, cgroup):
        assert machine.memory_available_bytes() == 10_000
        (cgroup / "memory.max").write_text("max\n")
        (cgroup / "memory.current").write_text("9000\n")
        (cgroup / "memory.stat").write_text("anon 1\ninactive_file 0\n")
        assert machine.memory_available_bytes() == 10_000

    @pytest.mark.parametrize(
        ("most", "held", "given_up", "free"),
        [
            (5000, 2000, 0, 3000),
            (5000, 4900, 1500, 1600),
            (5000, 6000, 0, 0),
            (50_000, 1, 0, 10_000),
        ],
    )
    def test_a_container_has_less(self, cgroup, most, held, given_up, free):
        (cgroup / "memory.max").write_text(f"{most}\n")
        (cgroup / "memory.current").write_text(f"{held}\n")
        (cgroup / "memory.stat").write_text(f"anon 1\ninactive_file {given_up}\nslab 3\n")
        assert machine.memory_available_bytes() == free


def test_the_resident_memory_has_a_peak():
    assert machine.rss_peak_bytes() > 1 << 20
