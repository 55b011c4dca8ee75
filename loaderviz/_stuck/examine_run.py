"""Which ranks of a run stand still, and why; who of them only waits for another."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from loaderviz._stuck.examine_rank import examine_rank
from loaderviz._stuck.loop_now import LoopNow, read_loop
from loaderviz._stuck.rank_now import CONSUMER, RANKS, RankNow
from loaderviz._stuck.recorded_processes import main_process
from loaderviz.errors import LoaderVizError
from loaderviz.stack_note import pid_namespace
from loaderviz.trace import META_NAME


def examine_run(folder: Path) -> list[RankNow]:
    """How each recording in ``folder`` stands; it is itself one, or holds one for each rank.

    Raises:
        LoaderVizError: where nothing that runs, and is seen from here, is recorded there.
    """
    loops = [loop for loop in _loops(_recordings(folder)) if not loop.ended]
    if not loops:
        raise LoaderVizError(f"the run in {str(folder)!r} has ended: see loaderviz summary")
    why_unseen = {loop.folder: _why_unseen(loop) for loop in loops}
    seen = [loop for loop in loops if not why_unseen[loop.folder]]
    if not seen:
        raise LoaderVizError(f"{why_unseen[loops[0].folder]}: run loaderviz stuck there")
    if not any(main_process(loop).is_alive() for loop in seen):
        raise LoaderVizError(
            f"process {seen[0].pid}, which recorded into {str(seen[0].folder)!r}, does not run any "
            "more: it was killed. See loaderviz summary"
        )
    with ThreadPoolExecutor() as pool:  # it is mostly waiting for answers
        ranks = list(pool.map(_examined, seen))
    ranks += [
        RankNow.of(loop, f"Not looked at: {why_unseen[loop.folder]}.")
        for loop in loops
        if why_unseen[loop.folder]
    ]
    return _compared(sorted(ranks, key=lambda rank: (rank.rank, rank.name)))


def _loops(folders: list[Path]) -> list[LoopNow]:
    """The loops that can be read; raises LoaderVizError where none can."""
    loops, errors = [], []
    for folder in folders:
        try:
            loops.append(read_loop(folder))
        except LoaderVizError as error:  # it may just have ended
            errors.append(error)
    if errors and not loops:
        raise errors[0]
    return loops


def _examined(loop: LoopNow) -> RankNow:
    try:
        return examine_rank(loop)
    except LoaderVizError as error:  # a file went away, or is damaged
        return RankNow.of(loop, f"Not known: {error}")


def _recordings(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise LoaderVizError(
            f"{str(folder)!r} is no folder: give that of record(..., path=DIR) or of loaderviz "
            "run --out DIR"
        )
    if (folder / META_NAME).is_file():
        return [folder]
    found = sorted(path.parent for path in folder.glob(f"*/{META_NAME}"))
    if not found:
        has_ended = any(folder.glob("*.parquet"))
        state = "the run has ended: see loaderviz summary" if has_ended else "nothing is recorded"
        raise LoaderVizError(f"no recording runs in {str(folder)!r}: {state}")
    return found


def _why_unseen(loop: LoopNow) -> str:
    """Why the processes of a recording are not seen from here; empty where they are."""
    if not loop.here:
        return (
            f"rank {loop.rank} was recorded on another machine ({loop.host}), or before this one "
            "was started anew"
        )
    note = main_process(loop).note
    try:
        if note is not None and note.namespace not in ("", pid_namespace()):
            return f"rank {loop.rank} runs in another container"
    except OSError:  # a system without containers
        pass
    return ""


def _compared(ranks: list[RankNow]) -> list[RankNow]:
    """The same; and who may only wait for another rank: it works on a later batch than that one."""
    behind = [rank for rank in ranks if rank.stuck and rank.cause not in (CONSUMER, RANKS)]
    if not behind:
        return ranks
    first = min(behind, key=lambda rank: rank.n_batches)
    return [
        replace(
            rank, cause=RANKS, verdict=f"{rank.verdict} It may wait for rank {first.rank} there."
        )
        if rank.stuck and rank.cause == CONSUMER and rank.n_batches > first.n_batches
        else rank
        for rank in ranks
    ]
