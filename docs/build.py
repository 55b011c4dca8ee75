"""``make docs``: the documentation as a site, in ``build/docs/html``. It needs no network.

Warnings of Sphinx are errors, and so is a link that leads nowhere or a page that loads anything
from another host.
"""

from __future__ import annotations

import shutil
import sys

from check_site import faults_of
from collect import LIVE, ROOT, collect
from sphinx.cmd.build import build_main

SOURCE = ROOT / "build" / "docs" / "source"
SITE = ROOT / "build" / "docs" / "html"
NOTEBOOK_PAGES = ROOT / "site"  # of `make site`


def main() -> None:
    live = (NOTEBOOK_PAGES / "index.html").exists()
    collect(SOURCE, live=live)
    shutil.rmtree(SITE, ignore_errors=True)
    if live:
        shutil.copytree(NOTEBOOK_PAGES, SITE / LIVE)
    options = ["-W", "--keep-going", "-n", "-q", "-j", "auto"]
    failed = build_main(
        [*options, "-b", "html", "-d", str(SOURCE.parent / "doctrees"), str(SOURCE), str(SITE)]
    )
    faults = faults_of(SITE)
    if failed or faults:
        sys.exit("\n".join(["The documentation has faults.", *faults]))
    print(f"Open {SITE / 'index.html'}")


if __name__ == "__main__":
    main()
