"""Makes the recording that notebook 16 reads: three epochs of training, an evaluation after each.

    python notebooks/recordings/record_16.py

As `loaderviz run` does it. The store takes 100 ms for a picture, as does a training step; the
training has five workers, the evaluation none, and steps of 50 ms. Where others use the machine,
put `chrt -r 10` in front: what they did is no part of the recording.
"""

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from loaderviz import load
from loaderviz.course import train_script

HERE = Path(__file__).parent


def training() -> None:
    """The script that is recorded: 180 pictures, and 48 to evaluate on."""
    model = torch.nn.Linear(32 * 32 * 3, 2)
    loader = train_script.make_cured(num_workers=5)
    held_out = train_script.HeldOut(train_script.folder())
    loader.dataset.files = (loader.dataset.files * 2)[:180]
    held_out.files = held_out.files[:48]
    loader.dataset.request_s = held_out.request_s = 0.1
    for _ in range(3):
        train_script.train(model, loader, step_s=0.1)
        train_script.evaluate(model, held_out, step_s=0.05)


def main() -> None:
    with TemporaryDirectory() as folder:
        run = Path(folder, "run")
        options = ["--max-spans", "60", "--out", str(run)]
        subprocess.run(
            [sys.executable, "-m", "loaderviz", "run", *options, __file__, "train"], check=True
        )
        trace = load(run)
        trace.meta.pop("pressure_s", None)
        trace.save(HERE / "train_and_evaluate.parquet")
        print(trace.summary())


if __name__ == "__main__":
    training() if "train" in sys.argv[1:] else main()
