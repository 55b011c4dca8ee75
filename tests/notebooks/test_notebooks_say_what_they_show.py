"""Each quantity in a notebook's text is one that its cells set, print, draw or prove."""

import re
from pathlib import Path

import nbformat
import pytest
from notebooks.proven import proofs_of

FOLDER = Path(__file__).parents[2] / "notebooks"
COURSE = FOLDER.parent / "loaderviz" / "course"
NUMBER = re.compile(r"(?<![\w.])\d[\d_,]*(?:\.\d+)?(?:e-?\d+)?")
UNITS = (
    r"%|ms|s|µs|minutes|hours|MiB|GiB|kB|MB|GB|CPUs?|batches|samples|ranks|workers|times|rows|"
    r"steps|slots|sequences|files|epochs"
)
QUANTITY = re.compile(rf"(?<![\w.#,])(\d[\d,]*(?:\.\d+)?)(?:\s*|-)({UNITS})(?!\w)")
NO_CLAIM = re.compile(r"```.*?```|\]\([^)]*\)|^- \*\*Time:.*?$", re.DOTALL | re.MULTILINE)
# What a cell's number may count: 20 ms are sleep(0.02), 8 % a share of 0.08.
FACTORS = {"ms": [1e-3], "s": [1e3], "%": [1e-2], "MB": [1e6, 1e-3], "GB": [1e9, 1e3]}
# What no cell shows, by notebook: how it is worked out of what the text gives, or whose it is.
WORKED_OUT: dict[str, dict[str, float | str]] = {
    "00_first_look": {"0.2 s": 4 * 0.05},
    "03_workers_on_a_timeline": {"0.04 s": 4 * 0.02 / 2},  # two workers, a batch of 4
    "05_randomness": {"100 workers": 10_000 / 100},
    "07_how_many_workers": {
        "30 s": "the default of recommend's budget_s",
        "0.08 s": 8 * 0.01,
    },
    "08_feeding_the_gpu": {"40 ms": 80 / 2, "2.75 workers": 55 / 20},
    "10_your_own_loader": {
        "500 batches": "the limit of doctor's look",
        "95 times": "what a 95 % interval is",
    },
    "11_stop_and_resume": {
        "100,000 batches": "an example",
        "33 minutes": round(100_000 * 0.02 / 60),
        "28 hours": "the user's own, in the issue that is linked",
    },
    "12_what_a_worker_costs": {"0.14 MiB": round(3 * 224 * 224 / 2**20, 2)},
    "09_many_ranks": {"30 minutes": "torch's default timeout of gloo"},
}


@pytest.fixture(params=sorted(FOLDER.glob("*.ipynb")), ids=lambda path: path.stem)
def path(request) -> Path:
    return request.param


def quantities(path: Path) -> list[tuple[str, float, str, str]]:
    """Each quantity of the text: as it stands, its number, its unit, and what stands around it."""
    found = []
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type == "markdown":
            text = " ".join(NO_CLAIM.sub(" ", cell.source).split())
            for match in QUANTITY.finditer(text):
                number = float(match[1].replace(",", ""))
                around = text[max(0, match.start() - 60) : match.end() + 30]
                found.append((f"{match[1]} {match[2]}", number, match[2], around))
    return found


def shown_numbers(path: Path) -> set[float]:
    """Those in its code, what it keeps of its outputs, its proofs, exercises and recordings."""
    sources = [code + what for _, what, code in proofs_of(path.stem)]
    files = [FOLDER / "recordings" / f"record_{path.stem[:2]}.py"]
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type == "code":
            outputs = [out.get("text") or out.get("data", {}) for out in cell.outputs]
            sources += [
                cell.source,
                *(
                    str(out.get("text/plain", "")) if isinstance(out, dict) else out
                    for out in outputs
                ),
            ]
            for names in re.findall(r"^from loaderviz\.course import (.+)$", cell.source, re.M):
                files += [COURSE / f"{name}.py" for name in names.split(", ")]
    sources += [file.read_text("utf-8") for file in files if file.exists()]
    return {
        float(number.replace(",", "").replace("_", ""))
        for source in sources
        for number in NUMBER.findall(source)
    }


def test_each_quantity_is_tied_to_a_cell(path):
    shown, worked_out = shown_numbers(path), WORKED_OUT.get(path.stem, {})
    untied = [
        f"{said}: ... {around} ..."
        for said, number, unit, around in quantities(path)
        if said not in worked_out
        and not any(
            abs(number * factor - other) <= 1e-9 * max(number, 1)
            for factor in (1, *FACTORS.get(unit, []))
            for other in shown
        )
    ]
    assert untied == []


def test_what_is_worked_out_is_said_and_right(path):
    said = {text: number for text, number, *_ in quantities(path)}
    for text, value in WORKED_OUT.get(path.stem, {}).items():
        assert text in said
        assert isinstance(value, str) or value == pytest.approx(said[text])
