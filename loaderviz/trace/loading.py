"""``load``: a trace from wherever it lies."""

from __future__ import annotations

from pathlib import Path

from loaderviz.errors import LoaderVizError
from loaderviz.trace.merge import read_run
from loaderviz.trace.parquet import read_parquet
from loaderviz.trace.recording.read_recording import META_NAME, read_folder
from loaderviz.trace.trace import Trace


def load(path: str | Path) -> Trace:
    """Open a trace: a file of ``Trace.save``, the folder of a recording, or that of a run.

    The folder of a recording is that of ``record(..., path=folder)``. It can be opened while the
    recording runs and after its process has crashed. Where several ranks recorded into one folder,
    all of them become one trace on one clock: ``meta["ranks"]`` says of each recording its ``rank``
    and ``file``, by how many seconds it began later than the first (``offset_s``), and how far that
    may be off (``uncertainty_s``: 0 on one clock; None where only the wall clocks tell). A second
    recording of a rank, as after a restart, has loaders of its own: their numbers go on where the
    first one's end. What cannot be read is left aside and named in ``meta["problems"]``.

    The samples of a run are read when ``samples`` is first asked for, which raises a
    ``LoaderVizError`` where memory would not do; ``sample_parts()`` goes through them anyhow.
    A file of unknown origin is safe to open.

    Raises:
        LoaderVizError: where there is nothing at ``path``, what is there is no trace, or the file
            is damaged; of a run, where no recording can be read.
    """
    try:
        place = Path(path)
    except TypeError as error:
        raise LoaderVizError(f"load() takes the path of a trace, not {path!r}") from error
    try:
        if place.is_dir():
            recordings = [] if (place / META_NAME).exists() else read_run.recordings_in(place)
            return read_run.merge(place, recordings) if recordings else read_folder(place)
        if place.is_file():
            return read_parquet.read(place)
        what = "is neither a file nor a folder" if place.exists() else "does not exist"
    except OSError as error:
        raise LoaderVizError(f"cannot open {str(path)!r}: {error}") from error
    raise LoaderVizError(
        f"{str(path)!r} {what}; load() opens the file that Trace.save(path) wrote, the folder that "
        "record(..., path=folder) wrote, or one with the recordings of many ranks"
    )
