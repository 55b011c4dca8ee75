"""``make test``: every check, in two lanes side by side, all of them even when one fails.

The unit tests keep the cores busy; notebooks and browser wait a lot, for workers that sleep and for
each other. What the second lane prints comes when the first has ended, so that both can be read.
"""

import os
import subprocess
import sys
import tempfile
import threading
from typing import IO

HERE = ("lint", "format", "types", "layers", "unit")
BESIDE = ("notebooks", "browser")
MAKE = os.environ.get("MAKE", "make")


def main() -> int:
    failed: list[str] = []
    ended = threading.Event()
    with tempfile.TemporaryFile("w+", errors="replace") as kept:
        beside = threading.Thread(target=run, args=(BESIDE, failed, ended, kept))
        beside.start()
        try:
            run(HERE, failed, ended, None)
            say(f"waiting for: {', '.join(BESIDE)}", None)
        except KeyboardInterrupt:
            ended.set()
            raise
        finally:
            beside.join()
            kept.seek(0)
            print(kept.read(), end="", flush=True)
    named = ", ".join(check for check in HERE + BESIDE if check in failed)
    if named:
        say(f"Failed: {named}. Each runs alone as `make NAME`.", None)
    else:
        say(f"All checks passed: {', '.join(HERE + BESIDE)}.", None)
    return 1 if failed else 0


def run(
    checks: tuple[str, ...], failed: list[str], ended: threading.Event, kept: IO[str] | None
) -> None:
    """One after another, until it is ended; adds the names of those that fail."""
    for check in checks:
        if ended.is_set():
            return
        say(f"== make {check}", kept)
        command = [MAKE, "--no-print-directory", check]
        if subprocess.run(command, stdout=kept, stderr=kept, check=False).returncode:
            failed.append(check)


def say(text: str, kept: IO[str] | None) -> None:
    print(f"\n{text}", file=kept, flush=True)


if __name__ == "__main__":
    sys.exit(main())
