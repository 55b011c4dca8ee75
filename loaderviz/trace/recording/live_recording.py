"""A recording that runs, as it stands now: reads what its processes have added since the last look.

A look costs what was written in between, however long the recording is. ``load`` reads all of it.
"""

from __future__ import annotations

import json
import math
from collections import Counter, deque
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import psutil

from loaderviz import machine
from loaderviz.clocks.process_clock import now
from loaderviz.errors import LoaderVizError
from loaderviz.record_layout import MAIN_PROCESS, Batch, State, Tag, Task
from loaderviz.spool import BLOCK_HEAD, HEADER_BYTES, SpoolHead, Words, blocks
from loaderviz.trace.recording.read_recording import META_NAME

WINDOW_S: Final = 5.0  # what rates and shares are of
MOST_OPEN: Final = 4096  # batches under way; those of epochs that were left stay so for ever


@dataclass(frozen=True)
class WorkerNow:
    """One worker; -1 is the main process itself."""

    worker: int
    busy_share: float  # of the last WINDOW_S, 0 to 1
    reading_s: float  # since it began the batch that it makes now; NaN: it waits for work
    ready: int  # batches that it has made and that were not taken yet
    rss_bytes: int


@dataclass(frozen=True)
class Now:
    """A recording at one moment. Rates and shares are of the last ``WINDOW_S`` seconds."""

    name: str  # of its folder
    rank: int
    label: str | None
    running: bool
    elapsed_s: float
    epoch: int
    n_batches: int  # delivered
    batches_per_s: float
    samples_per_s: float
    wait_share: float
    waiting_s: float  # since the loop asked for the batch that it waits for now; 0: it works
    workers: tuple[WorkerNow, ...]
    problem: str


class Live:
    """Looks at the recording in a folder, again and again.

    Raises:
        LoaderVizError: where there is no recording in ``folder``.
    """

    def __init__(self, folder: Path) -> None:
        try:
            meta = json.loads((folder / META_NAME).read_text())
            self._rank, self._label = int(meta["rank"]), meta.get("label")
            self._started_ns = int(meta["started"][0])
            self._pid = int(meta.get("pid") or 0)
            self._here = meta.get("clock_domain") == machine.clock_domain()
        except (OSError, ValueError, TypeError, LookupError) as error:
            raise LoaderVizError(f"{folder} holds no recording that runs ({error})") from error
        self._folder = folder
        self._main = _Tail(folder / "main.spool")
        self._makers: dict[str, _Maker] = {}
        self._open: deque[int] = deque(maxlen=MOST_OPEN)  # batches that the loop is not done with
        self._held = 0  # the one that it works on, as far as it is known
        self._taken: deque[tuple[int, int]] = deque()  # when batches were asked for and came
        self._n_taken: Counter[tuple[int, int, int]] = Counter()  # by iterator, round and worker
        self._n_batches = self._epoch = self._latest = self._ended = 0

    def look(self) -> Now:
        """How it stands.

        Raises:
            LoaderVizError: where its files are gone, or no recording's.
        """
        words = self._read_main()
        self._read_makers()
        moment = self._ended or (now() if self._here else self._latest)
        ended = bool(self._ended) or self._is_dead(moment)
        if ended:
            moment = self._ended or max(self._latest, self._started_ns)
        since = max(moment - int(WINDOW_S * 1e9), self._started_ns)
        span_s = max((moment - since) / 1e9, 1e-9)
        while self._taken and self._taken[0][1] < since:
            self._taken.popleft()
        asked = 0 if ended or not self._held else int(words[self._held + Batch.RELEASED])
        waited = sum(came - max(asked, since) for asked, came in self._taken)
        waited += moment - max(asked, since) if asked else 0
        return Now(
            name=self._folder.name,
            rank=self._rank,
            label=self._label,
            running=not ended,
            elapsed_s=(moment - self._started_ns) / 1e9,
            epoch=self._epoch,
            n_batches=self._n_batches,
            batches_per_s=len(self._taken) / span_s,
            samples_per_s=sum(each.n_samples(since) for each in self._makers.values()) / span_s,
            wait_share=min(waited / 1e9 / span_s, 1.0),
            waiting_s=(moment - asked) / 1e9 if asked else 0.0,
            workers=tuple(
                each.at(moment, since, self._n_taken)
                for each in sorted(self._makers.values(), key=lambda each: each.worker)
                if not each.ended
            ),
            problem=self._main.head.problem,
        )

    def _is_dead(self, moment: int) -> bool:
        """Whether its process was killed. In another container it is only not to be seen."""
        silent = moment - max(self._latest, self._started_ns) > WINDOW_S * 1e9
        return self._here and self._pid > 0 and silent and not psutil.pid_exists(self._pid)

    def _read_main(self) -> Words:
        words, news = self._main.read()
        for tag, at in news:
            if tag == Tag.BATCH:
                self._open.append(at)
            elif tag == Tag.EPOCH:
                self._epoch = int(words[at + 4])
            elif tag == Tag.FINISH:
                self._ended = int(words[at + 2])
        still_open = []
        for at in self._open:
            asked, came, released = words[at + Batch.REQUESTED : at + Batch.RELEASED + 1].tolist()
            if not came:
                still_open.append(at)
                continue
            self._taken.append((asked, came))
            self._latest = max(self._latest, came, released)
            self._held = at
            self._n_batches += 1
            iterator, round_, _, worker = words[at + Batch.ITERATOR : at + Batch.WORKER + 1]
            self._n_taken[int(iterator), int(round_), int(worker)] += 1
        self._open = deque(still_open, maxlen=MOST_OPEN)
        return words

    def _read_makers(self) -> None:
        for pattern in ("worker-*.spool", "here-*.spool"):
            for path in self._folder.glob(pattern):
                if path.name not in self._makers:
                    self._makers[path.name] = _Maker(path)
        for maker in self._makers.values():
            maker.read()
            self._latest = max(self._latest, maker.latest)


