"""Each code has a page that says what its check says; the code on it is sick, and then cured."""

import importlib
import re
import sys
from contextlib import nullcontext
from xml.etree import ElementTree

import pytest

import loaderviz as lv
from loaderviz._doctor import Diagnosis, Finding, examination_runs
from loaderviz._doctor.checks import CHECKS, OF_RECORDINGS
from loaderviz._explain import codes, explanation, explanation_html, title_of
from loaderviz._explain.explanations import PAGES
from patients import CONDITIONS, busy_thread

pytestmark = pytest.mark.filterwarnings("ignore:'set_vital' is deprecated")

ALL_CHECKS = CHECKS | OF_RECORDINGS
# What takes several ranks, a GPU, or the reader's own loop: the page says so.
ONLY_COMPILED = {*OF_RECORDINGS, "LV202", "LV504", "LV505"}
EXECUTED = sorted({*CHECKS} - ONLY_COMPILED)
SECTIONS = ["How it is found", "What it costs", "Sick", "Cured", "Where people met it"]
HANGS = ("LV403", "LV502")  # those take half of the time that they are given
SLOW = ("LV315",)  # it starts workers anew, several times


def sections(code: str) -> dict[str, str]:
    head, *others = re.split(r"^## ", explanation(code), flags=re.MULTILINE)
    return {"": head} | dict(each.split("\n", 1) for each in others)


def python(code: str, name: str) -> str:
    (block,) = re.findall(r"```python\n(.*?)```", sections(code)[name], re.DOTALL)
    return block


class TestThePages:
    def test_are_there_for_each_check_and_no_other(self):
        assert codes() == tuple(sorted(ALL_CHECKS))
        assert sorted(path.stem for path in PAGES.iterdir()) == [*codes()]

    @pytest.mark.parametrize("code", codes())
    def test_say_what_the_check_says(self, code):
        check = ALL_CHECKS[code]
        title, _, about, _, *text = sections(code)[""].splitlines()
        assert title == f"# {code}: {title_of(code)}"
        assert title_of(code) == check.title
        assert about == f"Severity: {check.severity}. Notebook: {check.notebook}."
        assert text
        threads = sections(code).get("Where people met it", "")
        assert tuple(re.findall(r"^- <(.*)>$", threads, re.MULTILINE)) == check.links

    @pytest.mark.parametrize("code", codes())
    def test_have_one_form_and_are_short(self, code):
        lines = explanation(code).splitlines()
        assert len(lines) <= 70
        assert max(map(len, lines)) <= 88
        n_sections = 5 if ALL_CHECKS[code].links else 4
        assert [*sections(code)][1:] == SECTIONS[:n_sections]
        for name in ("", *SECTIONS[:2]):
            assert "```" not in sections(code)[name]
        said = " ".join(explanation(code).split())
        assert ("tests only compile the code below" in said.lower()) == (code in ONLY_COMPILED)

    @pytest.mark.parametrize("code", codes())
    def test_are_folded_into_html_whole_and_escaped(self, code):
        page = ElementTree.fromstring(explanation_html(code))
        assert page.tag == "details"
        assert "open" not in page.attrib
        assert [each.text for each in page.iter("b")] == SECTIONS[:4]
        shown = ["".join(each.itertext()) for each in page.iter("pre")]
        assert shown == [python(code, name).rstrip("\n") for name in ("Sick", "Cured")]

    @pytest.mark.parametrize(
        ("code", "near"), [("LV102x", "LV102"), ("lv9", ""), ("L V101", "LV101")]
    )
    def test_of_an_unknown_code_are_an_error_that_names_near_ones(self, code, near):
        with pytest.raises(lv.LoaderVizError, match=f"no code {code}.*{near}.*loaderviz explain"):
            explanation(code)

    def test_are_named_in_a_printed_finding_and_folded_into_a_shown_one(self):
        finding = Finding("LV101", title_of("LV101"), "error", "found", ("seen",))
        assert "more: loaderviz explain LV101" in str(finding)
        shown = Diagnosis("a loader", (finding,))._repr_html_()
        assert shown.count(explanation_html("LV101")) == 1

    def test_are_found_in_any_case(self):
        assert explanation("lv101") == explanation("LV101")

    @pytest.mark.parametrize("code", codes())
    def test_name_only_codes_that_there_are(self, code):
        assert set(re.findall(r"LV\d+", explanation(code))) <= set(codes())


class TestTheCode:
    @pytest.mark.parametrize("code", sorted(ONLY_COMPILED))
    @pytest.mark.parametrize("name", ["Sick", "Cured"])
    def test_that_is_only_compiled_is_python(self, code, name):
        compile(python(code, name), code, "exec")

    @pytest.mark.parametrize("code", EXECUTED)
    def test_is_sick(self, code, module):
        budget_s = 3 if code in HANGS else 20
        assert code in visit(code, module(code, python(code, "Sick")), budget_s).codes

    @pytest.mark.parametrize("code", EXECUTED)
    def test_is_cured_once_the_cure_follows(self, code, module):
        both = python(code, "Sick") + python(code, "Cured")
        diagnosis = visit(code, module(code, both), budget_s=20)
        assert code not in diagnosis.codes, str(diagnosis)
        assert diagnosis.broken == ()
        assert code in diagnosis.clear or code in ("LV302", "LV304"), str(diagnosis)


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Imports code as a module that workers can import, too, however they are started."""

    def imported(code: str, text: str):
        name = f"page_of_{code}"
        (tmp_path / f"{name}.py").write_text(text)
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.delitem(sys.modules, name, raising=False)
        return importlib.import_module(name)

    return imported


def visit(code: str, module, budget_s: float):
    condition = CONDITIONS.get(code, nullcontext)
    around = busy_thread(module.LOCK) if code == "LV502" else condition()
    with around, pytest.MonkeyPatch.context() as patch:
        if code != "LV308":  # the only pitfall that asks for this trial, which takes seconds
            patch.setattr(examination_runs, "computes_and_hands_over_late", lambda trace: False)
        resume = code in ("LV110", "LV111", "LV112")
        budget_s = 120 if code in SLOW else budget_s
        return lv.doctor(module.loader, budget_s=budget_s, resume=resume)
