"""What notebook 08 claims; proven.py puts each part behind the cell that its line names."""

# %% after feeding-the-gpu-04: to queue the work takes far less time than to do it
assert queued_s < 0.5 * done_s

# %% after feeding-the-gpu-12: the recorded loop waits 92 %, and no gap
summary = loop.summary()
assert (f"{summary.wait_share:.0%}", f"{summary.device_idle_share:.0%}") == ("92%", "0%")
assert {(len(each.batches), each.summary().n_workers) for each in recorded.values()} == {(24, 4)}
assert {trace.meta["cpu_count"] for trace in recorded.values()} == {16}
assert {trace.meta["label"] for trace in recorded.values()} == {"NVIDIA H200"}
assert {round(trace.batches["n_bytes"].median() / 1e6) for trace in recorded.values()} == {32}


# %% after feeding-the-gpu-16: 80 ms a batch are too slow; more workers or longer steps cure it
def idle_share(ms_to_load, workers=2, ms_a_step=20):
    return one_loop(ms_to_load, workers, ms_a_step).summary().device_idle_share


assert idle_share(30) < 0.01
assert idle_share(80) > 0.3
assert idle_share(80, workers=4) < 0.1
assert idle_share(80, ms_a_step=45) < 0.1

# %% after feeding-the-gpu-26: no thread pins where there is no worker; LV306 tells of own classes
from torch.utils.data import DataLoader

import loaderviz
from loaderviz.course.datasets import SleepingDataset

not_pinned = [kind for kind, is_pinned in pinned.items() if not is_pinned]
assert not_pinned == ["a set", "a class of your own"]
for workers in (0, 2):
    loader = DataLoader(
        SleepingDataset(16, 0.001), 4, num_workers=workers, pin_memory=True,
        collate_fn=pinning.to_pinning,
    )  # fmt: skip
    with pinning.as_with_a_gpu(), loaderviz.record(loader) as rec:
        batches = [batch.images.is_pinned() for batch in loader]
    assert batches == [True] * 4
    assert rec.trace.batches["pinned_s"].notna().all() == bool(workers)
loader = DataLoader(
    SleepingDataset(32, 0.001), 4, num_workers=1, pin_memory=True, collate_fn=pinning.plain_tensors
)
assert "LV306" in loaderviz.doctor(loader).codes

# %% after feeding-the-gpu-36: only a second stream copies beside a step
assert [feed(way, batch_mb=128).overlaps for way in WAYS] == [False, False, False, True]

# %% after feeding-the-gpu-54: copies from pinned memory are seven times as fast; few steps are long
copies = {way: trace.spans.query("name == 'copy'") for way, trace in recorded.items()}
medians = {way: rows["device_s"].median() for way, rows in copies.items()}
assert all(7 * medians[way] < medians["pageable"] for way in WAYS[1:])
steps_s = recorded["pinned"].spans.query("name == 'step'")["device_s"]
assert 0.036 < steps_s.max() < 0.037
assert (steps_s.iloc[16:] < 0.021).all()

# %% after feeding-the-gpu-40: what was queued is copied later
assert arrived.tolist() == [2, 2, 2]

# %% after 68aa0be2: copying ahead gains three per cent where a copy is short
one, two = (every_ms(recorded[way]) for way in WAYS[2:])
assert (f"{one:.1f}", f"{two:.1f}", f"{1 - two / one:.0%}") == ("20.4", "19.8", "3%")


# %% after feeding-the-gpu-49: it pays with long copies, until these set the pace, or loading does
def paces(**speeds):
    fed = [feed(way, n_batches=50, pinning_gb_per_s=24, **speeds) for way in WAYS[2:]]
    return [1000 * each.batch_s for each in fed]


one, two = paces(batch_mb=16)
assert one < 1.06 * two
one, two = paces(batch_mb=128)
assert (round(one), round(two)) == (28, 20)
one, two = paces(batch_mb=384)
assert two > 23 > 20
one, two = paces(batch_mb=128, load_ms=80)
assert one < 1.01 * two

# %% after feeding-the-gpu-60: the device waits for the loop's own Python
assert not feed("copied ahead", python_ms=8).held
assert feed("copied ahead", item=True, python_ms=8).batch_s > 0.027
