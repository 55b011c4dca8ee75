"""What a report says, without figures or markup; ``Content.data()`` is what ``--json`` prints."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Final

import pandas as pd

from loaderviz._audit import Mixing
from loaderviz._audit.conclude_audit import SAME_BATCH, SAME_ORDER
from loaderviz._doctor import Diagnosis, Finding, findings_of
from loaderviz.failed_part import Part, part
from loaderviz.figures.results.run_figure import incident_name
from loaderviz.report import report_tables
from loaderviz.report.predictions_and_audits import (
    LoaderAudit,
    Prediction,
    audit_loaders,
    predict,
)
from loaderviz.report.report_tables import Waits
from loaderviz.text import clock_time, percent
from loaderviz.trace import Trace
from loaderviz.trace.described_loaders import left_out, loader_description
from loaderviz.trace.loaders_as_one import as_one, lives
from loaderviz.why.causes.cause_texts import cause_rows
from loaderviz.why.causes.costly_lines import costly_lines, known_cost
from loaderviz.why.causes.resources_of_workers import one_by_one_s
from loaderviz.why.loader_share import short_names
from loaderviz.why.notes import NAMED, RECORD_ITS_OBJECT
from loaderviz.why.shapes import Shapes
from loaderviz.why.summary import Summary
from loaderviz.why.verdict import NEVER_WAITS

SHARED = "DataLoader(dataset, sampler=DistributedSampler(dataset))  # each rank its own share"
MOST_SHAPES: Final = 10  # that are shown
MOST_INCIDENTS: Final = 20
MOST_CHARACTERS: Final = 300  # of a text from the trace

Rows = list[dict[str, Any]]
NO_ROWS: Final[Rows] = []


@dataclass(frozen=True)
class Action:
    """One thing to do: what, why, and code where there is some."""

    what: str
    why: str
    code: str = ""
    kind: str = "advice"  # error, warning, advice or fine


@dataclass(frozen=True, eq=False)
class Content:
    """All that a report says of one trace, each part worked out when it is first asked for.

    Attributes:
        trace: of which a loader that is made anew has one number for all its lives.
        failed: what could not be worked out: a sentence without its full stop, by the part of the
            page. It grows as parts are asked for.
    """

    trace: Trace
    failed: dict[str, str] = field(default_factory=dict)

    def part(self, name: str, work_out: Callable[[], Part], otherwise: Part) -> Part:
        """``work_out()``; where that fails ``otherwise``, and ``failed[name]`` says so."""
        words: list[str] = []
        result = part(f"the part on {name}", work_out, otherwise, words)
        self.failed.update(dict.fromkeys([name] * len(words), "; ".join(words)))
        return result

    @property
    def failed_parts(self) -> list[str]:
        """All that could not be worked out so far, here and in the summary."""
        return [*dict.fromkeys([*self.failed.values(), *self.summary.failed_parts])]

    @property
    def empty(self) -> bool:
        """Whether the trace holds no batch."""
        return self.trace.batches.empty

    @property
    def simulated(self) -> bool:
        """Whether the trace was simulated instead of recorded."""
        return bool(self.trace.meta.get("simulated"))

    @cached_property
    def summary(self) -> Summary:
        """What limits the run."""
        return self.trace.summary()

    @cached_property
    def waits(self) -> Waits:
        """How long the loop waited, step by step."""
        nothing = Waits(0, 0.0, 0.0, 0.0, (), ())
        return self.part("waits", lambda: report_tables.waits_of(self.trace), nothing)

    @cached_property
    def workers(self) -> Rows:
        """A row for each worker."""
        return self.part("workers", lambda: report_tables.workers_of(self.trace), NO_ROWS)

    @cached_property
    def ranks(self) -> Rows:
        """A row for each rank."""
        return self.part("ranks", lambda: report_tables.ranks_of(self.trace), NO_ROWS)

    @cached_property
    def loaders(self) -> Rows:
        """A row for each loader."""
        return self.part("loaders", lambda: report_tables.loaders_of(self.trace), NO_ROWS)

    @cached_property
    def findings(self) -> Diagnosis:
        """What the doctor finds in the recording."""
        return self.part("findings", lambda: findings_of(self.trace, self.summary), Diagnosis(""))

    @cached_property
    def prediction(self) -> Prediction:
        """Between which bounds other settings lie, for the loader that is waited for longest."""
        if self.empty:
            return Prediction(why_not="no batch was recorded")
        failed = Prediction(why_not="this failed")
        return self.part("other settings", lambda: predict(self.trace, *self._whose()), failed)

    def _whose(self) -> tuple[int, int]:
        """The rank and the loader for which the consumer waited longest.

        Where a loader makes one rank slow, that rank alone is looked at; else the loader is the one
        that the summary is about.
        """
        batches, slowest = self.trace.batches, self.summary.slowest
        delivering = [share for share in self.summary.loaders if share.n_batches]
        if slowest is not None and slowest.cause == "loader":
            batches = batches[batches["rank"] == slowest.rank]
        elif delivering:
            most = max(delivering, key=lambda share: share.waited_s).loader
            batches = batches[batches["loader"] == most]
        waits_s = (batches["delivered_s"] - batches["requested_s"]).fillna(0)
        by_loader = waits_s.groupby([batches["rank"], batches["loader"]]).sum()
        rank, loader = by_loader.index[int(by_loader.to_numpy().argmax())]
        return int(rank), int(loader)

    @cached_property
    def audits(self) -> list[LoaderAudit]:
        """Of each loader, whether its samples came exactly once."""
        none: list[LoaderAudit] = []
        return none if self.empty else self.part("audits", lambda: audit_loaders(self.trace), none)

    @cached_property
    def causes(self) -> Rows:
        """Where the waiting went: a row for each cause, as ``cause_rows`` makes them."""
        return self.part("causes", lambda: cause_rows(self.summary), NO_ROWS)

    @cached_property
    def lines(self) -> Rows:
        """The lines of code that took longest to read samples; none where they were not seen."""
        return self.part("lines of code", self._lines, NO_ROWS)

    def _lines(self) -> Rows:
        rows = costly_lines(self.summary)
        return [{**row, "known": known_cost(row)} for row in rows]

    @property
    def costly_causes(self) -> Rows:
        """Those that took a part of the time that is worth a picture of its own."""
        return [row for row in self.causes if row["share"] >= NAMED]

    @cached_property
    def loader_names(self) -> dict[int, str]:
        """A short name for each loader, by number."""
        numbers = {*self.trace.batches["loader"].tolist(), *self.trace.workers["loader"].tolist()}
        names = {number: f"loader {number}" for number in numbers}
        names |= self.part("names of loaders", lambda: short_names(self.trace), names)
        return {number: _bounded_text(name) for number, name in names.items()}

    @cached_property
    def shapes(self) -> Shapes:
        """What the batches are made of."""
        names = ("loader", "shapes", "batches", "samples", "share", "first_epoch", "first_batch")
        nothing = Shapes(pd.DataFrame(columns=names), 0, 0, (), {})
        return self.part("shapes", self.trace.shapes, nothing)

    @property
    def title(self) -> str:
        """The label of the recording, or else the names of its datasets."""
        label = self.trace.meta.get("label")
        return _bounded_text(label) if label else ", ".join(self.datasets) or "DataLoader"

    @property
    def datasets(self) -> list[str]:
        """The datasets' class names, each once, in the order of their loaders."""
        abouts = self.trace.meta.get("loaders") or ()
        names = [_bounded_text(about["dataset"]) for about in abouts if about.get("dataset")]
        return list(dict.fromkeys(names))

    @property
    def slowest_rank(self) -> int | None:
        """The rank that waits, or takes, clearly longer than the others; None without one."""
        return None if self.summary.slowest is None else self.summary.slowest.rank

    @cached_property
    def about(self) -> list[tuple[str, str]]:
        """Where and when the trace was recorded and how the loaders were set: names and values."""
        no_lines: list[tuple[str, str]] = []
        return self.part("about", self._about, no_lines)

    def _about(self) -> list[tuple[str, str]]:
        meta = self.trace.meta
        n_ranks = meta.get("world_size") or 1
        pairs = [
            ("recorded", _recording_time(meta)),
            ("host", meta.get("host")),
            ("CPUs allowed", meta.get("cpu_allowance")),
            ("ranks", f"{len(self.ranks)} of {n_ranks}" if n_ranks > 1 else None),
            ("torch", meta.get("torch")),
            ("Python", meta.get("python")),
            ("platform", meta.get("platform")),
        ]
        lines = [(name, _bounded_text(value)) for name, value in pairs if value not in (None, "")]
        for number, about in enumerate(self.trace.meta.get("loaders") or ()):
            if not about:  # a later life of another
                continue
            name = self.loader_names.get(number, f"loader {number}")
            name = name if len(self.loaders) > 1 else "loader"
            made = f", made {lives(meta, number):,} times" * (lives(meta, number) > 1)
            lines.append((name, f"{_configuration(about)}{made}"))
        return lines

    @property
    def problems(self) -> list[str]:
        """What the recording lacks, a sentence each."""
        meta = self.trace.meta
        problems = [_bounded_text(problem) for problem in meta.get("problems") or ()]
        problems += [f"not read: {_bounded_text(recording)}" for recording in self.summary.unread]
        n_samples, n_batches = left_out(meta)
        if n_samples:
            problems.append(
                f"past the limit, {n_samples:,} samples and spans were not written down"
            )
        if n_batches and not meta.get("windows"):  # else the summary has said so
            problems.append(f"{n_batches:,} batches were not written down")
        if not meta.get("complete", True) and not problems:
            problems.append("the recording is not complete")
        return problems

    @property
    def incidents(self) -> Rows:
        """What a recording with ``last_s`` has saved, with when that was."""
        rows: list[Any] = self.trace.incidents.to_dict("records")
        return [
            {
                **row,
                "name": incident_name(row["rank"], row["incident"]),
                "clock": clock_time(row["start_s"]),
                "text": _bounded_text(row["text"]),
                "path": row["path"] and _bounded_text(row["path"]),
            }
            for row in rows[:MOST_INCIDENTS]
        ]

    @cached_property
    def actions(self) -> list[Action]:
        """What to do, the most urgent first."""
        none: list[Action] = []
        return self.part("what to do", self._actions, none)

    def _actions(self) -> list[Action]:
        of_findings = [
            Action(finding.title, "; ".join(finding.evidence), finding.fix, finding.severity)
            for finding in self.findings.findings
            if not self._is_of_settings(finding)
        ]
        errors = [action for action in of_findings if action.kind == "error"]
        errors += [
            Action(
                "Samples come more than once",
                f"{loader_audit.audit.verdict}.",
                self._distributed_sampler_code(loader_audit.loader),
                "error",
            )
            for loader_audit in self.audits
            if loader_audit.audit is not None
            and loader_audit.audit.exactly_once is False
            and not loader_audit.audit.as_told
        ]
        others = [
            Action(fault, note, kind="warning")
            for loader_audit in self.audits
            for note in (loader_audit.audit.notes if loader_audit.audit else ())
            for fault in (SAME_BATCH, SAME_ORDER)
            if note.startswith(fault)
        ]
        others += [action for action in of_findings if action.kind != "error"]
        return [*errors, *self._settings_action(), *others]

    def _is_of_settings(self, finding: Finding) -> bool:
        """Whether a finding is about the workers that the settings of the same loader lack."""
        present, chosen = self.prediction.present, self.prediction.chosen
        return (
            finding.code == "LV301"
            and present is not None
            and present["num_workers"] < chosen["num_workers"]
            and (len(self.loaders) == 1 or finding.evidence[0] == f"seen in {self._predicted}")
        )

    @property
    def _predicted(self) -> str:
        return self.loader_names[self.prediction.loader]

    def _distributed_sampler_code(self, loader: int) -> str:
        """The fix where several ranks read the whole of one map-style dataset; else empty."""
        about = loader_description(self.trace.meta, loader)
        shares_out = about.get("sampler") == "DistributedSampler"
        reads_all = len(self.ranks) > 1 and about.get("kind") == "map" and not shares_out
        return SHARED if reads_all else ""

    def _settings_action(self) -> list[Action]:
        """Whether to change the settings, by the bounds; without any, the first cause."""
        if not self.summary.waits_are_seen:
            why = f"{self.summary.verdict}. {RECORD_ITS_OBJECT}"
            return [Action("Record what the loop iterates", why)]
        prediction = self.prediction
        recommendation = prediction.recommendation
        present, chosen = prediction.present, prediction.chosen
        if (
            recommendation is None
            or present is None
            or math.isnan(recommendation.demand_per_s)
            or one_by_one_s(self.trace, prediction.loader) is not None  # slices need no workers
        ):
            return [
                Action(
                    f"First cause of waiting{_whose(row['loader_name'], 'for')}: {row['name']}, "
                    f"{percent(row['share'])} of the run",
                    f"{row['evidence']}. {row['cure']}",
                )
                for row in self.costly_causes[:1]
            ]
        of = _whose(self.summary.name_of(prediction.loader) if len(self.loaders) > 1 else "")
        if chosen["num_workers"] != present["num_workers"]:
            more = chosen["num_workers"] > present["num_workers"]
            why, _, changed = recommendation.verdict.rpartition(": ")
            what = f"Change the settings{of}: {changed}" if more else f"Fewer workers may do{of}"
            facts = why if more else recommendation.verdict
            why = f"{_changes(prediction)}. {facts[:1].upper()}{facts[1:]}"
            return [Action(what, why, recommendation.code)]
        if self.summary.wait_share <= NEVER_WAITS or recommendation.limits.startswith("step"):
            why = "the model's own steps set the pace: faster loading would gain nothing"
            return [Action(f"Keep the settings{of or ' of the loader'}", why, kind="fine")]
        why = f"more workers are not known to be faster; limit: {recommendation.limits}"
        return [Action(f"Keep the settings{of}, and make a sample cheaper", why)]

    def data(self) -> dict[str, Any]:
        """What the report says as plain data, for JSON; times are in seconds, shares 0 to 1."""
        prediction = self.prediction
        recommendation = prediction.recommendation
        return {
            "title": self.title,
            "simulated": self.simulated,
            "about": dict(self.about),
            "verdict": self.summary.verdict,
            "summary": {
                **self.summary.as_dict(),
                "wait_share": self.summary.wait_share,
            },
            "causes": self.summary.causes.to_dict("records"),
            "lines": self.lines,
            "actions": [dataclasses.asdict(action) for action in self.actions],
            "waits": dataclasses.asdict(self.waits),
            "workers": [{**row, "last_key": key_text(row["last_key"])} for row in self.workers],
            "shapes": {
                "n_shapes": self.shapes.n_shapes,
                "n_unknown": self.shapes.n_unknown,
                "most_common": self.shapes.table.head(MOST_SHAPES).to_dict("records"),
                "predicted_padding": [dataclasses.asdict(each) for each in self.shapes.padding],
            },
            "ranks": self.ranks,
            "slowest_rank": self.slowest_rank,
            "loaders": [{**row, "name": self.loader_names[row["loader"]]} for row in self.loaders],
            "findings": [dataclasses.asdict(finding) for finding in self.findings.findings],
            "undecided": [
                {"code": finding.code, "title": finding.title, "why": " ".join(finding.evidence)}
                for finding in self.findings.undecided
            ],
            "predicted": None
            if recommendation is None
            else {
                "rank": prediction.rank,
                "loader": prediction.loader,
                "from_batches": prediction.n_batches,
                **recommendation.data(),
            },
            "not_predicted": prediction.why_not or None,
            "audits": [_audit_data(loader_audit) for loader_audit in self.audits],
            "problems": self.problems,
            "failed_parts": self.failed_parts,
        }


