"""What a report says, without figures or markup; ``Content.data()`` is what ``--json`` prints."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from loaderviz._doctor import Diagnosis, findings_of
from loaderviz.report import report_tables
from loaderviz.report.predictions_and_audits import Counted, Prediction, audits, prediction
from loaderviz.report.report_tables import Waits
from loaderviz.text import percent, rate
from loaderviz.trace import Trace
from loaderviz.trace.analysis.summary import Summary
from loaderviz.trace.analysis.verdict import NEVER_WAITS
from loaderviz.trace.merge.run_meta import left_out

WORTH = 0.03  # a smaller predicted gain is no reason to change settings
TWICE = "Samples come more than once, or not at all"
SHARED = "DataLoader(dataset, sampler=DistributedSampler(dataset))  # each rank its own share"
LONG = 300  # characters of a text of the user's


@dataclass(frozen=True)
class Action:
    """One thing to do: what, why, and code where there is some."""

    what: str
    why: str
    code: str = ""
    kind: str = "advice"  # error, warning, advice or fine


@dataclass(frozen=True, eq=False)
class Content:
    """All that a report says of one trace."""

    trace: Trace
    summary: Summary
    waits: Waits
    workers: list[dict[str, Any]]
    ranks: list[dict[str, Any]]  # of one rank, its row alone
    loaders: list[dict[str, Any]]
    findings: Diagnosis
    prediction: Prediction
    audits: list[Counted]

    @property
    def empty(self) -> bool:
        return self.trace.batches.empty

    @property
    def simulated(self) -> bool:
        return bool(self.trace.meta.get("simulated"))

    @property
    def title(self) -> str:
        label = self.trace.meta.get("label")
        return text_of(label) if label else ", ".join(self.datasets) or "DataLoader"

    @property
    def datasets(self) -> list[str]:
        names = [text_of(each.get("dataset")) for each in described(self.trace)]
        return list(dict.fromkeys(name for name in names if name != "None"))

    @property
    def slowest_rank(self) -> int | None:
        """Where one waits or takes clearly longer than the others."""
        return None if self.summary.slowest is None else self.summary.slowest.rank

    @property
    def about(self) -> list[tuple[str, str]]:
        """Where and when, and how the loaders were set."""
        meta = self.trace.meta
        pairs = [
            ("recorded", when(meta)),
            ("host", meta.get("host")),
            ("CPUs allowed", meta.get("cpu_allowance")),
            ("ranks", f"{len(self.ranks)} of {world}" if (world := _world(meta)) > 1 else None),
            ("torch", meta.get("torch")),
            ("Python", meta.get("python")),
            ("platform", meta.get("platform")),
        ]
        found = [(name, text_of(value)) for name, value in pairs if value not in (None, "")]
        for number, each in enumerate(described(self.trace)):
            name = f"loader {number}" if len(self.loaders) > 1 else "loader"
            found.append((name, _settings(each)))
        return found

    @property
    def limits(self) -> list[str]:
        """What the recording lacks."""
        meta = self.trace.meta
        listed = meta.get("problems") or ()
        said = [text_of(each) for each in (listed if isinstance(listed, list | tuple) else ())]
        said += [f"not read: {text_of(each)}" for each in self.summary.unread]
        samples, batches = left_out(meta)
        if samples:
            said.append(f"past the limit, {samples:,} samples and spans were not written down")
        if batches:
            said.append(f"past max_bytes, {batches:,} batches were not written down")
        if not meta.get("complete", True) and not said:
            said.append("the recording is not complete")
        return said

    @cached_property
    def actions(self) -> list[Action]:
        """What to do, the most urgent first."""
        found = [
            Action(each.title, "; ".join(each.evidence), each.fix, each.severity)
            for each in self.findings.findings
        ]
        wrong = [each for each in found if each.kind == "error"]
        wrong += [
            Action(
                "Samples come more than once",
                f"{each.found.verdict}.",
                self._shared(each.loader),
                "error",
            )
            for each in self.audits
            if each.found is not None and each.found.exactly_once is False
        ]
        rest = [each for each in found if each.kind != "error"]
        return [*wrong, *self._settings_action(), *rest]

    def _shared(self, loader: int) -> str:
        """The way out where several ranks go through one map-style dataset."""
        about = dict(enumerate(described(self.trace))).get(loader, {})
        return SHARED if len(self.ranks) > 1 and about.get("kind") == "map" else ""

    def _settings_action(self) -> list[Action]:
        """Whether to change the settings, by the prediction; nothing where there is none."""
        made = self.prediction
        if made.found is None or made.present is None:
            return []
        now, then = (rate(row["samples_per_s"]) for row in (made.present, made.chosen))
        off = f"± {percent(made.found.uncertainty)}"
        whose = f"the model of rank {made.rank}" if len(self.ranks) > 1 else "the model"
        same = made.chosen["num_workers"] == made.present["num_workers"]
        if made.gain >= max(WORTH, made.found.uncertainty):
            times = f"{percent(made.gain)} more" if made.gain < 1 else f"{1 + made.gain:.1f} times"
            what = f"Change the settings: {times} samples/s predicted"
            waits = [percent(row["wait_share"]) for row in (made.present, made.chosen)]
            why = (
                f"{_changes(made)}: predicted {then} samples/s, now {now} ({off}); {whose} would "
                f"wait {waits[1]} of the time once it runs, now {waits[0]}"
            )
            return [Action(what, why, made.found.code)]
        if not made.chosen["present"] and not same:
            fewer = made.chosen["num_workers"] < made.present["num_workers"]
            what = f"{'Fewer' if fewer else 'Other'} workers would do as well"
            why = f"{_changes(made)}: predicted {then} samples/s, now {now} ({off})"
            return [Action(what, why, made.found.code)]
        if self.summary.wait_share <= NEVER_WAITS or made.found.limits.startswith("step"):
            why = "the model's own steps set the pace: faster loading would gain nothing"
            return [Action("Keep the loader's settings", why, kind="fine")]
        why = f"no other settings are predicted to be faster; limit: {made.found.limits}"
        return [Action("Keep the settings, and make a sample cheaper", why)]

    def data(self) -> dict[str, Any]:
        """The same as plain data."""
        made = self.prediction
        found = made.found
        return {
            "title": self.title,
            "simulated": self.simulated,
            "about": dict(self.about),
            "verdict": self.summary.verdict,
            "summary": {
                **dataclasses.asdict(self.summary),
                "wait_share": self.summary.wait_share,
            },
            "actions": [dataclasses.asdict(each) for each in self.actions],
            "waits": dataclasses.asdict(self.waits),
            "workers": [{**row, "last_key": key_text(row["last_key"])} for row in self.workers],
            "ranks": self.ranks,
            "slowest_rank": self.slowest_rank,
            "loaders": self.loaders,
            "findings": [dataclasses.asdict(each) for each in self.findings.findings],
            "undecided": [
                {"code": each.code, "title": each.title, "why": " ".join(each.evidence)}
                for each in self.findings.undecided
            ],
            "predicted": None
            if found is None
            else {
                "rank": made.rank,
                "loader": made.loader,
                "verdict": found.verdict,
                "settings": found.settings,
                "code": found.code,
                "limits": found.limits,
                "notes": list(found.notes),
                "gain": made.gain,
                "uncertainty": found.uncertainty,
                "from_batches": made.n_used,
                "candidates": found.candidates.astype(object)
                .where(found.candidates.notna(), None)
                .to_dict("records"),
            },
            "not_predicted": made.why_not or None,
            "audits": [
                {
                    "loader": each.loader,
                    "exactly_once": each.found.exactly_once if each.found else None,
                    "verdict": each.found.verdict if each.found else each.why_not,
                    "notes": list(each.found.notes) if each.found else [],
                }
                for each in self.audits
            ],
            "problems": self.limits,
        }


def content_of(trace: Trace) -> Content:
    """Everything that the other rooms have to say of this trace."""
    if trace.batches.empty:
        made, counted = Prediction(why_not="no batch was recorded"), []
    else:
        made, counted = prediction(trace, *worst_of(trace)), audits(trace)
    return Content(
        trace=trace,
        summary=trace.summary(),
        waits=report_tables.waits_of(trace),
        workers=report_tables.workers_of(trace),
        ranks=report_tables.ranks_of(trace),
        loaders=report_tables.loaders_of(trace),
        findings=findings_of(trace),
        prediction=made,
        audits=counted,
    )


def worst_of(trace: Trace) -> tuple[int, int]:
    """Rank and loader for which the consumer waited longest."""
    batches, slowest = trace.batches, trace.summary().slowest
    if slowest is not None and slowest.cause == "loader":
        batches = batches[batches["rank"] == slowest.rank]
    waited = (batches["delivered_s"] - batches["requested_s"]).fillna(0)
    by_loader = waited.groupby([batches["rank"], batches["loader"]]).sum()
    rank, loader = by_loader.index[int(by_loader.to_numpy().argmax())]
    return int(rank), int(loader)


def _changes(made: Prediction) -> str:
    """What the recommended settings change, from what to what."""
    names = ("num_workers", "prefetch_factor", "in_order", "persistent_workers")
    pairs = [(name, made.present[name], made.chosen[name]) for name in names]
    if 0 in (made.present["num_workers"], made.chosen["num_workers"]):
        pairs = pairs[:1]  # the others mean nothing without workers
    told = [f"{name} {was} → {will}" for name, was, will in pairs if was != will]
    return ", ".join(told)


def described(trace: Trace) -> list[dict[str, Any]]:
    """The loaders, as the recorder describes them."""
    listed = trace.meta.get("loaders")
    return [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []


def when(meta: Any) -> str | None:
    try:
        moment = datetime.fromtimestamp(int(meta["started"][1]) / 1e9, UTC)
    except (KeyError, IndexError, TypeError, ValueError, OverflowError, OSError):
        return None
    return moment.strftime("%Y-%m-%d %H:%M UTC")


def key_text(key: Any) -> str | None:
    """A sample's key, as text of bounded length; None where there is none."""
    return None if key is None else text_of(key if isinstance(key, str) else repr(key))


def text_of(value: Any) -> str:
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return text if len(text) <= LONG else text[: LONG - 1] + "…"


def _world(meta: Any) -> int:
    size = meta.get("world_size")
    return size if isinstance(size, int) else 1


def _settings(about: dict[str, Any]) -> str:
    """A loader's configuration in one line; what it was not given is left out."""
    kind = text_of(about.get("kind", "map"))
    told = [f"{text_of(about.get('class', 'DataLoader'))} of {text_of(about.get('dataset', '?'))}"]
    told.append(f"{kind}-style")
    names = ("batch_size", "num_workers", "prefetch_factor", "start_method")
    told += [f"{name}={text_of(about[name])}" for name in names if about.get(name) is not None]
    told += [name for name in ("persistent_workers", "pin_memory", "drop_last") if about.get(name)]
    if about.get("in_order") is False:
        told.append("in_order=False")
    return ", ".join(told)
