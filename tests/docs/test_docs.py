"""The documentation's sources, without Sphinx: links, names, lists of pages, and its checks."""

import importlib
import json
import re
import runpy
import zlib
from pathlib import Path
from typing import Any

import pytest

import loaderviz
from loaderviz._explain import codes, title_of

DOCS = Path(__file__).parents[2] / "docs"
COLLECT, CHECK_SITE, INVENTORIES = (
    runpy.run_path(str(DOCS / f"{name}.py")) for name in ("collect", "check_site", "inventories")
)
KNOWN = INVENTORIES["known_names"]()
LINK = re.compile(r"(?<!\])\]\(([^)\s]+)\)")


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """All pages, as Sphinx gets them."""
    into = tmp_path_factory.mktemp("source")
    COLLECT["collect"](into)
    return into


def texts(path: Path) -> list[str]:
    if path.suffix == ".md":
        return [re.sub(r"(?s)```.*?```|`[^`]*`", "", path.read_text("utf-8"))]
    cells = json.loads(path.read_text("utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"]


def pages(sources: Path) -> list[Path]:
    return [path for path in sorted(sources.rglob("*.*")) if path.suffix in (".md", ".ipynb")]


def test_every_link_leads_to_a_page_that_is_there(sources):
    n_links = 0
    for path in pages(sources):
        for target in [each for text in texts(path) for each in LINK.findall(text)]:
            if not re.match(r"https?:|#", target):
                n_links += 1
                assert (path.parent / target.partition("#")[0]).is_file(), f"{path}: {target}"
    assert n_links > 100


def test_every_page_is_in_a_list_of_pages(sources):
    listed = set()
    for path in pages(sources):
        for block in re.findall(r"(?s)```{toctree}\n(.*?)```", "\n".join(raw(path))):
            names = [line for line in block.splitlines() if line and not line.startswith(":")]
            names = [re.sub(r".*<(.*)>", r"\1", name) for name in names]
            listed |= {(path.parent / name).relative_to(sources).as_posix() for name in names}
    made = {path.relative_to(sources).with_suffix("").as_posix() for path in pages(sources)}
    assert made - listed == {"index", "home_text"}  # the first page, and what it includes
    assert listed <= made


@pytest.mark.parametrize("page", sorted(path.name for path in DOCS.glob("*.md")))
def test_what_is_written_for_the_site_keeps_its_links(sources, page):
    for target in LINK.findall((DOCS / page).read_text("utf-8")):
        if not target.startswith("../"):  # a file of the repository, which may have no page
            assert target in LINK.findall((sources / page).read_text("utf-8"))


def raw(path: Path) -> list[str]:
    return [path.read_text("utf-8")] if path.suffix == ".md" else []


def test_the_index_of_codes_names_each_with_its_title(sources):
    index = (sources / "codes" / "index.md").read_text("utf-8")
    rows = dict(re.findall(r"^\| \[(\S+)\]\(\1\.md\) \| (.*) \| \w+ \|$", index, re.MULTILINE))
    assert rows == {code: title_of(code) for code in codes()}


def test_notebooks_say_where_their_figures_are(sources, tmp_path):
    COLLECT["collect"](tmp_path, live=True)
    for folder, says in ((sources, "`make site`"), (tmp_path, "../live/00_first_look.html")):
        assert says in texts(folder / "notebooks" / "00_first_look.ipynb")[0]


def test_the_api_has_every_public_name(sources):
    api = (DOCS / "api.md").read_text("utf-8")
    documented = re.findall(r":: loaderviz\.(\w+)$", api, re.MULTILINE)
    assert sorted(documented) == sorted(loaderviz.__all__)
    listed = re.findall(r"^   (\w+)$", api.partition("## Record")[0], re.MULTILINE)
    assert sorted(listed) == sorted(loaderviz.__all__)


@pytest.mark.parametrize("page", ["api.md", "datasets.md", "notebook_tools.md"])
def test_what_a_page_documents_is_there(page):
    text = (DOCS / page).read_text("utf-8")
    names = re.findall(r"^\.\. auto\w+:: ([\w.]+)", text, re.MULTILINE)
    assert names
    for name in names:
        assert found(name) is not None, name


@pytest.mark.parametrize("known", KNOWN, ids=lambda known: known.name)
def test_a_name_of_another_project_is_there_and_its_page_names_it(known):
    name = re.sub(r"^pd\.", "pandas.", known.name)
    thing = found(name)
    assert isinstance(thing, type)
    assert known.project in INVENTORIES["SITES"]
    assert known.page.endswith(f"#{known.name}") or found(known.page.partition("#")[2]) is thing


def found(name: str) -> Any:
    """The object of this full name."""
    parts = name.split(".")
    for n in range(len(parts), 0, -1):
        try:
            thing = importlib.import_module(".".join(parts[:n]))
        except ImportError:
            continue
        for part in parts[n:]:
            thing = getattr(thing, part)
        return thing
    return vars(__import__("builtins"))[name]


def test_an_inventory_is_what_sphinx_reads(tmp_path):
    mapping = INVENTORIES["write_inventories"](tmp_path)
    assert mapping["torch"] == (INVENTORIES["SITES"]["torch"], str(tmp_path / "torch.inv"))
    data = (tmp_path / "torch.inv").read_bytes()
    head, rows = data.split(b"zlib.\n", 1)
    assert head.splitlines()[0] == b"# Sphinx inventory version 2"
    assert (
        "torch.utils.data.DataLoader py:class 1 data.html#torch.utils.data.DataLoader -"
        in zlib.decompress(rows).decode().splitlines()
    )


class TestTheCheckOfBuiltPages:
    def faults(self, folder: Path, body: str) -> list[str]:
        (folder / "sub").mkdir(exist_ok=True)
        (folder / "sub" / "other.html").write_text("<h1 id='top'>Other</h1>")
        (folder / "index.html").write_text(body)
        return CHECK_SITE["faults_of"](folder)

    @pytest.mark.parametrize(
        "body",
        [
            "<a href='sub/other.html#top'>there</a><p id='here'><a href='#here'>here</a>",
            "<a href='https://pytorch.org'>elsewhere</a><a href='mailto:a@b.org'>mail</a>",
        ],
    )
    def test_finds_nothing_where_all_is_well(self, tmp_path, body):
        assert self.faults(tmp_path, body) == []

    @pytest.mark.parametrize(
        ("body", "fault"),
        [
            ("<a href='no.html'>x</a>", "no.html leads nowhere"),
            ("<a href='sub/other.html#no'>x</a>", "sub/other.html#no is no place there"),
            ("<a href='#no'>x</a>", "#no is no place there"),
            ("<img src='no.png'>", "no.png leads nowhere"),
            ("<script src='https://cdn.org/a.js'></script>", "loads https://cdn.org/a.js"),
            ("<link rel='stylesheet' href='//cdn.org/a.css'>", "loads //cdn.org/a.css"),
        ],
    )
    def test_finds_what_leads_nowhere_or_comes_from_elsewhere(self, tmp_path, body, fault):
        assert any(fault in each for each in self.faults(tmp_path, body))