class _Maker:
    """A process that makes batches, by what it has written."""

    def __init__(self, path: Path) -> None:
        self._tail = _Tail(path)
        self.worker = int(self._tail.head.meta.get("worker", MAIN_PROCESS))
        self._started_ns = int(self._tail.head.meta.get("started_ns", 0))
        self.ended = False
        self.latest = 0
        self._stream = (0, 0)  # iterator and round
        self._n_made = 0  # of it
        self._rss = 0
        self._begun = 0  # of the task under way; 0: none is
        self._recent: deque[tuple[int, int, int]] = deque()  # begun, ready, samples

    def read(self) -> None:
        if self.ended:
            return
        words, news = self._tail.read()
        self.ended = bool(self._tail.head.ended_ns)
        for tag, at in news:
            if tag != Tag.TASK:
                continue
            head = words[at : at + Task.STAMPS].tolist()
            stream = head[Task.ITERATOR], head[Task.ROUND]
            if stream != self._stream:
                self._stream, self._n_made = stream, 0
            self._begun = 0
            if head[Task.STATE] == State.RUNNING:
                self._begun = head[Task.STARTED]
                if at == news[-1][1]:
                    self._tail.again(head[0])
            else:
                done = head[Task.STATE] == State.DONE
                n = max(head[Task.N_KEYS], head[Task.N_SAMPLES]) if done else 0
                self._n_made += done
                self._recent.append((head[Task.STARTED], head[Task.READY], n))
            self._rss = head[Task.RSS] or self._rss
            self.latest = max(self.latest, head[Task.STARTED], head[Task.READY])

    def n_samples(self, since: int) -> int:
        while self._recent and self._recent[0][1] < since:
            self._recent.popleft()
        return sum(n for _, _, n in self._recent)

    def at(self, moment: int, since: int, n_taken: Counter[tuple[int, int, int]]) -> WorkerNow:
        since = max(since, self._started_ns)  # each epoch may have workers of its own
        busy = sum(ready - max(begun, since) for begun, ready, _ in self._recent)
        busy += moment - max(self._begun, since) if self._begun else 0
        return WorkerNow(
            worker=self.worker,
            busy_share=min(max(busy / max(moment - since, 1), 0.0), 1.0),
            reading_s=(moment - self._begun) / 1e9 if self._begun else math.nan,
            ready=max(self._n_made - n_taken[*self._stream, self.worker], 0),
            rss_bytes=self._rss,
        )


class _Tail:
    """A spool file that grows, read on from where the last look ended."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._number, self._at = 0, BLOCK_HEAD  # the block that was read last, and how far
        self.head = SpoolHead(path)

    def read(self) -> tuple[Words, list[tuple[int, int]]]:
        """The file's words after its header, and the tag and place of each new record."""
        self.head = SpoolHead(self._path)
        try:
            words: Words = np.memmap(self._path, np.int64, "r", HEADER_BYTES)
        except (OSError, ValueError):  # it has no block yet
            return np.zeros(0, np.int64), []
        news: list[tuple[int, int]] = []
        for number, start, end in blocks(words.data):
            if number < self._number:
                continue
            if number > self._number:
                self._number, self._at = number, BLOCK_HEAD
            at = start + self._at
            while at + 2 <= end and 2 <= words[at] <= end - at:
                news.append((int(words[at + 1]), at))
                at += int(words[at])
            self._at = at - start
        return words, news

    def again(self, n_words: int) -> None:
        """Tell of the last record, which is so long, at the next look once more."""
        self._at -= n_words
