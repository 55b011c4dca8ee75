"""Makes the recordings that notebook 06 shows: batches made by one worker, and by two together.

    python notebooks/recordings/record_06.py

Samples and steps sleep, so that a machine which is busy elsewhere hardly changes what is recorded.
"""

from pathlib import Path

from torch.utils.data import DataLoader

from loaderviz import record
from loaderviz.course import take
from loaderviz.course.datasets import MultiStreamDataLoader, SlotStreams

HERE = Path(__file__).parent


def main() -> None:
    sequences = [range(10 * k, 10 * k + 8) for k in range(1, 17)]
    slots = SlotStreams(sequences, 4, sample_s=0.1)
    loaders = {
        "whole_batches": DataLoader(slots, batch_size=None, num_workers=2),
        "parts_of_batches": MultiStreamDataLoader(slots.split(2)),
    }
    for name, loader in loaders.items():
        with record(loader) as rec:
            take(loader, model_time=0.25, n_batches=10)
        rec.trace.save(HERE / f"{name}.parquet")
        print(f"{name}: {rec.trace.summary().verdict}")


if __name__ == "__main__":
    main()
