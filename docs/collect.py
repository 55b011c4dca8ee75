"""Gathers the sources of the site in one folder: each page exists once, wherever it lives.

The README gives a page for each of its sections, the notebooks and the doctor's codes a page each.
A link to a file that has a page leads to that page; one to other files keeps its text only.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[1]
HERE = ROOT / "docs"
CODES = ROOT / "loaderviz" / "_explain" / "pages"

# Of the README: each section that is a page, and its name.
SECTIONS = {
    "Start": "install.md",
    "The notebooks": "notebooks/index.md",
}
FILES = {
    "CHANGELOG.md": "changelog.md",
    "CODE_OF_CONDUCT.md": "code_of_conduct.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "benchmarks/RESULTS.md": "benchmarks.md",
}
FAMILIES = {
    "LV1": "Is every sample delivered exactly once, and in which order?",
    "LV2": "Which random numbers are drawn?",
    "LV3": "Where does the time go?",
    "LV4": "Memory, shared memory and open files",
    "LV5": "Workers and ranks: how they start, and end",
    "LV6": "Datasets and batches of the wrong form",
    "line-": "Lines of code that are known to cost much, as `loaderviz lines` finds them",
}
LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\]]*\])+)\]\(([^)\s]+)\)")
LIVE = "live"  # the folder of the pages that `make site` makes, beside the others


def collect(into: Path, *, live: bool = False) -> None:
    """Write the sources of all pages; ``live``: the pages of `make site` will be there, too."""
    shutil.rmtree(into, ignore_errors=True)
    (into / "codes").mkdir(parents=True)
    (into / "notebooks").mkdir()
    shutil.copytree(ROOT / "notebooks" / "images", into / "notebooks" / "images")
    shutil.copytree(HERE / "_static", into / "_static")
    for path in (HERE / "conf.py", ROOT / "loaderviz" / "schema.py"):
        shutil.copy(path, into)
    pages = pages_of_files()
    before, sections = readme()
    texts = {"README.md": ("home_text.md", before)}
    texts |= {f"README.md#{title}": (page, sections[title]) for title, page in SECTIONS.items()}
    texts |= {
        name: (page, text_of(name))
        for name, page in pages.items()
        if name.endswith(".md") and name != "README.md"
    }
    for name, (page, text) in texts.items():
        text = linked(text, PurePosixPath(name.partition("#")[0]), page, pages)
        (into / page).write_text(for_page(page, text), "utf-8")
    (into / "codes" / "index.md").write_text(index_of_codes(), "utf-8")
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        page = f"notebooks/{path.name}"
        (into / page).write_text(json.dumps(notebook_page(path, page, pages, live)), "utf-8")


def pages_of_files() -> dict[str, str]:
    """By file of the repository, its page on the site."""
    pages = {**FILES, "README.md": "index.md", "notebooks": "notebooks/index.md"}
    pages |= {f"docs/{path.name}": path.name for path in HERE.glob("*.md")}
    pages |= {f"notebooks/{path.name}": f"notebooks/{path.name}" for path in notebooks()}
    pages |= {path.relative_to(ROOT).as_posix(): f"codes/{path.name}" for path in CODES.iterdir()}
    return pages | {CODES.relative_to(ROOT).as_posix(): "codes/index.md"}


def notebooks() -> list[Path]:
    return sorted((ROOT / "notebooks").glob("*.ipynb"))


def text_of(name: str) -> str:
    path = ROOT / name
    return path.read_text("utf-8") if path.is_file() else ""


def readme() -> tuple[str, dict[str, str]]:
    """What the README opens with, and its sections by title, each as a page."""
    before, *sections = text_of("README.md").split("\n## ")
    text = before.partition("\n")[2].partition("<img")[0]
    return text, {title: f"# {title}\n{body}" for title, _, body in parted(sections)}


def parted(sections: list[str]) -> list[tuple[str, str, str]]:
    return [section.partition("\n") for section in sections]


def linked(text: str, file: PurePosixPath, page: str, pages: dict[str, str]) -> str:
    """The text of a file with its links to other files as links between pages."""

    def link(match: re.Match[str]) -> str:
        words, target = match[1], match[2]
        if re.match(r"https?:|mailto:", target):
            return match[0]
        if target.startswith("#"):
            return f"[{words}]({target.lower()})"  # JupyterLab's names keep capitals
        path, _, anchor = target.partition("#")
        if file.parts[0] == "docs" and path in {*pages.values(), *SECTIONS.values()}:
            return match[0]  # written for the site
        name = os.path.normpath(file.parent / path)
        if name == "README.md" and anchor == "the-notebooks":
            name, anchor = "notebooks", ""
        if name not in pages:
            return words  # no page of the site
        to = os.path.relpath(pages[name], PurePosixPath(page).parent)
        return f"[{words}]({to}{'#' if anchor else ''}{anchor})"

    return LINK.sub(link, text)


def for_page(page: str, text: str) -> str:
    """What only the site adds: lists of pages, and links from a code to others and its notebook."""
    if page == "notebooks/index.md":
        listed = "\n".join(path.stem for path in notebooks())
        return f"{text}\n\n```{{toctree}}\n:hidden:\n\n{listed}\n```\n"
    if page == "index.md" and not (HERE / "which_tool.md").exists():
        return text.replace("\nwhich_tool\n", "\n")
    if page.startswith("codes/"):
        text = re.sub(r"\((LV\d+)\)", r"([\1](\1.md))", text)
        return re.sub(r"(?m)Notebook: (\d\d .*)\.$", notebook_link, text, count=1)
    return text


def notebook_link(match: re.Match[str]) -> str:
    name = match[1].lower().replace(" ", "_")
    return f"Notebook: [{match[1]}](../notebooks/{name}.ipynb)."


def index_of_codes() -> str:
    """All codes with their titles, family by family."""
    parts = [
        "# The doctor's codes\n\n`loaderviz.doctor(loader)` looks for each that begins with LV. A "
        "code keeps its meaning. `loaderviz explain LV101` prints its page in a terminal.\n"
    ]
    codes = sorted(path.stem for path in CODES.iterdir())
    for family, title in FAMILIES.items():
        rows = [f"| [{code}]({code}.md) | {' | '.join(head_of(code))} |" for code in codes
                if code.startswith(family)]  # fmt: skip
        parts.append(f"## {title}\n\n| code | pitfall | severity |\n| --- | --- | --- |")
        parts[-1] += "\n" + "\n".join(rows) + "\n"
    listed = "\n".join(codes)
    return "\n".join([*parts, f"```{{toctree}}\n:hidden:\n\n{listed}\n```\n"])


def head_of(code: str) -> tuple[str, str]:
    """The title and the severity on the page of a code."""
    title, _, about, *_ = (CODES / f"{code}.md").read_text("utf-8").splitlines()
    return title.partition(": ")[2], about.partition(". ")[0].removeprefix("Severity: ")


def notebook_page(path: Path, page: str, pages: dict[str, str], live: bool) -> dict[str, object]:
    """The notebook with links between pages, and with a word on its figures."""
    notebook = json.loads(path.read_text("utf-8"))
    notebook["metadata"]["orphan"] = False
    file = PurePosixPath("notebooks") / path.name
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            cell["source"] = linked("".join(cell["source"]), file, page, pages)
    first = notebook["cells"][0]
    title, _, rest = first["source"].partition("\n")
    where = (
        f"<a href='../{LIVE}/{path.stem}.html'>The page with live figures</a>"
        if live
        else "`make site` makes a page with live figures, and `make lab` opens the notebook"
    )
    first["source"] = f"{title}\n\n*Text and code, without figures. {where}.*\n{rest}"
    return notebook
