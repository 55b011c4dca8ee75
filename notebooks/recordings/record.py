"""Makes the recordings that notebook 08 shows. Run it on a machine with a GPU.

    python notebooks/recordings/record.py

It needs loaderviz, a torch that finds the GPU (2.7 or later), and about 1 GB of shared memory
(`docker run --shm-size=1g`). It takes a few seconds and writes one small Parquet file for each way
of feeding the GPU beside itself; the notebook opens all four, and its text has their numbers.
"""

import sys
from pathlib import Path

import torch

from loaderviz.course.on_a_gpu import copy_gb_s, file_name, record_way
from loaderviz.course.simulated_device import WAYS

HERE = Path(__file__).parent


def main() -> int:
    if not torch.cuda.is_available():
        print(f"{Path(__file__).name} needs a GPU: torch finds none here.", file=sys.stderr)
        return 1
    print(torch.cuda.get_device_name(), f"torch {torch.__version__}")
    print("GB/s of copies to it:", {name: round(speed, 1) for name, speed in copy_gb_s().items()})
    for way in WAYS:
        trace = record_way(way, batch_mb=32, step_s=0.02, num_workers=4)
        trace.save(HERE / f"{file_name(way)}.parquet")
        print(f"{way}: {trace.summary().verdict}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
