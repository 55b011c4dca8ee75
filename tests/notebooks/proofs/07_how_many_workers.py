"""Proofs of notebook 07; see tests/notebooks/proven.py."""

# %% after how-many-workers-02: the pictures have four sizes
assert len({FaceLandmarks(48)[i]["image"].shape for i in range(48)}) == 4

# %% after how-many-workers-07: torch stacks only what is equally large
assert came.startswith("RuntimeError: stack expects each tensor to be equal size")

# %% after how-many-workers-09: the crop is a square, and its landmarks have moved with it
first, cut = raw[0], faces[0]
assert cut["image"].shape == (3, 224, 224)
scale = 256 / min(first["image"].shape[1:])
moved = first["landmarks"] * scale - cut["landmarks"]
assert (moved - moved[0]).abs().max() < 2  # pixels

# %% after how-many-workers-15: two wait, and only one of them keeps a CPU busy
waits = {name: trace.summary().wait_share for name, trace in alone.items()}
assert waits["slow model"] < 0.3 < 0.8 < min(waits["faces"], waits["far away"])
assert cpu_share(alone["faces"]) > 0.9
assert cpu_share(alone["far away"]) < 0.1

# %% after how-many-workers-25: 4 is right for the faces alone; the disk needs twice as many
assert fewest == {"faces": 4, "far away": 8, "slow model": 1}
assert 0.45 < rates["far away"][4] / max(rates["far away"]) < 0.55


# %% after how-many-workers-38: computing needs as many as CPUs, waiting more, a slow model one
def line(**values):
    return by_workers(**{"compute_ms": 5, "wait_ms": 0, "step_ms": 0, "cpus": 2} | values)


for cpus in range(2, 9):
    assert enough(line(cpus=cpus).data[0].y) == cpus
assert "still gains" in line(wait_ms=40).layout.title.text
assert enough(line(step_ms=60).data[0].y) == 1
assert 360 < max(line(wait_ms=10).data[0].y) < 400  # two CPUs, 5 ms a sample
assert [note.text for note in line(cpus=4).layout.annotations].count("both rules") == 1

# %% after how-many-workers-21f: the first minute hides most of the wait
assert first_60.wait_share < 0.5 * whole.wait_share
assert 0.4 < whole.wait_share < 0.55
assert abs(100 * first_60.wait_share - so_far.iloc[59]) < 2
long_waits = (batches["delivered_s"] - batches["requested_s"])[1:] > 0.01
assert long_waits.idxmax() == 29

# %% after how-many-workers-29: it measured, and recommends no more workers than it may
assert 0 <= measured <= 8
