"""Looks at built pages: does each link lead somewhere, and does nothing come from another host?"""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "srcset"}


class Page(HTMLParser):
    """What a page links to, what it loads, and which places in it have a name."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.loaded: set[str] = set()
        self.names: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.names |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.add(given["href"])
        if tag in LOADED and LOADED[tag] in given and given.get("rel") != "canonical":
            self.loaded.add(given[LOADED[tag]])


def faults_of(site: Path, *, but: str = "live") -> list[str]:
    """What is wrong in each page of the site; not in the folder ``but``, which has other checks."""
    paths = [
        path for path in sorted(site.rglob("*.html")) if path.relative_to(site).parts[0] != but
    ]
    pages = {path: Page(path.read_text("utf-8")) for path in paths}
    faults = []
    for path, page in pages.items():
        name = path.relative_to(site)
        faults += [f"{name} loads {url}" for url in sorted(page.loaded) if urlsplit(url).netloc]
        for link in sorted(page.links | page.loaded):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            to = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not to.is_file():
                faults.append(f"{name}: {link} leads nowhere")
            elif parts.fragment and to in pages and unquote(parts.fragment) not in pages[to].names:
                faults.append(f"{name}: {link} is no place there")
    return faults
