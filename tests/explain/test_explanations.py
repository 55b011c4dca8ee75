"""Each code has a page that says what its check says. `tests/doctor` examines the code on it.

That of costly lines is recorded by `tests/why`.
"""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

import loaderviz as lv
from loaderviz._doctor import Diagnosis, Finding
from loaderviz._doctor.checks import CHECKS, OF_RECORDINGS
from loaderviz._doctor.findings import SEVERITIES
from loaderviz._explain import about, codes, explanation, explanation_html, title_of
from loaderviz._explain.explanations import PAGES
from loaderviz.why.causes.costly_lines import KNOWN
from pitfalls import NOT_ON_A_PAGE, python_on_page

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
ALL_CHECKS = CHECKS | OF_RECORDINGS
# What takes several ranks, a GPU, or the reader's own loop: the page says so.
ONLY_COMPILED = {*OF_RECORDINGS, *NOT_ON_A_PAGE}
SECTIONS = ["How it is found", "What it costs", "Sick", "Cured", "Where people met it"]


def sections(code: str) -> dict[str, str]:
    head, *others = re.split(r"^## ", explanation(code), flags=re.MULTILINE)
    return {"": head} | dict(each.split("\n", 1) for each in others)


class TestThePages:
    def test_are_there_for_each_check_and_each_known_cost_and_no_other(self):
        assert set(codes()) == {*ALL_CHECKS, *(page for page, *_ in KNOWN)}
        assert sorted(path.stem for path in PAGES.iterdir()) == [*codes()]

    @pytest.mark.parametrize("code", codes())
    def test_are_read_by_their_check(self, code):
        said = ALL_CHECKS[code].about if code in ALL_CHECKS else about(code)
        title, _, head, _, *text = sections(code)[""].splitlines()
        assert title == f"# {code}: {said.title}"
        assert said.severity in SEVERITIES
        assert head == f"Severity: {said.severity}. Notebook: {said.notebook}."
        number, _, name = said.notebook.lower().partition(" ")
        assert (NOTEBOOKS / f"{number}_{name.replace(' ', '_')}.ipynb").exists()
        assert text
        threads = sections(code).get("Where people met it", "")
        assert said.links == tuple(re.findall(r"^- <(.*)>$", threads, re.MULTILINE))
        assert set(re.findall(r"LV\d+", explanation(code))) <= set(codes())

    @pytest.mark.parametrize("code", codes())
    def test_have_one_form_and_are_short(self, code):
        lines = explanation(code).splitlines()
        assert len(lines) <= 70
        assert max(map(len, lines)) <= 88
        n_sections = 5 if about(code).links else 4
        assert [*sections(code)][1:] == SECTIONS[:n_sections]
        for name in ("", *SECTIONS[:2]):
            assert "```" not in sections(code)[name]
        said = " ".join(explanation(code).split())
        assert ("tests only compile the code below" in said.lower()) == (code in ONLY_COMPILED)
        for name in SECTIONS[2:4]:
            compile(python_on_page(code, name), code, "exec")

    @pytest.mark.parametrize("code", codes())
    def test_are_folded_into_html_whole_and_escaped(self, code):
        page = ElementTree.fromstring(explanation_html(code))
        assert page.tag == "details"
        assert "open" not in page.attrib
        assert [each.text for each in page.iter("b")] == SECTIONS[:4]
        shown = ["".join(each.itertext()) for each in page.iter("pre")]
        assert shown == [python_on_page(code, name).rstrip("\n") for name in ("Sick", "Cured")]

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
