"""``load``: opens a trace, be it a saved file or the folder of a recording or of a run."""

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
    they become one trace on one clock. ``meta["ranks"]`` then says of each recording its ``rank``
    and ``file``, how many seconds it began after the first (``offset_s``), and how far off that may
    be (``uncertainty_s``: 0 on one clock; None where only the wall clocks tell). A second recording
    of a rank, as after a restart, has loaders of its own: their numbers continue the first one's.
    What cannot be read is left out and named in ``meta["problems"]``.

    The samples of a run are read when ``samples`` is first asked for, which raises a
    ``LoaderVizError`` where they take more memory than is free; ``sample_parts()`` still goes
    through them.

    A file of unknown origin is safe to open: all that it says is checked. A file that is no regular
    one, is larger than the free memory or would unpack to far more than its size is refused, as is
    a link that leads out of the folder that is opened.

    Raises:
        LoaderVizError: where there is nothing at ``path``, what is there is not a trace, or the
            file is damaged; for a run, where no recording in it can be read.
    """
    try:
        source = Path(path)
    except TypeError as error:
        raise LoaderVizError(f"load() takes the path of a trace, not {path!r}") from error
    try:
        if source.is_dir():
            recordings = [] if (source / META_NAME).exists() else read_run.recordings_in(source)
            return read_run.merge(source, recordings) if recordings else read_folder(source)
        if source.is_file():
            return read_parquet.read(source)
        fault = "is neither a file nor a folder" if source.exists() else "does not exist"
    except OSError as error:
        raise LoaderVizError(f"cannot open {str(path)!r}: {error}") from error
    raise LoaderVizError(
        f"{str(path)!r} {fault}; load() opens the file that Trace.save(path) wrote, "
        "the folder that record(..., path=folder) wrote, or one with the recordings of many ranks"
    )
