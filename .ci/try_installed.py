"""Use an installed loaderviz without its extras: library, command line, notebooks."""

import subprocess
import sys
from pathlib import Path

from torch.utils.data import DataLoader

import loaderviz as lv

PROGRAM = Path(sys.executable).with_name("loaderviz")


def loaderviz(*arguments: str) -> str:
    """What a command prints."""
    done = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, check=True)
    return done.stdout


def what_is_missing(loader: DataLoader) -> str:
    """What `explore` says where the extras are not installed."""
    try:
        lv.explore(loader)
    except lv.LoaderVizError as error:
        if "loaderviz[notebook]" not in str(error):
            raise
        return str(error)
    raise AssertionError("the extras are installed: this environment is not empty")


def main(version: str) -> None:
    """Fail where anything is missing that an installation promises."""
    assert lv.__version__ == version
    assert Path(lv.__file__).is_relative_to(sys.prefix), f"not the installed one: {lv.__file__}"

    loader = DataLoader(range(32), batch_size=4, num_workers=2)
    with lv.record(loader) as recording:
        for _ in loader:
            pass
    recording.trace.save("run.parquet")
    lv.timeline(recording.trace).write_html("run.html")
    assert "workers" in loaderviz("summary", "run.parquet")
    loaderviz("report", "run.parquet", "--out", "report.html")
    assert "plotly" in Path("report.html").read_text()
    print(lv.audit(loader))

    loaderviz("notebooks", "copies", "--no-open")
    assert list(Path("copies").glob("00_*.ipynb"))
    assert list(Path("copies/images").iterdir())
    print(what_is_missing(loader))


if __name__ == "__main__":
    main(sys.argv[1])
