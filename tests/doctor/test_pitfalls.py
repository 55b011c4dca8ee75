"""Each pitfall is found where it is, and not once it is cured; healthy loaders have none."""

import re
from typing import Any

import pytest

import loaderviz as lv
from loaderviz._doctor.checks import CHECKS
from loaderviz._doctor.findings import SEVERITIES
from patients import HEALTHY
from pitfalls import BUDGET_S, CURED, SICK, code_of, examine, looked_at, undecided, visit

# Rows of the table of pitfalls.
CODES = {
    *(f"LV10{i}" for i in range(1, 10)),
    *(f"LV11{i}" for i in range(6)),
    *(f"LV1{i}" for i in range(16, 27)),
    *(f"LV20{i}" for i in range(1, 8)),
    *(f"LV30{i}" for i in (1, 2, 3, 4, 5, 6, 9)),
    *(f"LV31{i}" for i in (0, 1, 2, 4, 5)),
    *(f"LV40{i}" for i in range(1, 4)),
    *(f"LV50{i}" for i in (1, 2, 3, 4, 5, 8)),
    "LV601",
    "LV602",
    "LV603",
    "LV604",
}
OF_RANKS = {"LV125", "LV202", "LV505"}  # in test_doctor_ranks.py
SEEN_WITHOUT_RUNNING = {
    "LV124",
    "LV205",
    "LV402",
    "LV501",
    "LV501 collate",
    "LV503",
    "LV601",
    "LV601 style",
}
# Those that fail in a worker, or work in it as if nothing were, are run nonetheless.
NOT_RUN = SEEN_WITHOUT_RUNNING - {"LV501", "LV503"}
SHOWS_NOTHING = {"LV305 affinity", "LV504"}  # before it runs, in these patients
REPRODUCED_BY_OURSELVES = {"LV103", "LV107", "LV115", "LV206", "LV207", "LV312"}
NO_WORKERS_ANYMORE = ("LV302", "LV304")  # once cured: such a check has nothing to look at
# What the text of a finding has to say, beside what it says of any.
SAYS = {
    "LV101": "32 samples were delivered, but one process reads only 16",
    "LV108": r"loader\.sampler\.set_epoch\(epoch\)",
    "LV315": r"dataset\.paths \(list of 1,200,000\)",
    "LV502": r"a worker is stuck at: .*page_of_LV502\.py:\d+ in __getitem__",
}

# What shows without running, and some of the rest; the whole sweep is slow.
QUICK = {"LV101", "LV108", "LV201", "LV301"} | (SEEN_WITHOUT_RUNNING - {"LV503"})
QUICK_ONCE_CURED = {"LV101", "LV601"}
QUICK_HEALTHY = {"shuffled by a generator", "a shared stream that is shuffled"}

pytestmark = pytest.mark.filterwarnings("ignore:'set_vital' is deprecated")


def swept(names: Any, quick: set[str]) -> list[Any]:
    return [pytest.param(name, marks=() if name in quick else pytest.mark.slow) for name in names]


class TestEveryPitfall:
    def test_is_a_check_and_has_a_patient(self):
        assert set(CHECKS) == CODES
        assert {code_of(name) for name in SICK} | OF_RANKS == CODES

    @pytest.mark.parametrize("name", swept(SICK, QUICK))
    def test_is_found_where_it_is(self, name):
        diagnosis = visit(name, cured=False, run=name not in NOT_RUN)
        assert diagnosis.broken == ()
        code = code_of(name)
        assert code in diagnosis.codes, str(diagnosis)
        finding = next(each for each in diagnosis.findings if each.code == code)
        assert finding.severity in SEVERITIES
        assert finding.evidence
        assert all(finding.evidence)
        assert finding.fix
        assert finding.notebook
        assert re.search(SAYS.get(name, ""), " ".join([*finding.evidence, finding.fix]), re.DOTALL)
        if name == "LV306 tensors":  # what hands batches over is no helper of what reads
            assert "LV309" not in diagnosis.codes, str(diagnosis)

    @pytest.mark.parametrize("name", swept(CURED, QUICK_ONCE_CURED))
    def test_is_not_found_once_it_is_cured(self, name):
        diagnosis = visit(name, cured=True)
        code = code_of(name)
        assert code not in diagnosis.codes, str(diagnosis)
        assert "error" not in {each.severity for each in diagnosis}, str(diagnosis)
        assert diagnosis.broken == ()
        assert code in diagnosis.clear or code in NO_WORKERS_ANYMORE, str(diagnosis)

    def test_shows_without_running_only_where_attributes_tell(self):
        looks = {name: examine(name, cured=False, run=False) for name in SICK}
        assert {name for name in SICK if code_of(name) in looks[name].codes} == SEEN_WITHOUT_RUNNING
        for name in {*SICK} - SEEN_WITHOUT_RUNNING - SHOWS_NOTHING:
            assert "doctor(loader, run=True)" in undecided(looks[name])[code_of(name)]

    def test_that_is_cured_does_not_show_without_running(self):
        for name in SEEN_WITHOUT_RUNNING.intersection(CURED):
            assert code_of(name) not in examine(name, cured=True, run=False).codes, name

    def test_names_where_it_comes_from(self):
        pages = {code: check.about for code, check in CHECKS.items()}
        assert all(page.notebook for page in pages.values())
        assert {code for code in pages if not pages[code].links} == REPRODUCED_BY_OURSELVES
        links = [link for page in pages.values() for link in page.links]
        assert all(link.startswith("https://github.com/") for link in links)


class TestAHealthyLoader:
    @pytest.mark.parametrize("name", swept(HEALTHY, QUICK_HEALTHY))
    def test_has_nothing(self, name):
        diagnosis = looked_at(
            lambda: lv.doctor(HEALTHY[name](), budget_s=BUDGET_S),
            lambda found: not any(code.startswith("LV3") for code in found.codes),
        )
        assert diagnosis.codes == (), str(diagnosis)
        assert diagnosis.broken == ()
        assert diagnosis.troubles == ()

    def test_has_nothing_that_shows_without_running(self):
        assert {
            name: lv.doctor(make(), run=False).codes for name, make in HEALTHY.items()
        } == dict.fromkeys(HEALTHY, ())