def content_of(trace: Trace) -> Content:
    """What the report says of a trace: findings, bounds, audits and tables."""
    return Content(as_one(trace))


def key_text(key: Any) -> str | None:
    """A sample's key as text of at most 300 characters; None where there is no key."""
    return None if key is None else _bounded_text(key if isinstance(key, str) else repr(key))


def _audit_data(loader_audit: LoaderAudit) -> dict[str, Any]:
    audit = loader_audit.audit
    return {
        "loader": loader_audit.loader,
        "exactly_once": audit.exactly_once if audit else None,
        "verdict": audit.verdict if audit else loader_audit.why_not,
        "notes": list(audit.notes) if audit else [],
        "mixing": _mixing_data(loader_audit.mixing),
    }


def _mixing_data(mixing: Mixing | None) -> dict[str, Any] | None:
    if mixing is None:
        return None
    numbers = {"score": mixing.score, "buffer_size": round(mixing.buffer_size)}
    return {**numbers, "verdict": mixing.verdict, "notes": list(mixing.notes)}


def _changes(prediction: Prediction) -> str:
    """What the recommended settings change, from what to what."""
    present, chosen = prediction.present, prediction.chosen
    names = ("num_workers", "prefetch_factor", "in_order", "persistent_workers")
    pairs = [(name, present[name], chosen[name]) for name in names]
    if 0 in (present["num_workers"], chosen["num_workers"]):
        pairs = pairs[:1]  # the others mean nothing without workers
    return ", ".join(f"{name} {was} → {will}" for name, was, will in pairs if was != will)


