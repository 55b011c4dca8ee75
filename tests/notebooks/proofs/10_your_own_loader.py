# %% after your-own-loader-09: 40 of the days never come, others in each epoch; no night is missing
assert len(found.deliveries) == 80
assert not len(found.duplicates)
assert len(found.missing) == 40
assert found.missing["key"].max() < 80
first, second = ({key for keys in stand_in.batch_sampler for key in keys} for _ in range(2))
assert first != second

# %% after your-own-loader-13: the doctor finds the generator that is copied, and no other error
assert [each.code for each in diagnosis if each.severity == "error"] == ["LV201"]

# %% after your-own-loader-32: the cure is right
checked = loaderviz.audit(cured)
assert len(checked.deliveries) == 120
assert checked.exactly_once
assert not [each for each in loaderviz.doctor(cured) if each.severity == "error"]

# %% after your-own-loader-17: two workers cannot keep up, and half of an epoch is waiting
summary = before.summary()
assert "two workers cannot keep up" in summary.verdict
assert f"{summary.main_pace.epoch_waited_share:.0%}" == "50%"
assert f"{summary.wait_share:.0%}" == "51%"
assert summary.causes["cause"].iloc[0] == "workers"
assert (summary.n_batches, summary.main_pace.epoch.n_batches) == (180, 1500)

# %% after your-own-loader-28: one worker more than would just do
assert advice.settings["num_workers"] == 5

# %% after your-own-loader-44: hardly a wait is left, and it is the first batch's
assert "five workers keep up" in after.summary().verdict
assert before.summary().wait_s > 18
assert 0.1 < after.summary().wait_s < 1
assert ideal.summary().elapsed_s < after.summary().elapsed_s < 1.1 * ideal.summary().elapsed_s
assert 1.9 < before.summary().elapsed_s / ideal.summary().elapsed_s < 2.1

# %% after your-own-loader-46: the change is more than noise
assert code == 0
