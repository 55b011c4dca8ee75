# %% after 0e1f6a14: the exit code is the script's
assert code == 0

# %% after 0e1f6a16: two loaders; 20 batches in each of two epochs, and two evaluations of 5
assert len(loaders) == 2
assert first.summary().n_batches == 2 * (20 + 5)
assert sum("made 2 times" in str(each) for each in loaders) == 1

# %% after 0e1f6a18: the evaluation is waited for most, and the training hardly
assert code == 0
shares = loaderviz.load("recordings/train_and_evaluate.parquet").summary()
assert "HeldOut" in shares.verdict
assert "89 %" in shares.verdict
waited = {each.name.split()[0]: each.waited_s for each in shares.loaders}
assert waited["HeldOut"] > 5 * waited["CuredPhotos"]
assert f"{waited['CuredPhotos']:.1f} s" == "1.7 s"
n_batches = {each.name.split()[0]: each.n_batches for each in shares.loaders}
assert n_batches == {"HeldOut": 3 * 12, "CuredPhotos": 3 * 45}
assert "16 s waiting" in printed
assert "32 s in all" in printed

# %% after 0e1f6a23: three batches of the evaluation came, and the exit code is the script's
assert code == 1
assert died.summary().n_batches == 20 + 3
assert "Batch 3 of HeldOut" in died.summary().verdict

# %% after 0e1f6a27: worker 1 reads number 21, and five batches came
assert code == 1
assert "Worker 1" in printed
assert "reading sample 21" in " ".join(printed.split())
assert loaderviz.load(hung).summary().n_batches == 5

# %% after 0e1f6a30: the keys that were never asked for
assert code == 1
assert "40 of the keys 0 to 119 are not in the trace" in printed

# %% after 0e1f6a34: the exercise has one kind of solution, and begins unsolved
paths = {when: f"recordings/{name}" for when, name in nights.items()}
assert not on_a_server.nightly("--max-wait 0.6", **paths).passed
assert on_a_server.nightly("--max-wait 0.25", **paths).passed
waits = {when: loaderviz.load(path).summary().wait_share for when, path in paths.items()}
assert (f"{waits['bad']:.0%}", f"{waits['good']:.0%}") == ("51%", "5%")