def _whose(loader_name: str, word: str = "of") -> str:
    """Of which loader something is, where there are several."""
    return f" {word} {_bounded_text(loader_name)}" if loader_name else ""


def _recording_time(meta: Any) -> str | None:
    """When the recording began, in UTC; None where the trace does not say."""
    if meta.get("started") is None:
        return None
    moment = datetime.fromtimestamp(meta["started"][1] / 1e9, UTC)
    return moment.strftime("%Y-%m-%d %H:%M UTC")


def _bounded_text(value: Any) -> str:
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return text if len(text) <= MOST_CHARACTERS else text[: MOST_CHARACTERS - 1] + "…"


def _configuration(about: dict[str, Any]) -> str:
    """A loader's configuration in one line; what it was not given is left out."""
    text = _bounded_text
    parts = [f"{text(about.get('class', 'DataLoader'))} of {text(about.get('dataset', '?'))}"]
    parts.append(f"{text(about.get('kind', 'map'))}-style")
    names = ("batch_size", "num_workers", "prefetch_factor", "start_method")
    parts += [f"{name}={text(about[name])}" for name in names if about.get(name) is not None]
    flags = ("persistent_workers", "pin_memory", "drop_last")
    parts += [name for name in flags if about.get(name)]
    if about.get("in_order") is False:
        parts.append("in_order=False")
    return ", ".join(parts)
