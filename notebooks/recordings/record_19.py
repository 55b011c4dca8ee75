"""Makes what notebook 19 shows: a training of 33 hours, and what was kept of its hour 31.

    cd notebooks/recordings && python record_19.py

The clock runs ahead, by what reading and the steps would take, so that 33 hours take a minute; the
recording is made as of any other loop. Those that ship were made in November 2026.
"""

import random
import tempfile
import time
from pathlib import Path

HOURS, HOUR_S = 33, 3600.0
SLOW_FROM_S, SLOW_S, TIMES = 31 * HOUR_S + 600, 2400.0, 8.0  # somebody else uses the disk
PER_EPOCH, PER_EVALUATION = 4_000, 40
ahead_ns = 0


def pass_time(seconds: float) -> None:
    """Let the clock run ahead, with some noise."""
    global ahead_ns
    ahead_ns += round(seconds * random.lognormvariate(0, 0.05) * 1e9)


def main() -> None:
    real = time.perf_counter_ns
    time.perf_counter_ns = lambda: real() + ahead_ns
    from torch.utils.data import DataLoader, Dataset

    import loaderviz  # takes the clock as it finds it

    begun_ns = time.perf_counter_ns()

    def now_s() -> float:
        return (time.perf_counter_ns() - begun_ns) / 1e9

    class Photos(Dataset):
        def __init__(self, n: int) -> None:
            self.n = n

        def __len__(self) -> int:
            return self.n

        def __getitem__(self, key: int) -> int:
            is_slow = SLOW_FROM_S <= now_s() < SLOW_FROM_S + SLOW_S
            pass_time(0.012 * (TIMES if is_slow else 1.0))
            return key

    random.seed(19)
    train = DataLoader(Photos(16 * PER_EPOCH), batch_size=16)
    evaluate = DataLoader(Photos(16 * PER_EVALUATION), batch_size=16)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run"
        with loaderviz.record(train, evaluate, last_s=600, path=path) as rec:
            while now_s() < HOURS * HOUR_S:
                for _ in train:
                    pass_time(0.65)
                    if now_s() >= HOURS * HOUR_S:
                        break
                pass_time(60.0)  # a checkpoint
                for _ in evaluate:
                    pass_time(0.2)
        for row in rec.trace.meta["incidents"]:
            kept = loaderviz.load(row["path"])
            row["path"] = f"hour_31_incident_{row['incident']}.parquet"
            del kept.meta["windows"]  # those of the run
            kept.save(row["path"])
        rec.trace.save("hour_31.parquet")
        print(rec.trace.incidents.T.to_string())
        print(rec.trace.summary())


if __name__ == "__main__":
    main()
