"""A recording that runs, as it stands now: reads what its processes have added since the last time.

That costs as much as was written in between, however long the recording is. ``load`` reads all.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import psutil

from loaderviz import machine
from loaderviz.clocks.process_clock import now
from loaderviz.errors import LoaderVizError
from loaderviz.record_layout import MAIN_PROCESS, NOBODY, Batch, State, Tag, Task
from loaderviz.spool import Words
from loaderviz.trace import WINDOWS_NAME
from loaderviz.trace.recording.read_recording import incidents_in, more_loaders, read_meta
from loaderviz.trace.recording.spool_tail import SpoolTail
from loaderviz.trace.windows import waited_share, written

Nth = tuple[int, int]  # an iterator, and which of its batches: the first is 1
WINDOW_S: Final = 5.0  # rates and shares are of the last WINDOW_S seconds
MOST_OPEN: Final = 4096  # batches under way; those of epochs that were left early stay so for ever


@dataclass(frozen=True)
class WorkerNow:
    """One worker at one moment.

    Attributes:
        worker: its number; -1 is the main process itself.
        busy_share: the share of the last ``WINDOW_S`` that it made batches, 0 to 1.
        reading_s: since it began the batch that it makes now; NaN where it waits for work.
        ready: how many of its batches are made and not taken yet.
        rss_bytes: its resident memory, as last measured; 0 where it is not known.
        loader: the type of the dataset that it reads; empty where it is not known.
    """

    worker: int
    busy_share: float
    reading_s: float
    ready: int
    rss_bytes: int
    loader: str = ""


@dataclass(frozen=True)
class RecordingNow:
    """A recording at one moment. Rates and shares are of the last ``WINDOW_S`` seconds.

    Attributes:
        name: of its folder.
        rank: of its process.
        label: what the user called it, None for nothing.
        running: whether it goes on.
        elapsed_s: since it began.
        epoch: the one that began last.
        n_batches: how many were delivered so far.
        batches_per_s: how many were delivered per second.
        samples_per_s: how many were read per second, in all processes; of a loader whose own work
            is not seen, how many were delivered. NaN where batches came whose samples nobody knows.
        wait_share: the share of the time that the loop waited for batches, 0 to 1. NaN where a
            thread of its own reads ahead.
        waiting_s: since the loop asked for the batch that it waits for now; 0 where it works.
        run_wait_share: of a recording with ``last_s`` the same of its windows so far, those that
            are over; else NaN.
        incidents: of such a recording, when each was (seconds since it began), and what it says.
        workers: those that run, in order of their numbers.
        problem: why the main process stopped recording; empty where it did not.
    """

    name: str
    rank: int
    label: str | None
    running: bool
    elapsed_s: float
    epoch: int
    n_batches: int
    batches_per_s: float
    samples_per_s: float
    wait_share: float
    waiting_s: float
    run_wait_share: float
    incidents: tuple[tuple[float, str], ...]
    workers: tuple[WorkerNow, ...]
    problem: str


class LiveRecording:
    """The recording in a folder, to be read again and again while it goes on.

    Raises:
        LoaderVizError: where there is no recording in ``folder``.
    """

    def __init__(self, folder: Path) -> None:
        try:
            meta = read_meta(folder)
            self._rank, self._label = meta["rank"], meta.get("label")
            self._first_loaders: list[Any] = meta["loaders"]
            self._started_ns, _ = meta["started"]
            self._pid = meta.get("pid") or 0
            self._same_clock = meta.get("clock_domain") == machine.clock_domain()
        except (OSError, RecursionError, ValueError, TypeError, LookupError) as error:
            raise LoaderVizError(
                f"{str(folder)!r} holds no recording that runs ({error})"
            ) from error
        self._folder = folder
        self._main = SpoolTail(folder / "main.spool")
        self._makers: dict[str, _Maker] = {}
        self._datasets: list[str] = []  # of each loader, the type of its dataset
        self._loader_of: dict[int, int] = {}  # by iterator
        self._main_batches = _Batches()
        self._taken: deque[tuple[int, int, Nth]] = deque()  # when batches were asked for and came
        self._n_taken_of: Counter[int] = Counter()  # by iterator
        self._n_taken: Counter[tuple[int, int, int]] = Counter()  # by iterator, round and worker
        self._n_batches = self._epoch = self._latest_ns = self._ended_ns = 0
        self._read_ahead: dict[int, int] = {}  # of iterators: see Tag.READ_AHEAD

    def read_now(self) -> RecordingNow:
        """How the recording stands now.

        Raises:
            LoaderVizError: where its files are gone, are damaged, or are not those of a recording.
        """
        try:
            return self._now()
        except (LookupError, OverflowError, TypeError, ValueError) as error:
            raise LoaderVizError(
                f"the recording in {str(self._folder)!r} is damaged ({error})"
            ) from error

    def _now(self) -> RecordingNow:
        self._read_main()
        self._read_makers()
        self._note_taken()
        now_ns = self._ended_ns or (now() if self._same_clock else self._latest_ns)
        ended = bool(self._ended_ns) or self._is_dead(now_ns)
        if ended:
            now_ns = self._ended_ns or max(self._latest_ns, self._started_ns)
        since_ns = max(now_ns - int(WINDOW_S * 1e9), self._started_ns)
        window_s = max((now_ns - since_ns) / 1e9, 1e-9)
        while self._taken and self._taken[0][1] < since_ns:
            *_, nth = self._taken.popleft()
            for maker in self._makers.values():
                maker.unseen.pop(nth, None)
        # The loop asks for a batch as it releases the last one.
        asked_ns = 0 if ended else max(batches.last for batches in self._all_batches())[1]
        waited_ns = sum(delivered - max(asked, since_ns) for asked, delivered, _ in self._taken)
        waited_ns += now_ns - max(asked_ns, since_ns) if asked_ns else 0
        makers = sorted(self._makers.values(), key=lambda maker: maker.worker)
        n_samples: float = sum(maker.n_samples(since_ns) for maker in makers)
        n_samples += sum(maker.unseen.get(nth, 0) for *_, nth in self._taken for maker in makers)
        if not n_samples and any(maker.unseen for maker in makers):
            n_samples = math.nan
        return RecordingNow(
            name=self._folder.name,
            rank=self._rank,
            label=self._label,
            running=not ended,
            elapsed_s=(now_ns - self._started_ns) / 1e9,
            epoch=self._epoch,
            n_batches=self._n_batches,
            batches_per_s=len(self._taken) / window_s,
            samples_per_s=n_samples / window_s,
            wait_share=(
                math.nan if self._read_ahead else min(max(waited_ns / 1e9 / window_s, 0.0), 1.0)
            ),
            waiting_s=(now_ns - asked_ns) / 1e9 if asked_ns and not self._read_ahead else 0.0,
            **self._whole_run(),
            workers=tuple(
                replace(
                    maker.worker_now(now_ns, since_ns, self._n_taken),
                    loader=self._dataset_of(maker.iterator),
                )
                for maker in makers
                if not maker.ended and not maker.n_unseen and maker.makes_batches
            ),
            problem=self._main.head.problem,
        )

    def _whole_run(self) -> dict[str, Any]:
        """What windows and incidents tell, of a recording that has them."""
        rows = written(self._folder / WINDOWS_NAME)
        names = ("startup_s", "wait_s", "step_s")
        table = {name: np.array([row[name] for row in rows]) for name in names}
        incidents = incidents_in(self._folder, self._rank)
        return {
            "run_wait_share": waited_share(table) if rows and not self._read_ahead else math.nan,
            "incidents": tuple((row["start_s"], row["text"]) for row in incidents),
        }

    def _dataset_of(self, iterator: int) -> str:
        """The type of the dataset that an iterator is of; empty where that is not known."""
        loader = self._loader_of.get(iterator, -1)
        if loader >= len(self._datasets):
            abouts = [*self._first_loaders, *more_loaders(self._folder)]
            self._datasets = [str(dict(about).get("dataset") or "") for about in abouts]
        return self._datasets[loader] if 0 <= loader < len(self._datasets) else ""

    def _is_dead(self, now_ns: int) -> bool:
        """Whether its process was killed; False where it runs in another container, unseen."""
        is_silent = now_ns - max(self._latest_ns, self._started_ns) > WINDOW_S * 1e9
        return self._same_clock and self._pid > 0 and is_silent and not psutil.pid_exists(self._pid)

    def _read_main(self) -> None:
        words, new_records = self._main.read()
        self._main_batches.read(words, new_records)
        for tag, at in new_records:
            if tag == Tag.ITERATOR:
                self._loader_of[int(words[at + 2])] = int(words[at + 3])
            elif tag == Tag.EPOCH:
                self._epoch = int(words[at + 4])
            elif tag == Tag.READ_AHEAD:
                self._read_ahead[int(words[at + 2])] = int(words[at + 3])
            elif tag == Tag.FINISH:
                self._ended_ns = int(words[at + 2])

    def _all_batches(self) -> list[_Batches]:
        return [self._main_batches, *(maker.batches for maker in self._makers.values())]

    def _note_taken(self) -> None:
        all_batches = self._all_batches()
        for batch in sorted(batch for batches in all_batches for batch in batches.taken):
            delivered, asked, iterator, round_, worker = batch
            self._n_taken[iterator, round_, worker] += 1
            self._n_taken_of[iterator] += 1
            if self._read_ahead.get(iterator, NOBODY) == NOBODY:  # else they count as handed over
                self._n_batches += 1
                self._taken.append((asked, delivered, (iterator, self._n_taken_of[iterator])))
        self._latest_ns = max(self._latest_ns, *(max(batches.last) for batches in all_batches))

    def _read_makers(self) -> None:
        for pattern in ("worker-*.spool", "here-*.spool"):
            for path in self._folder.glob(pattern):
                if path.name not in self._makers:
                    with suppress(LoaderVizError):  # it is being made
                        self._makers[path.name] = _Maker(path)
        for name, maker in list(self._makers.items()):
            try:
                maker.read()
            except LoaderVizError:
                if (self._folder / name).exists():
                    raise
                maker.ended = maker.moved = True  # to the file of those that have ended
            if maker.moved and not maker.has_recent():
                del self._makers[name]
            self._latest_ns = max(self._latest_ns, maker.latest_ns)


class _Batches:
    """The batches in one spool file.

    Attributes:
        taken: those that the loop got before this read and after the one before: when it got and
            asked for each, with its iterator, round and worker.
        last: when the loop got the last of all, and when it was done with that; 0 for not yet.
    """

    def __init__(self) -> None:
        self.taken: list[tuple[int, int, int, int, int]] = []
        self.last = 0, 0
        self._undelivered: deque[int] = deque(maxlen=MOST_OPEN)  # where their records are
        self._last_at = 0

    def read(self, words: Words, new_records: list[tuple[int, int]]) -> None:
        """Read on, given the words of the file and what is new in it."""
        new = [at for tag, at in new_records if tag == Tag.BATCH]
        self.taken = []
        undelivered = []
        for at in [*self._undelivered, *new]:
            head = words[at : at + Batch.RELEASED + 1].tolist()
            asked, delivered = head[Batch.REQUESTED], head[Batch.DELIVERED]
            if not delivered:
                undelivered.append(at)
                continue
            self._last_at = at
            iterator, round_, worker = head[Batch.ITERATOR], head[Batch.ROUND], head[Batch.WORKER]
            self.taken.append((delivered, asked, iterator, round_, worker))
        self._undelivered = deque(undelivered, maxlen=MOST_OPEN)
        if self._last_at:
            delivered, released = words[self._last_at + Batch.DELIVERED :][:2].tolist()
            self.last = delivered, released


class _Maker:
    """A process that makes batches, as its spool file shows it."""

    def __init__(self, path: Path) -> None:
        self._tail = SpoolTail(path)
        self.worker = int(self._tail.head.meta.get("worker", MAIN_PROCESS))
        self._started_ns = int(self._tail.head.meta.get("started_ns", 0))
        self.ended = self.moved = False
        self.latest_ns = 0
        self.batches = _Batches()  # that the main process makes itself
        self._stream = (0, 0)  # iterator and round
        self._n_made = 0  # batches of that stream
        self._rss_bytes = 0
        self._task_started_ns = 0  # of the task under way; 0: none is
        self._recent: deque[tuple[int, int, int]] = deque()  # started, ready, samples
        self.n_unseen: Counter[int] = (
            Counter()
        )  # by iterator: batches, of a loader not seen at work
        self.unseen: dict[Nth, int] = {}  # their samples

    def read(self) -> None:
        """Read what the process has added since the last time."""
        if self.ended:
            return
        words, new_records = self._tail.read()
        if self.worker < 0:
            self.batches.read(words, new_records)
        self.ended = bool(self._tail.head.ended_ns)
        for tag, at in new_records:
            if tag != Tag.TASK:
                continue
            head = words[at : at + Task.STAMPS].tolist()
            stream = head[Task.ITERATOR], head[Task.ROUND]
            if stream != self._stream:
                self._stream, self._n_made = stream, 0
            self._task_started_ns = 0
            if head[Task.STATE] == State.RUNNING:
                self._task_started_ns = head[Task.STARTED]
                if at == new_records[-1][1]:
                    self._tail.read_last_again(head[0])
            else:
                is_done = head[Task.STATE] == State.DONE
                n = max(head[Task.N_KEYS], head[Task.N_SAMPLES]) if is_done else 0
                self._n_made += is_done
                if is_done and not head[Task.READY]:
                    iterator = head[Task.ITERATOR]
                    self.n_unseen[iterator] += 1
                    self.unseen[iterator, self.n_unseen[iterator]] = n
                    continue
                self._recent.append((head[Task.STARTED], head[Task.READY], n))
            self._rss_bytes = head[Task.RSS] or self._rss_bytes
            self.latest_ns = max(self.latest_ns, head[Task.STARTED], head[Task.READY])

    @property
    def makes_batches(self) -> bool:
        """Whether it is a worker, or the main process has read a sample itself."""
        return self.worker >= 0 or self.latest_ns > 0

    @property
    def iterator(self) -> int:
        """The number of the iterator that it made its last batch for."""
        return self._stream[0]

    def has_recent(self) -> bool:
        """Whether it made batches in the window of the last look."""
        return bool(self._recent)

    def n_samples(self, since_ns: int) -> int:
        """How many samples were read since then; forgets what was before."""
        while self._recent and self._recent[0][1] < since_ns:
            self._recent.popleft()
        return sum(n for _, _, n in self._recent)

    def worker_now(
        self, now_ns: int, since_ns: int, n_taken: Counter[tuple[int, int, int]]
    ) -> WorkerNow:
        """How it stands, after ``n_samples`` was asked for the same window.

        ``n_taken``: how many batches the loop has taken of each iterator, round and worker.
        """
        since_ns = max(since_ns, self._started_ns)  # each epoch may have workers of its own
        started_ns = self._task_started_ns
        busy_ns = sum(ready - max(started, since_ns) for started, ready, _ in self._recent)
        busy_ns += now_ns - max(started_ns, since_ns) if started_ns else 0
        return WorkerNow(
            worker=self.worker,
            busy_share=min(max(busy_ns / max(now_ns - since_ns, 1), 0.0), 1.0),
            reading_s=(now_ns - started_ns) / 1e9 if started_ns else math.nan,
            ready=max(self._n_made - n_taken[*self._stream, self.worker], 0),
            rss_bytes=self._rss_bytes,
        )
