# %% after hour-31-06: the run is as the text says
from loaderviz.why.whole_run import whole_run

told = whole_run(run)
assert 33 * 3600 < told.seconds < 33.1 * 3600
assert f"{told.wait_share:.0%}" == "24%"
assert "it waits 69 %" in told.incidents[0]
of_usual = run.windows[run.windows["start_s"] < run.incidents["start_s"].iloc[0]]
usual_s = of_usual[["wait_s", "step_s"]].sum()
assert f"{usual_s['wait_s'] / usual_s.sum():.0%}" == "23%"
assert run.incidents["start_s"].tolist() == [31 * 3600 + 600]
before_s, after_s = run.incidents.loc[0, ["before_s", "after_s"]]
assert round(after_s / before_s) == 8
assert 40 * 60 <= run.incidents["end_s"].iloc[0] - run.incidents["start_s"].iloc[0] < 43 * 60

# %% after hour-31-11: reading takes longer, a step does not
of_training = run.windows[run.windows["loader"] == 0]
begins_s, ends_s = run.incidents.loc[0, ["start_s", "end_s"]]
slow_windows = of_training["start_s"].between(begins_s, ends_s - 1)
beside = of_training.groupby(slow_windows)[["step_s", "wait_s", "batches"]].sum()
each = beside[["step_s", "wait_s"]].div(beside["batches"], axis=0)
assert abs(each["step_s"].diff().iloc[1]) < 0.01
assert each["wait_s"].iloc[1] > 5 * each["wait_s"].iloc[0]

# %% after hour-31-11: what was kept is the ten minutes up to then
of_train = night.batches[night.batches["loader"] == 0]
slow = of_train["delivered_s"] - of_train["requested_s"] > 1
assert abs(of_train.loc[slow, "requested_s"].min() - 480) < 1
assert not slow[of_train["requested_s"] < 479].any()
assert night.meta["incident"].startswith("reading a sample takes")
assert 590 < night.batches["released_s"].max() < 610

# %% after hour-31-19: the exercise is not solved yet, and its solution is right
assert not hour_31.woken(alarm, run).passed


def solved(row):
    waited = row["wait_s"] / (row["wait_s"] + row["step_s"])
    return row["loader"] == 0 and waited > 0.3


assert hour_31.woken(solved, run).passed
